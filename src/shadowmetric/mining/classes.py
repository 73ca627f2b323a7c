"""Rows grouped by class, so that the positives of a row are consecutive columns.

Miners work in this arrangement: classes one after the other, the largest first, rows of a class in
batch order. A row's s-th partner is then at a known column, the rows that have an s-th partner are
the first ones, and what must not be a negative is a rectangle.

Labels are compared as int64 and never become floats. Memory: a few int64 for each row.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.runs import Runs
from shadowmetric.types import Labels, ReferenceLabels


class Classes(NamedTuple):
    """The arrangement of a batch and of the rows it is compared with."""

    order: Tensor  # (batch,) the batch row at each place
    reference_order: Tensor  # (references,) the reference row at each place
    start: Tensor  # (batch,) first column of the row's class
    size: Tensor  # (batch,) columns of the row's class, itself included
    place: Tensor  # (batch,) of the row in its class, and beyond its end among references: partner s skips it
    partners: Tensor  # (batch,) how many partners a row has; never increases
    runs: Runs  # the rectangles of equal class


def group_by_class(labels: Labels, reference_labels: ReferenceLabels | None) -> Classes:
    """Arrange a batch that is compared with itself (None) or with references."""
    own = reference_labels is None
    others = labels if reference_labels is None else reference_labels
    _, classes = torch.unique(torch.cat([labels, others]), return_inverse=True)
    count = torch.bincount(classes[len(labels) :], minlength=int(classes.max()) + 1)
    place = torch.empty_like(count)  # of each class: the largest class first
    place[torch.argsort(count, descending=True, stable=True)] = torch.arange(len(count), device=count.device)
    batch_place, reference_place = place[classes[: len(labels)]], place[classes[len(labels) :]]
    order = torch.argsort(batch_place, stable=True)
    reference_order = order if own else torch.argsort(reference_place, stable=True)
    sizes = torch.bincount(reference_place, minlength=len(count))
    starts = sizes.cumsum(0) - sizes
    arranged = batch_place[order]
    start, size = starts[arranged], sizes[arranged]
    position = torch.arange(len(order), device=order.device) - start
    place = position if own else size
    return Classes(
        order, reference_order, start, size, place, size - int(own), _runs(arranged, starts, sizes, start, size)
    )


def partner_columns(classes: Classes, slots: range, rows: slice | Tensor) -> Tensor:
    """Return the columns of some partners of some rows, in the order of their row numbers: (slots, rows)."""
    slot = torch.arange(slots.start, slots.stop, device=classes.start.device)[:, None]
    return classes.start[rows] + slot + (slot >= classes.place[rows])


def rows_with_partner(classes: Classes) -> list[int]:
    """Return for each slot how many rows have a partner there (they are the first ones)."""
    if len(classes.partners) == 0 or int(classes.partners[0]) == 0:
        return []
    return torch.bincount(classes.partners).flip(0).cumsum(0)[:-1].flip(0).tolist()


def positive_pairs(labels: Labels, reference_labels: ReferenceLabels | None = None) -> int:
    """Return how many pairs (anchor, positive) labels make, each direction counted."""
    return int(group_by_class(labels, reference_labels).partners.sum())


def _runs(arranged: Tensor, starts: Tensor, sizes: Tensor, start: Tensor, size: Tensor) -> Runs:
    """Return the rectangles (rows of a class) x (columns of that class)."""
    place, rows = torch.unique_consecutive(arranged, return_counts=True)
    stop = rows.cumsum(0)
    columns = (stop - rows, stop, starts[place], starts[place] + sizes[place])
    return Runs(*(column.tolist() for column in columns), starts=start, stops=start + size)
