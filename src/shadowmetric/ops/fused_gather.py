"""Weighted sums of chosen rows on a GPU, without atomics: what the backward of a mined loss adds up.

    fused_gather(rows, index, weight)[i]                 = sum over p of weight[i, p] rows[index[i, p]]
    fused_gather_sorted(rows, chosen, weight, begins)[i] = sum over k in [begins[i], begins[i + 1])
                                                           of weight[k] rows[chosen[k]]

The naive programs are `(weight[:, :, None] * rows[index]).sum(1)`, which holds an (S, P, D) block, and `index_add_`,
which adds by atomics, in an order that differs from run to run. Here one program owns a stretch of one sum and adds
its terms one by one, p and k ascending: in float32 (float64 for float64 rows), the same on every run. A row number
outside [0, R), such as the "none" of `fused_nearest`, adds nothing and is never read.

Memory: the result, and an int64 for each sum. Cost: each chosen row is read once for each time that it is chosen. One
sum of very many terms is made by one program, which then takes longer than the others.

The tests run the kernel in Triton's interpreter and compile it ahead of time. Nobody has yet measured it on a GPU.
"""
# pyright: reportInvalidTypeForm=false

import torch
from torch import Tensor

from shadowmetric.ops.triton_ops import check_device, define_op, missing, tl, triton, wrap_triton

STRETCH = 512  # numbers of a row that one program adds at most

if not missing():

    @triton.jit
    def gather_kernel(rows, indices, weight, begins, out, R, D, WIDTH: tl.constexpr):
        """Add the terms [begins[i], begins[i + 1]) over WIDTH numbers of a row."""
        i = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
        total = tl.zeros([WIDTH], tl.float64 if rows.dtype.element_ty == tl.float64 else tl.float32)
        for k in range(tl.load(begins + i), tl.load(begins + i + 1)):
            row = tl.load(indices + k).to(tl.int64)
            there = (row >= 0) & (row < R)
            share = tl.load(weight + k, mask=there, other=0.0).to(total.dtype)
            end = tl.where(there, D, 0)
            total += share * tl.load(rows + row * D + at, mask=at < end, other=0.0).to(total.dtype)
        tl.store(out + i * D + at, total.to(out.dtype.element_ty), mask=at < D)


def _gather(rows: Tensor, indices: Tensor, weight: Tensor, begins: Tensor) -> Tensor:
    """Launch the kernel."""
    check_device(gather_kernel, rows)
    out = _gather_fake(rows, indices, weight, begins)
    if out.numel() == 0:
        return out
    count, dim = out.shape
    width = min(STRETCH, max(16, 1 << (dim - 1).bit_length()))
    sides = (side.contiguous() for side in (rows, indices, weight, begins))
    wrap_triton(gather_kernel)[(count, -(-dim // width))](*sides, out, len(rows), dim, WIDTH=width)
    return out


def _gather_fake(rows: Tensor, indices: Tensor, weight: Tensor, begins: Tensor) -> Tensor:
    return rows.new_empty(len(begins) - 1, rows.shape[1])


_GATHER = define_op("fused_gather", _gather, _gather_fake)


def fused_gather(rows: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Return the sums over p of weight[i, p] rows[index[i, p]]: (S, D), of the rows' type. It has no gradient."""
    if index.ndim != 2 or index.shape != weight.shape:
        shapes = f"{tuple(index.shape)} and {tuple(weight.shape)}"
        raise ValueError(f"index and weight are {shapes}; both must be (sums, terms).")
    count, terms = index.shape
    begins = torch.arange(count + 1, device=index.device) * terms
    return fused_gather_sorted(rows, index.flatten(), weight.flatten(), begins)


def fused_gather_sorted(rows: Tensor, chosen: Tensor, weight: Tensor, begins: Tensor) -> Tensor:
    """Return the sums of weight[k] rows[chosen[k]] for k in [begins[i], begins[i + 1]): (len(begins) - 1, D).

    begins ascends, within [0, len(chosen)]; this is not checked, since reading it would make a GPU wait. No gradient.
    """
    if rows.ndim != 2 or not rows.is_floating_point():
        raise ValueError(f"rows is {tuple(rows.shape)} {rows.dtype}; it must be 2-D, of a floating type.")
    if chosen.ndim != 1 or chosen.shape != weight.shape:
        shapes = f"{tuple(chosen.shape)} and {tuple(weight.shape)}"
        raise ValueError(f"chosen and weight are {shapes}; both must be (terms,).")
    if begins.ndim != 1 or len(begins) == 0:
        raise ValueError(f"begins is {tuple(begins.shape)}; it must be (sums + 1,).")
    return _GATHER(rows, chosen, weight, begins)
