"""Queries and gallery in class order, by exact cosine: what is relevant to a query is a run of columns.

Protocols, all of them this one comparison:

    leave-one-out     the set is its own gallery; a query is never its own neighbor (`own`)
    some queries      a sample of the set against all of it, likewise
    query, gallery    two sets (In-Shop; a test set against the training gallery); nothing is left out

A relevant item is one of the query's class, other than the query itself. A lone query has none.

Memory: a few int64 for each row, and a copy of the gallery's unit rows if it fits into the scratch; otherwise
blocks are read from where the rows are, which may be a memory-mapped file (fastest if its rows stand in class
order already).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import one_label_each
from shadowmetric.mining.classes import group_by_class
from shadowmetric.mining.label_tree import LabelTree
from shadowmetric.ops.exact_rows import GRID, ExactUnitRows
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.runs import Runs
from shadowmetric.types import AnyLabels

STEPS = GRID**2  # of a similarity, from 0 to 1
HALF_A_STEP = 0.5 / STEPS


class Sets(NamedTuple):
    """What is compared, as it came."""

    query: Tensor  # (queries, dim)
    labels: AnyLabels  # (queries,) int64, or a relation
    gallery: Tensor  # (gallery, dim)
    gallery_labels: AnyLabels  # (gallery,) int64, or a relation
    own: Tensor | None  # (queries,) the gallery row that is the query itself; None for two sets

    def some(self, selection: Tensor | slice) -> "Sets":
        """Return the same with some of the queries; consecutive ones, given as a slice, are not copied."""
        own = None if self.own is None else self.own[selection]
        return self._replace(query=self.query[selection], labels=self.labels[selection], own=own)

    def classes(self) -> tuple[Tensor, Tensor]:
        """Return the labels of both sides; refuse a relation."""
        return one_label_each(self.labels, "this measure"), one_label_each(self.gallery_labels, "this measure")

    def as_relation(self) -> "Sets":
        """Return the same with one label for each row as a tree of one level."""
        mine, theirs = (LabelTree(labels[:, None]) for labels in self.classes())
        return self._replace(labels=mine, gallery_labels=theirs)


class Comparison(NamedTuple):
    """Both sides arranged by class, the largest class of the gallery first.

    The product of both is the similarity and half a step, which only items of other classes are to keep.
    """

    query: Rows
    gallery: Rows
    order: Tensor  # (queries,) the query at each row
    own: Tensor  # (queries,) the column of the query itself, or -1
    relevant: Tensor  # (queries,) how many relevant items; never increases
    runs: Runs  # the rectangles of equal class, queries themselves included


def compare(sets: Sets, scratch_bytes: int) -> Comparison:
    """Arrange both sides."""
    classes = group_by_class(*sets.classes())
    own = torch.full_like(classes.order, -1)
    if sets.own is not None:
        column = torch.empty_like(classes.reference_order)
        column[classes.reference_order] = torch.arange(len(column), device=column.device)
        own = column[sets.own[classes.order]]
    return Comparison(
        ExactUnitRows(sets.query, classes.order, tail=1.0),
        ExactUnitRows(sets.gallery, classes.reference_order, tail=HALF_A_STEP).make_whole(scratch_bytes),
        classes.order,
        own,
        classes.size - (own >= 0).long(),
        classes.runs,
    )


def in_order_of_queries(values: Tensor, order: Tensor) -> Tensor:
    """Return values given by arranged row as values by query."""
    return torch.empty_like(values).index_copy_(0, order, values)


def relevant_counts(sets: Sets) -> Tensor:
    """Return for each query how many relevant items it has."""
    labels, gallery_labels = sets.classes()
    known, place = torch.unique(torch.cat([labels, gallery_labels]), return_inverse=True)
    counts = torch.bincount(place[len(labels) :], minlength=len(known))
    return counts[place[: len(labels)]] - int(sets.own is not None)
