"""What rows get of the values of rows that are like them: W X, where W is never made.

    out[i] = sum over j of max(cos(row_i, row_j), 0) values[j]

Naive program: (unit @ unit.T).relu() @ values, which keeps (rows, rows) twice. Here a block of rows of W is made and
multiplied, forward, and made again backward, where W is symmetric: one block gives the gradients of its rows, of all
rows, and of the values. A compiled graph does the same in `row_graph`.

Memory: the scratch, both sides on the grid, and the result; kept for backward, rows and values by reference.
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.ops.exact_blocks import Sides, Stream
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_graph import TermList, graph_rows
from shadowmetric.ops.row_stream import Gradients, compared_sides

TEMPORARIES = 4.0  # blocks that one block makes


def row_support(rows: Tensor, values: Tensor, scratch_bytes: int) -> Tensor:
    """Return (rows, numbers): for each row the values of all rows, weighted by cosines above 0; differentiable."""
    stream = Stream(
        normalize=True,
        reads_squares=False,
        outputs=values.shape[1],
        temporaries=TEMPORARIES,
        scratch_bytes=scratch_bytes,
    )
    if not torch.compiler.is_compiling():
        return _RowSupport.apply(rows, values, stream)  # pyright: ignore[reportReturnType]

    def terms(start: int, stop: int) -> TermList:
        return [lambda cosine, *_: torch.relu(cosine).to(values.dtype) @ values]

    return graph_rows(rows, None, terms, stream, None)


class _RowSupport(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, values: Tensor, stream: Stream) -> Tensor:
        ctx.stream = stream
        ctx.save_for_backward(rows, values)
        out = torch.empty_like(values)
        with full_precision(rows.device):
            for top, bottom, cosine in Sides(rows, None, stream).blocks():
                torch.mm(cosine.clamp_min_(0.0), values, out=out[top:bottom])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        rows, values = ctx.saved_tensors
        sides, needed = Sides(rows, None, ctx.stream), ctx.needs_input_grad
        gradients = Gradients(compared_sides(sides), ctx.stream, True, (needed[0], needed[0]))
        of_values = torch.zeros_like(values)
        with full_precision(rows.device):
            for top, bottom, cosine in sides.blocks():
                above, grad = cosine > 0, grads[0][top:bottom]
                of_values.addmm_(cosine.clamp_min_(0.0).T, grad)
                if needed[0]:
                    gradients.add(slice(top, bottom), (grad @ values.T).mul_(above), None, None)
        return gradients.finish()[0] if needed[0] else None, of_values, None
