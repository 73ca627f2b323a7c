"""Silhouette: is a row nearer to its own class than to the nearest other one?

    a(i) = mean distance to the other rows of its class
    b(i) = least, over the other classes, of the mean distance to that class
    s(i) = (b - a) / max(a, b),  from -1 to 1

Source: Rousseeuw, "Silhouettes" (1987). Distances are between unit rows: Euclidean by default (scikit-learn's
default metric on unit rows), "squared", or "cosine" (1 - cos; half the squared one but for
zero rows, so the same silhouette).

Edge cases: a row that is alone in its class scores 0; so does one with a = b = 0 (duplicates everywhere).
With one class only there is no b, and every s is NaN. Distances below 3e-7, which is what rounding leaves
between equal rows, count as 0. Labels are the true classes, not clusters.

How: mean squared distance to a class follows from the class's mean row, since the mean of |x - y|^2 over y is
linear in y; that needs (rows x classes) products and is exact. Euclidean distances have no such short cut: all
pairs are made in blocks, roots taken, and summed class by class (classes are consecutive, so the sums are too).

Cost: float64 throughout, as scikit-learn's. Memory: the scratch, and a few numbers for each row.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_choice
from shadowmetric.evaluation.comparison import Sets
from shadowmetric.ops.row_lengths import row_lengths_of
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import Progress, similarity_blocks

DISTANCES = ("euclidean", "squared", "cosine")
ROUNDING = 1e-13  # of a squared distance between equal unit rows, in float64, with room to spare


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
    score = (nearest - own) / torch.maximum(nearest, own)
    return score.nan_to_num(0.0).masked_fill_(size < 2, 0.0)


class _Classes(NamedTuple):
    """The gallery in class order."""

    order: Tensor  # (gallery,) the gallery row at each place
    at: Tensor  # (gallery,) the class at each place, ascending from 0
    size: Tensor  # (classes,)
    query: Tensor  # (queries,) the class of each query


def _classes(sets: Sets) -> _Classes:
    known, place = torch.unique(sets.gallery_labels, return_inverse=True)
    order = torch.argsort(place, stable=True)
    return _Classes(order, place[order], torch.bincount(place), torch.searchsorted(known, sets.labels))


class _Unit(NamedTuple):
    """What makes unit rows in float64: lengths to divide by, and what is then left of the squared length (0 or 1)."""

    divisor: Tensor
    square: Tensor


def _unit(source: Tensor) -> _Unit:
    length = row_lengths_of(source, torch.float64)
    divisor = length.clamp_min(1e-300)
    return _Unit(divisor, (length / divisor).square())


Sums = Iterator[tuple[int, slice, Tensor]]  # the first of some classes, some queries, (classes, queries) sums


def _sums_of_all_pairs(sets: Sets, classes: _Classes, _: bool, scratch_bytes: int, progress: Progress | None) -> Sums:
    """Yield the sums of Euclidean distances from all rows of some classes to some queries."""
    gallery, query = _unit(sets.gallery), _unit(sets.query)
    one, other_one = torch.ones_like(gallery.divisor), torch.ones_like(query.divisor)
    left = Rows(
        sets.gallery, order=classes.order, divisor=gallery.divisor, tail=(gallery.square, one), dtype=torch.float64
    )
    tail = (other_one, query.square - ROUNDING)
    right = Rows(sets.query, divisor=query.divisor / -2, tail=tail, dtype=torch.float64)
    unfinished = torch.zeros_like(query.divisor)  # sums of the class that the last rows were in the middle of
    for top, bottom, begin, end, squared in similarity_blocks(
        left.made_whole(scratch_bytes),
        right.made_whole(scratch_bytes),
        scratch_bytes=scratch_bytes,
        temporaries=1.0,
        least=0.0,
        progress=progress,
    ):
        some = slice(begin, end)
        first, last = int(classes.at[top]), int(classes.at[bottom - 1])
        sums = squared.new_zeros(last - first + 1, end - begin)
        sums[0] = unfinished[some]
        sums.index_add_(0, classes.at[top:bottom] - first, squared.sqrt_())
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

    sum over y of |x - y|^2 = n |x|^2 + sum |y|^2 - 2 x . sum y, and of 1 - cos = n - x . sum y.
    """
    gallery, query = _unit(sets.gallery), _unit(sets.query)
    size = classes.size.double()
    rows = Rows(sets.gallery, order=classes.order, divisor=gallery.divisor, dtype=torch.float64)
    total = torch.zeros(len(size), sets.gallery.shape[1], dtype=torch.float64, device=sets.gallery.device)
    some = max(1, scratch_bytes // (32 * rows.width))
    for start in range(0, len(rows), some):
        stop = min(start + some, len(rows))
        total.index_add_(0, classes.at[start:stop], rows.load(start, stop))
    if cosine:
        left = Rows(total.neg_(), tail=(size, torch.zeros_like(size)))
        itself = 1 - query.square  # a zero row is at distance 1 even from itself, by the formula; not by definition
    else:
        squares = torch.zeros_like(size).index_add_(0, classes.at, gallery.square[classes.order])
        left = Rows(total.mul_(-2), tail=(squares, size))
        itself = torch.zeros_like(query.divisor)
    right = Rows(
        sets.query, divisor=query.divisor, tail=(torch.ones_like(query.divisor), query.square), dtype=torch.float64
    )
    for top, bottom, begin, end, block in similarity_blocks(
        left, right, scratch_bytes=scratch_bytes, temporaries=2.0, progress=progress
    ):
        here = slice(begin, end)
        own = classes.query[here] == torch.arange(top, bottom, device=size.device)[:, None]
        block.sub_(own * itself[here]).sub_(ROUNDING * size[top:bottom, None]).clamp_min_(0.0)
        yield top, here, block
