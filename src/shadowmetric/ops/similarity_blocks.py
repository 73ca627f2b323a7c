"""The one block loop: left @ right.T, a block at a time, in a fixed amount of memory.

Everything here that compares rows with rows (mining, losses over whole rows, top-k, evaluation,
and later search) is a small reducer over these blocks. The product as a whole never exists.

Memory: about `scratch_bytes`, whatever the number of rows: one block, the reducer's temporaries of
the same shape (the caller says how many), and the rows of both sides that the block was made of.
Time: the matrix product itself. Block buffers are allocated once, since fresh ones cost page faults.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.rows import Rows
from shadowmetric.progress import Progress

SCRATCH_BYTES = 32 * 2**20
LONGEST_SIDE = 1536  # larger blocks leave the cache, smaller ones cost more calls; 1024 to 2048 differ by noise
HALVED = 1024  # a square of this side on the diagonal of a triangle is worth cutting
SHORTEST_SIDE = 8  # however small the scratch
DEVICE_FACTOR = 128  # other devices than a CPU have faster memory, and every call there is a launch

Span = tuple[int, int, int, int]  # rows [top, bottom), columns [first, last)
Reach = Callable[[int, int], tuple[int, int]]


def scratch_on(device: torch.device, scratch_bytes: int) -> int:
    """Return the bytes that blocks may take on a device: those of a CPU, or 128 times as many elsewhere."""
    return scratch_bytes if device.type == "cpu" else DEVICE_FACTOR * scratch_bytes


class Block(NamedTuple):
    """A rectangle of the product: values[i, j] = left[top + i] . right[first + j]."""

    top: int
    bottom: int
    first: int
    last: int
    values: Tensor  # (bottom - top, last - first); overwritten by the next block


def similarity_blocks(
    left: Rows,
    right: Rows,
    *,
    scratch_bytes: int = SCRATCH_BYTES,
    reach: Reach | None = None,
    temporaries: float = 0.0,
    longest_side: int = LONGEST_SIDE,
    widths: int = 1,
    width: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Block]:
    """Yield blocks that cover the product, or for each rows [top, bottom) only the columns of reach(top, bottom).

    With reach = lambda top, bottom: (top, len(right)) the blocks are the upper triangle of a
    symmetric product, every block on the diagonal is square, and below those there is none.
    A block is at most `widths` sides wide, or has about `width` columns and as many rows as then fit into the scratch.
    """
    temporaries += left.temporaries
    side = min(longest_side, square_side(left, scratch_bytes, temporaries))
    height, widest = side, widths * side
    if width is not None:
        loaded = 0 if right.as_it_is else 2 * left.width
        widest = min(width, max(side, widest_beside(loaded, left, scratch_bytes, temporaries)))
        height = rows_beside(widest, loaded, left, scratch_bytes, temporaries)
    height = even(len(left), height)
    spans = [_span(top, min(top + height, len(left)), len(right), reach) for top in range(0, len(left), height)]
    square = len(left) == len(right) and widest == side
    wide = [height if square else even(end - begin, widest) for _, _, begin, end in spans]
    cuts = [_cuts(*both, triangle=square and reach is not None) for both in zip(spans, wide, strict=True)]
    done, area = 0, sum((bottom - top) * (last - first) for cut in cuts for top, bottom, first, last in cut)
    values = torch.empty(0, device=left.source.device, dtype=left.dtype)
    for (start, stop, _, _), cut in zip(spans, cuts, strict=True):
        loaded_rows = left.load(start, stop)
        for top, bottom, first, last in cut:
            rows, columns = loaded_rows[top - start : bottom - start], right.load(first, last)
            if values.numel() < len(rows) * len(columns):
                values = values.new_empty(len(rows) * len(columns))
            block = values[: len(rows) * len(columns)].view(len(rows), len(columns))
            left.multiply(rows, right, columns, top, first, block)
            yield Block(top, bottom, first, last, block)
            done += block.numel()
            if progress is not None:
                progress(done / area)


def _cuts(span: Span, wide: int, *, triangle: bool) -> list[Span]:
    """Return the blocks of some rows: so wide each, but a large square on the diagonal without its lower left quarter.

    Who reads such a triangle mirrors the blocks off the diagonal; more of them is less to multiply.
    """
    top, bottom, begin, end = span
    cuts = [(top, bottom, first, min(first + wide, end)) for first in range(begin, end, wide)]
    if triangle and cuts and cuts[0] == (top, bottom, top, bottom) and bottom - top >= HALVED:
        middle = top + (bottom - top) // 128 * 64
        halves = [(top, middle, middle, bottom), (top, middle, top, middle), (middle, bottom, middle, bottom)]
        return [*cuts[1:], *halves]  # the largest first: who looks for a minimum has most of it at once
    return cuts


def _span(top: int, bottom: int, columns: int, reach: Reach | None) -> Span:
    """Return the rows of a block, and the columns that it reaches."""
    begin, end = (0, columns) if reach is None else reach(top, bottom)
    return top, bottom, begin, end


def whole_row_blocks(
    left: Rows,
    right: Rows,
    *,
    scratch_bytes: int = SCRATCH_BYTES,
    temporaries: float = 0.0,
    multiple: int = 1,
    progress: Progress | None = None,
) -> Iterator[Block]:
    """Yield blocks of whole rows, a multiple of `multiple` at once, for reducers that need all of a row."""
    temporaries += left.temporaries
    fitting = fitting_rows(len(right), left.width, left.dtype.itemsize, scratch_bytes, temporaries)
    height = row_height(len(left), fitting, left.source.device, multiple)
    values = torch.empty(min(height, len(left)), len(right), device=left.source.device, dtype=left.dtype)
    side = square_side(left, scratch_bytes // 4, 0.0)
    for top in range(0, len(left), height):
        bottom = min(top + height, len(left))
        block = values[: bottom - top]
        _multiply_whole(left, right, top, block, side)
        yield Block(top, bottom, 0, len(right), block)
        if progress is not None:
            progress(bottom / len(left))


def _multiply_whole(left: Rows, right: Rows, top: int, out: Tensor, side: int) -> None:
    """Write whole rows of the product into `out`, loading `side` rows of the right at a time unless they are whole."""
    rows = left.load(top, top + len(out))
    side = len(right) if right.as_it_is else even(len(right), side)
    for first in range(0, len(right), side):
        columns = right.load(first, min(first + side, len(right)))
        left.multiply(rows, right, columns, top, first, out[:, first : first + len(columns)])


def even(size: int, side: int) -> int:
    """Return a side of about `side` that cuts the size into nearly equal parts."""
    parts = max(1, -(-size // side))
    part = max(SHORTEST_SIDE, -(-size // parts))
    if part >= 256:
        part = -(-part // 64) * 64  # groups of 64 reduce without a remainder
    return part


def square_side(left: Rows, scratch_bytes: int, temporaries: float) -> int:
    """Return the largest side whose square block, with temporaries and loaded rows, fits into the scratch."""
    numbers = scratch_bytes / left.dtype.itemsize
    blocks, loaded = 1.0 + temporaries, 3.0 * left.width  # both sides, and one gather
    side = (math.sqrt(loaded**2 + 4 * blocks * numbers) - loaded) / (2 * blocks)
    return max(SHORTEST_SIDE, min(LONGEST_SIDE, int(side) // 64 * 64 or int(side)))


def fitting_rows(columns: int, width: int, itemsize: int, scratch_bytes: int, temporaries: float) -> int:
    """Return how many whole rows, with temporaries and loaded rows, fit into three quarters of the scratch."""
    numbers = 0.75 * scratch_bytes / itemsize
    return int(numbers / (columns * (1.0 + temporaries) + 2 * width))


def row_height(rows: int, fitting: int, device: torch.device, multiple: int = 1) -> int:
    """Return how many whole rows a block has of those that fit: on a CPU no more than its cache likes."""
    longest = LONGEST_SIDE if device.type == "cpu" else fitting
    return -(-even(rows, max(SHORTEST_SIDE, min(longest, fitting))) // multiple) * multiple


def rows_beside(columns: int, loaded: int, left: Rows, scratch_bytes: int, temporaries: float) -> int:
    """Return how many rows, each with its block entries and temporaries, fit beside columns of so many numbers."""
    numbers = scratch_bytes / left.dtype.itemsize - columns * loaded
    return max(SHORTEST_SIDE, min(LONGEST_SIDE, int(numbers / (columns * (1.0 + temporaries) + 2 * left.width))))


def widest_beside(loaded: int, left: Rows, scratch_bytes: int, temporaries: float) -> int:
    """Return how many columns may be loaded so that they, and a block as thin as can be, take half of the scratch."""
    numbers = scratch_bytes / left.dtype.itemsize / 2
    return int(numbers / (loaded + SHORTEST_SIDE * (1.0 + temporaries)))
