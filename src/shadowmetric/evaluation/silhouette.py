"""Silhouette: is a row nearer to its own class than to the nearest other one?

    a(i) = mean distance to the other rows of its class
    b(i) = least, over the other classes, of the mean distance to that class
    s(i) = (b - a) / max(a, b),  from -1 to 1

Source: Rousseeuw, "Silhouettes" (1987). Distances are between unit rows: Euclidean by default (scikit-learn's
default metric on unit rows), "squared", or "cosine" (1 - cos; half the squared one but for
zero rows, so the same silhouette).

Edge cases: a row that is alone in its class scores 0; so does one with a = b = 0 (duplicates everywhere).
With one class only there is no b, and every s is NaN. Distances below 3e-7, which is what the rounding of float32
leaves between rows of one direction, count as 0. Labels are the true classes, not clusters.

How: mean squared distance to a class follows from the class's mean row, since the mean of |x - y|^2 over y is
linear in y; that needs (rows x classes) products. Euclidean distances have no such short cut: all pairs are made in
blocks, roots taken, and summed class by class (classes are consecutive, so the sums are too).

What depends on whose product it is: nothing of the Euclidean ones. Squared distances are exact (`fine_rows`), equal
rows are at distance 0, and distances are rounded to multiples of a step so coarse that the sum over the largest class
is exact in float64, in any order: equal means are equal. Squared and cosine ones sum rows exactly, but the product of a
sum with a query may differ in the last bits; means within what that can explain (TIED) are taken for equal.

Cost: float64 throughout, as scikit-learn's; three products for Euclidean distances. Memory: the scratch, and a few
numbers for each row.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_choice
from shadowmetric.evaluation.comparison import Sets
from shadowmetric.evaluation.fine_rows import ROUNDING, FineUnitRows
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import Progress, similarity_blocks

DISTANCES = ("euclidean", "squared", "cosine")
TIED = 1e-14  # times dim + 16: two means that are as near as that are equal but for rounding


def silhouette(
    sets: Sets, *, distance: str = "euclidean", scratch_bytes: int, progress: Progress | None = None
) -> Tensor:
    """Return s of each query among the classes of the gallery, of which the queries are part: (queries,) float64."""
    check_choice(distance, DISTANCES, "silhouette's distance")
    classes = _classes(sets)
    if len(classes.size) < 2:
        return torch.full((len(sets.labels),), torch.nan, dtype=torch.float64, device=sets.query.device)
    sums = _sums_of_all_pairs if distance == "euclidean" else _sums_through_means
    nearest = torch.full((len(sets.labels),), torch.inf, dtype=torch.float64, device=sets.query.device)
    own = torch.zeros_like(nearest)
    for first, some, block in sums(sets, classes, distance == "cosine", scratch_bytes, progress):
        inside = (classes.query[some] - first).clamp(-1, len(block))
        here = ((inside >= 0) & (inside < len(block))).nonzero()[:, 0]
        own[some][here] = block[inside[here], here]
        means = block.div_(classes.size[first : first + len(block), None])
        means[inside[here], here] = torch.inf
        torch.minimum(nearest[some], means.amin(0), out=nearest[some])
    size = classes.size[classes.query]
    own /= (size - 1).clamp_min(1)
    gap = nearest - own
    if distance != "euclidean":
        gap.masked_fill_(gap.abs() <= TIED * (sets.query.shape[1] + 16), 0.0)
    score = gap / torch.maximum(nearest, own)
    return score.nan_to_num(0.0).masked_fill_(size < 2, 0.0)


class _Classes(NamedTuple):
    """The gallery in class order."""

    order: Tensor  # (gallery,) the gallery row at each place
    at: Tensor  # (gallery,) the class at each place, ascending from 0
    size: Tensor  # (classes,)
    query: Tensor  # (queries,) the class of each query


def _classes(sets: Sets) -> _Classes:
    labels, gallery_labels = sets.classes()
    known, place = torch.unique(gallery_labels, return_inverse=True)
    order = torch.argsort(place, stable=True)
    return _Classes(order, place[order], torch.bincount(place), torch.searchsorted(known, labels))


def _round_values(values: Tensor, largest: float, terms: int) -> Tensor:
    """Round values of at most `largest`, in place, to multiples of a power of 2 such that sums of so many are exact."""
    shift = 1.5 * 2.0 ** math.ceil(math.log2(largest * terms))  # beyond it float64 has no finer digits than the step
    return values.add_(shift).sub_(shift)


Sums = Iterator[tuple[int, slice, Tensor]]  # the first of some classes, some queries, (classes, queries) sums


def _sums_of_all_pairs(sets: Sets, classes: _Classes, _: bool, scratch_bytes: int, progress: Progress | None) -> Sums:
    """Yield the sums of Euclidean distances from all rows of some classes to some queries."""
    left = FineUnitRows(sets.gallery, classes.order, whole_bytes=scratch_bytes)
    right = FineUnitRows(sets.query, whole_bytes=scratch_bytes)
    unfinished = torch.zeros_like(right.square)  # sums of the class that the last rows were in the middle of
    largest = int(classes.size.max())
    for top, bottom, begin, end, squared in similarity_blocks(
        left, right, scratch_bytes=scratch_bytes, temporaries=2.0, progress=progress
    ):
        some = slice(begin, end)
        first, last = int(classes.at[top]), int(classes.at[bottom - 1])
        sums = squared.new_zeros(last - first + 1, end - begin)
        sums[0] = unfinished[some]
        sums.index_add_(0, classes.at[top:bottom] - first, _round_values(squared.sqrt_(), 2.0, largest))
        unfinished[some] = 0.0
        if bottom < len(left) and int(classes.at[bottom]) == last:
            unfinished[some] = sums[-1]
            sums = sums[:-1]
        if len(sums):
            yield first, some, sums


def _sums_through_means(
    sets: Sets, classes: _Classes, cosine: bool, scratch_bytes: int, progress: Progress | None
) -> Sums:
    """Yield the sums of squared or cosine distances from all rows of some classes to some queries.

    sum over y of |x - y|^2 = n |x|^2 + sum |y|^2 - 2 x . sum y. Half of that is 1 - cos, with 1 for |zero row|^2.
    """
    rows, right = FineUnitRows(sets.gallery, classes.order), FineUnitRows(sets.query, whole_bytes=scratch_bytes)
    square, query_square = (torch.where(side.square > 0, side.square, float(cosine)) for side in (rows, right))
    size = classes.size.double()
    squares = size.new_zeros(len(size)).index_add_(0, classes.at, square)
    total = size.new_zeros(len(size), rows.width)  # of the first parts, and of the second: both exact
    some = max(1, scratch_bytes // (32 * rows.width))
    for start in range(0, len(rows), some):
        stop = min(start + some, len(rows))
        total.index_add_(0, classes.at[start:stop], rows.load(start, stop))
    first, second = total.split(rows.dim, dim=1)
    left = Rows(torch.cat([first + second, first], 1))
    itself = 1.0 * (right.square == 0) * cosine  # a zero row's cosine distance from itself: 1 by the formula, yet none
    rounding = ROUNDING * max(1.0, rows.dim / 128)
    for top, bottom, begin, end, block in similarity_blocks(
        left, right, scratch_bytes=scratch_bytes, temporaries=2.0, progress=progress
    ):
        here, there = slice(begin, end), slice(top, bottom)
        block.mul_(-2).add_(squares[there, None]).addcmul_(size[there, None], query_square[here])
        if cosine:
            block.div_(2)
        own = classes.query[here] == torch.arange(top, bottom, device=size.device)[:, None]
        block.sub_(own * itself[here]).sub_(rounding * size[there, None]).clamp_min_(0.0)
        yield top, here, block
