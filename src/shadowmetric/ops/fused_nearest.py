"""The nearest row of another class beyond each floor, in one kernel: a tile of distances is made, asked, and forgotten.

    distance(i, j) = max(|a_i|^2 + |x_j|^2 - 2 a_i . x_j, 0)         squared
    answer(i, s)   = arg min { distance(i, j) : label_j != label_i, distance(i, j) > floor(i, s) }

The naive program is the (S, R) block of distances in float64, a mask for each slot s, and `min`. A program of this
kernel owns ROWS rows and sweeps tiles of COLUMNS columns. Rows are on the grid (`grid_rows`): multiples of 2^-24, no
longer than 1, so that float64 adds their products exactly, in any order, on tensor cores too (`tl.dot` in float64
becomes mma.m8n8k4.f64 on sm_80 and sm_90). The answer equals that of `nearest_beyond`, bit for bit.

Each slot keeps its floor, its best distance and the column in registers. SLOTS_AT_ONCE of them fit; more slots are more
programs, each of which makes the distances again. Where rows are few, columns are shared out among programs, and
their answers joined: the least distance, of equal ones the smallest column.

Memory: the answers, 16 bytes for each row and slot, times the parts that share the columns; no (S, R) block.
Cost: S R D products in float64 for each SLOTS_AT_ONCE slots. GPUs without tensor cores for float64 do those slowly.

The tests run the kernel in Triton's interpreter and compile it ahead of time. Nobody has yet measured it on a GPU.
"""
# pyright: reportInvalidTypeForm=false
# ruff: noqa: RUF005 (Triton joins tuples by +)

import torch
from torch import Tensor

from shadowmetric.ops.arg_min import LAST
from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.nearest_beyond import Nearest
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.triton_ops import check_device, define_op, missing, tl, triton, wrap_triton

ROWS, COLUMNS, DEPTH = 64, 32, 32  # of a tile
WARPS, STAGES = 8, 2
SLOTS_AT_ONCE = 4  # what registers hold; where D is even and no multiple of 4, ptxas may spill 8 bytes on sm_80
PROGRAMS = 256  # columns are shared out until there are about as many: a wave or two of a large GPU

if not missing():

    @triton.jit
    def tile_distances(rows, others, square, other_square, inside, there, D: tl.constexpr, DEPTH: tl.constexpr):
        """Return the squared distances of a tile: rows and others point at its first rows."""
        i = tl.arange(0, inside.shape[0])[:, None]
        j = tl.arange(0, there.shape[0])[:, None]
        dots = tl.zeros([inside.shape[0], there.shape[0]], tl.float64)
        for first in range(0, D, DEPTH):
            at = first + tl.arange(0, DEPTH)[None, :]
            left = tl.load(rows + i * D + at, mask=inside[:, None] & (at < D), other=0.0)
            right = tl.load(others + j * D + at, mask=there[:, None] & (at < D), other=0.0)
            dots = tl.dot(left.to(tl.float64), tl.trans(right).to(tl.float64), dots, out_dtype=tl.float64)
        return tl.maximum(square[:, None] + other_square[None, :] - 2.0 * dots, 0.0)

    @triton.jit
    def nearest_kernel(
        rows, others, square, other_square, labels, other_labels, floors, distance, column, S, R, share, slots,
        D: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    ):  # fmt: skip
        """Answer SLOTS slots of ROWS rows among `share` columns; column R where there is no answer."""
        top, begin, slot = tl.program_id(0) * ROWS, tl.program_id(1) * share, tl.program_id(2) * SLOTS
        row = top + tl.arange(0, ROWS)
        inside = row < S
        row_square = tl.load(square + row, mask=inside, other=0.0)
        label = tl.load(labels + row, mask=inside, other=0)
        place = row.to(tl.int64) * slots
        floor, best, best_column = (), (), ()
        for s in tl.static_range(SLOTS):
            offsets = place + tl.minimum(slot + s, slots - 1)  # what is left over asks the last slot again
            floor = floor + (tl.load(floors + offsets, mask=inside, other=float("inf")),)
            best = best + (tl.full([ROWS], float("inf"), tl.float64),)
            best_column = best_column + (tl.zeros([ROWS], tl.int32) + R,)
        for first in range(begin, tl.minimum(begin + share, R), COLUMNS):
            number = first + tl.arange(0, COLUMNS)
            there = number < R
            number_square = tl.load(other_square + number, mask=there, other=0.0)
            left, right = rows + top.to(tl.int64) * D, others + tl.cast(first, tl.int64) * D
            squared = tile_distances(left, right, row_square, number_square, inside, there, D, DEPTH)
            other_label = tl.load(other_labels + number, mask=there, other=0)
            differs = (label[:, None] != other_label[None, :]) & there[None, :]
            squared = tl.where(differs, squared, float("inf"))
            new_best, new_column = (), ()
            for s in tl.static_range(SLOTS):
                beyond = tl.where(squared > floor[s][:, None], squared, float("inf"))  # pyright: ignore
                least = tl.min(beyond, 1)
                smallest = tl.min(tl.where(beyond == least[:, None], number[None, :], R), 1)
                better = least < best[s]  # columns ascend: of equal distances the first stays
                new_best = new_best + (tl.where(better, least, best[s]),)
                new_column = new_column + (tl.where(better, smallest, best_column[s]),)
            best, best_column = new_best, new_column
        place += tl.program_id(1).to(tl.int64) * S * slots
        for s in tl.static_range(SLOTS):
            offsets = place + tl.minimum(slot + s, slots - 1)
            tl.store(distance + offsets, best[s], mask=inside)
            tl.store(column + offsets, best_column[s], mask=inside)


