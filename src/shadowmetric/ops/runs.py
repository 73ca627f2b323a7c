"""Rectangles of a product that has been arranged by class: the rows of a class by the columns of that class.

What must not be a negative, and what is relevant to a query, is a rectangle once both sides stand in
class order. Few large rectangles are handled one by one as slices; many small ones at once, through the
numbers of their entries.

Memory: two int64 for each entry of a block that is handled by its number.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.similarity_blocks import Block

NEVER = float("inf")  # the distance of what is excluded
RECTANGLES_ONE_BY_ONE = 32  # more are handled at once, if their entries are a small share of the block


class Runs(NamedTuple):
    """Rectangles: rows [row_start, row_stop) meet columns [start, stop). Ascending, as Python numbers.

    The same for each row, as tensors: row i meets columns [starts[i], stops[i]).
    """

    row_start: Sequence[int]
    row_stop: Sequence[int]
    start: Sequence[int]
    stop: Sequence[int]
    starts: Tensor
    stops: Tensor

    def between(self, block: Block) -> range:
        """Return the numbers of the rectangles that meet a block."""
        begin = max(bisect_right(self.row_stop, block.top), bisect_right(self.stop, block.first))
        end = min(bisect_left(self.row_start, block.bottom), bisect_left(self.start, block.last))
        return range(begin, end)


def exclude(block: Block, runs: Runs, value: float = NEVER) -> None:
    """Write `value` over the rectangles of a block."""
    for part in _parts(block, runs):
        block.values[part] = value


def add(block: Block, runs: Runs, amount: float) -> None:
    """Add an amount to the entries of the rectangles of a block."""
    for part in _parts(block, runs):
        block.values[part] += amount


def raise_to_maxima(best: Tensor, block: Block, runs: Runs) -> None:
    """Raise best (rows of the block,) to the largest entry of each row inside its rectangle."""
    numbers = _entries_if_small(block, runs)
    if numbers is not None:
        best.scatter_reduce_(0, numbers[0], block.values[numbers], "amax")
        return
    for rows, columns in rectangles(block, runs):
        part = block.values[rows, columns]
        if part.shape[1]:
            best[rows] = torch.maximum(best[rows], part.amax(1))


def rectangles(block: Block, runs: Runs) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns, counted from the block's corner, of each rectangle that meets the block."""
    for run in runs.between(block):
        yield (
            slice(max(runs.row_start[run] - block.top, 0), runs.row_stop[run] - block.top),
            slice(max(runs.start[run] - block.first, 0), runs.stop[run] - block.first),
        )


def _parts(block: Block, runs: Runs) -> Iterable[tuple[Tensor, Tensor]] | Iterable[tuple[slice, slice]]:
    """Return what indexes the rectangles: the numbers of all entries at once, or slices one by one."""
    numbers = _entries_if_small(block, runs)
    return rectangles(block, runs) if numbers is None else [numbers]


def _entries_if_small(block: Block, runs: Runs) -> tuple[Tensor, Tensor] | None:
    """Return the row and column, counted from the block's corner, of every entry; None where slices are better."""
    if len(runs.between(block)) <= RECTANGLES_ONE_BY_ONE:
        return None
    skip = slice(block.top, block.bottom)
    start, stop = ((end[skip] - block.first).clamp(0, block.last - block.first) for end in (runs.starts, runs.stops))
    count = stop - start
    if int(count.sum()) > block.values.numel() // 16:
        return None
    rows = torch.arange(len(count), device=count.device).repeat_interleave(count)
    before = count.cumsum(0) - count
    return rows, torch.arange(len(rows), device=count.device) + (start - before)[rows]
