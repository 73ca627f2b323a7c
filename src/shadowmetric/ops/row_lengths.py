"""Lengths of rows, with a gradient, keeping one number per row.

Naive program: embeddings.float().norm(dim=1).clamp_min(1e-12). For half types that would keep a float32
copy of all rows until backward; this keeps the rows by reference and their lengths.
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.rows import SHORTEST_ROW, row_lengths_of
from shadowmetric.types import Embeddings, Lengths


def row_lengths(embeddings: Embeddings) -> Lengths:
    """Return the length of each row in working precision, at least 1e-12."""
    return _RowLengths.apply(embeddings)  # pyright: ignore[reportReturnType]


class _RowLengths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor) -> Tensor:
        lengths = row_lengths_of(embeddings).clamp_min_(SHORTEST_ROW)
        ctx.save_for_backward(embeddings, lengths)
        return lengths

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        refuse_second_derivative()
        embeddings, lengths = ctx.saved_tensors
        factor = grads[0] / lengths * (lengths > SHORTEST_ROW)
        return (embeddings * factor[:, None]).to(embeddings.dtype)