def _nearest(
    rows: Tensor,
    others: Tensor,
    square: Tensor,
    other_square: Tensor,
    labels: Tensor,
    other_labels: Tensor,
    floors: Tensor,
) -> tuple[Tensor, Tensor]:
    """Launch the kernel, and join the answers of the parts that share the columns."""
    check_device(nearest_kernel, rows)
    (count, slots), columns = floors.shape, len(others)
    if floors.numel() == 0 or columns == 0:
        return torch.full_like(floors, NEVER), torch.full_like(floors, LAST, dtype=torch.int64)
    stripes, tiles, sweeps = -(-count // ROWS), -(-columns // COLUMNS), -(-slots // SLOTS_AT_ONCE)
    share = -(-tiles // max(1, min(tiles, PROGRAMS // (stripes * sweeps)))) * COLUMNS
    parts = -(-columns // share)
    distance = floors.new_empty(parts, count, slots)
    column = floors.new_empty(parts, count, slots, dtype=torch.int64)
    sides = (rows, others, square, other_square, labels, other_labels, floors)
    wrap_triton(nearest_kernel)[(stripes, parts, sweeps)](
        *(side.contiguous() for side in sides),
        distance,
        column,
        count,
        columns,
        share,
        slots,
        D=rows.shape[1],
        SLOTS=-(-slots // sweeps),
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        DEPTH=DEPTH,
        num_warps=WARPS,
        num_stages=STAGES,
    )
    least = distance.amin(0)
    return least, torch.where((distance == least) & (column < columns), column, LAST).amin(0)


def _nearest_fake(*sides: Tensor) -> tuple[Tensor, Tensor]:
    floors = sides[-1]
    return torch.empty_like(floors), torch.empty_like(floors, dtype=torch.int64)


_NEAREST = define_op("fused_nearest", _nearest, _nearest_fake)


def fused_nearest(left: GridRows, right: GridRows, labels: Tensor, other_labels: Tensor, floors: Tensor) -> Nearest:
    """Return for each row of left and each slot the nearest row of right beyond the floor, of another class.

    left, right: unit rows, not finer. floors (S, slots) float64, -1 where there is none and inf where nothing counts.
    Distances (squared, NEVER if there is none) and ranks, which are the rows of right (the largest int64 if there is
    none), are (S, slots) too. Of equal distances the smallest row.
    """
    for side, classes, name in ((left, labels, "labels"), (right, other_labels, "other_labels")):
        if side.finer or not side.normalize:
            raise ValueError("rows are finer or of free length; give those of GridRows(normalize=True, finer=False).")
        if classes.shape != (len(side),) or classes.dtype != torch.int64:
            raise ValueError(f"{name} is {tuple(classes.shape)} {classes.dtype}; it must be int64, ({len(side)},).")
    if left.dim != right.dim:
        raise ValueError(f"rows have {left.dim} and {right.dim} columns; both sides must have as many.")
    if floors.ndim != 2 or len(floors) != len(left) or floors.dtype != torch.float64:
        raise ValueError(f"floors is {tuple(floors.shape)} {floors.dtype}; it must be float64, ({len(left)}, slots).")
    return Nearest(*_NEAREST(left.first, right.first, left.square, right.square, labels, other_labels, floors))
