"""The class of a query by the vote of its nearest neighbors.

The k most similar gallery items vote for their class by cosine (k = 5 unless told otherwise: a setting that
changes the figure, so it is printed with it). Most votes win; a tie goes to the class whose best neighbor is
nearer. Neighbors of equal similarity count in ascending order of their label, so the order of the gallery
never matters.

Edge cases: k beyond the gallery asks all of it. In leave-one-out a query is not its own neighbor; where
nothing else is left it has no prediction, which counts as wrong.

Memory: the scratch, and k neighbors for each query.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.evaluation.comparison import Sets
from shadowmetric.ops.exact_rows import ExactUnitRows
from shadowmetric.ops.similarity_blocks import Progress
from shadowmetric.ops.top_k import top_k


class Vote(NamedTuple):
    """What the neighbors of each query say, and who they are."""

    prediction: Tensor  # (queries,) int64 label
    known: Tensor  # (queries,) bool: there was a neighbor
    row: Tensor  # (queries, k) int64 gallery rows, nearest first
    similarity: Tensor  # (queries, k); -inf where there is no neighbor


def vote(sets: Sets, k: int = 5, *, scratch_bytes: int, progress: Progress | None = None) -> Vote:
    """Let the k nearest gallery items of each query vote."""
    gallery_labels = sets.classes()[1]
    order = torch.argsort(gallery_labels, stable=True)
    own = None
    if sets.own is not None:
        own = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=order.device))[sets.own]
    query, gallery = ExactUnitRows(sets.query), ExactUnitRows(sets.gallery, order).make_whole(scratch_bytes)
    neighbors = top_k(query, gallery, k, own=own, scratch_bytes=scratch_bytes, progress=progress)
    row = order[neighbors.row]
    labels, there = gallery_labels[row], neighbors.similarity > float("-inf")
    some = max(1, scratch_bytes // (16 * row.shape[1] ** 2))  # rows whose votes are counted at once
    winner = torch.empty_like(row[:, 0])
    for part in zip(winner.split(some), labels.split(some), there.split(some), strict=True):
        part[0].copy_(_winner(*part[1:]))
    return Vote(labels.gather(1, winner[:, None])[:, 0], there[:, 0], row, neighbors.similarity)


def _winner(labels: Tensor, there: Tensor) -> Tensor:
    """Return for each row the first neighbor whose label has most votes."""
    k = labels.shape[1]
    votes = ((labels[:, :, None] == labels[:, None, :]) & there[:, None, :]).sum(2) * there  # (rows, k)
    return (votes * k - torch.arange(k, device=labels.device)).argmax(1)  # no two are equal
