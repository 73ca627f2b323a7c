"""Rows of a logical batch as one differentiable step: what a trainer that calls backward itself can use.

```python
import torch
import shadowmetric as sm

embedder, images, labels = torch.nn.Linear(20, 8), torch.randn(40, 20), torch.arange(40) // 5
rows = sm.cached_rows(embedder, images, micro_batch=16)  # equals embedder(images), and no activation is kept
sm.ShadowLoss(0.2)(rows, labels).backward()  # embeds 16 at a time again, for the gradient of all
```

The passes are those of `cached_backward`, with the loss between them left to the caller: any function of the rows, of
one embedder or of two, of this library or another. The embedder's parameters are inputs of the step, and their
gradient comes out of it once; so hooks on parameters (DistributedDataParallel's, if what it wraps calls this in its
forward), gradient clipping, accumulation and scaling work as with embedder(images).

Memory: activations of one micro-batch, the images, the rows, and while backward runs the gradient of the parameters
twice. Time: a forward pass more than embedder(images), about a third of a step.
"""

import warnings
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from shadowmetric.batches.cached import (
    BATCH_NORM_CHANGES,
    first_pass,
    parts_of,
    pieces_of,
    random_states,
    second_pass,
    set_random_states,
    uses_batch_statistics,
)
from shadowmetric.types import Embeddings


def cached_rows(embedder: nn.Module, images: Any, micro_batch: int = 32) -> Embeddings:
    """Return embedder(images), computed so many images at a time in both directions.

    images: a tensor, a mapping or sequence of tensors with a row for each image, or anything that has a length and
    gives a micro-batch for a slice; they receive no gradient themselves. Without gradients (`torch.no_grad`) it is
    the first pass alone.
    """
    if isinstance(embedder, DistributedDataParallel):
        raise ValueError(
            "cached_rows got a DistributedDataParallel; call it in the forward of the module that is wrapped, "
            "or use cached_backward, which takes one."
        )
    count = len(parts_of(images)[0])
    if uses_batch_statistics(embedder) and count > micro_batch:
        warnings.warn(BATCH_NORM_CHANGES.format(micro_batch) + ".", stacklevel=2)
    pieces = pieces_of(images, count, micro_batch)
    learnt = [parameter for parameter in embedder.parameters() if parameter.requires_grad]
    if not (torch.is_grad_enabled() and learnt):
        return first_pass(embedder, images, pieces, put_back=False)[0]
    rows, states = first_pass(embedder, images, pieces)
    return _Rows.apply(rows, _Again(embedder, images, pieces, states, learnt, rows.device.type), *learnt)  # pyright: ignore


class _Again:
    """What the second pass needs: the images, the generators' states, and autocast as it was."""

    def __init__(
        self, embedder: nn.Module, images: Any, pieces: list[slice], states: list[Any], learnt: Any, device: str
    ):
        self.embedder, self.images, self.pieces, self.states, self.learnt = embedder, images, pieces, states, learnt
        self.device, self.autocast = device, torch.is_autocast_enabled(device)
        self.dtype = torch.get_autocast_dtype(device)

    def cast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device, self.dtype, enabled=self.autocast)

    def gradients(self, rows: Tensor, gradient: Tensor) -> list[Tensor | None]:
        """Return the gradient of each parameter, from that of the rows."""
        found: list[Tensor | None] = [None] * len(self.learnt)
        after = random_states(self.embedder)
        for piece, state in zip(self.pieces, self.states, strict=True):
            with self.cast():
                again = second_pass(self.embedder, self.images, piece, state, rows[piece])
            parts = torch.autograd.grad(again, self.learnt, gradient[piece], allow_unused=True)
            for place, part in enumerate(parts):
                here = found[place]
                found[place] = here if part is None else part if here is None else here + part
        set_random_states(after)
        return found


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, again: _Again, *learnt: Tensor) -> Tensor:
        ctx.again = again
        ctx.save_for_backward(rows)
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (rows,) = ctx.saved_tensors
        return None, None, *ctx.again.gradients(rows, gradients[0])
