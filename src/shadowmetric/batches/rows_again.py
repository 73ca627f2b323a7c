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

Refused, since the gradient would be missing or wrong: images that want a gradient themselves, weights or images that
are changed before backward, parameters that are not the embedder's own during the call (FSDP, DataParallel,
`functional_call`), a second derivative.

Memory: activations of one micro-batch, the images, the rows twice, and while backward runs the gradient of the
parameters twice. Time: a forward pass more than embedder(images), about a third of a step.
"""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.parallel import DistributedDataParallel

from shadowmetric.batches.cached import (
    BATCH_NORM_CHANGES,
    HALVES,
    Buffers,
    first_pass,
    parts_of,
    pieces_of,
    random_states,
    second_pass,
    set_random_states,
    uses_batch_statistics,
    version_of,
)
from shadowmetric.types import Embeddings


def cached_rows(embedder: nn.Module, images: Any, micro_batch: int = 32) -> Embeddings:
    """Return embedder(images), computed so many images at a time in both directions.

    images: a tensor, a mapping or sequence of tensors with a row for each image, or anything that has a length and
    gives a micro-batch for a slice. Without gradients (`torch.no_grad`) it is the first pass alone.
    """
    if isinstance(embedder, DistributedDataParallel):
        raise ValueError(
            "cached_rows got a DistributedDataParallel; call it in the forward of the module that is wrapped, "
            "or use cached_backward, which takes one."
        )
    parts = parts_of(images)
    if not parts:
        raise ValueError("there are no images; give a tensor, or a mapping or sequence of tensors.")
    count = next((len(part) for part in parts if hasattr(part, "__len__")), 0)
    pieces = pieces_of(images, count, micro_batch, "rows of another part")
    if uses_batch_statistics(embedder) and count > micro_batch:
        warnings.warn(BATCH_NORM_CHANGES.format(micro_batch) + ".", stacklevel=2)
    learned = [parameter for parameter in embedder.parameters() if parameter.requires_grad]
    if not torch.is_grad_enabled():
        return first_pass(embedder, images, pieces, put_back=False)[0]
    if getattr(embedder, "_is_replica", False):
        raise ValueError(
            "the embedder is a replica of DataParallel, whose weights get no gradient here; start a process for each "
            "GPU (torchrun), or call the embedder plainly."
        )
    if any(isinstance(part, Tensor) and part.requires_grad for part in parts):
        raise ValueError(
            "the images want a gradient, which cached_rows can't give them; detach them, or put what made them into "
            "the embedder."
        )
    if not learned:
        return first_pass(embedder, images, pieces, put_back=False)[0]
    rows, states = first_pass(embedder, images, pieces)
    return _Rows.apply(rows, _Again(embedder, images, pieces, states, learned, rows.device.type), *learned)  # pyright: ignore


class _Again:
    """What the second pass needs: the images, the generators' states, and autocast as it was."""

    def __init__(
        self, embedder: nn.Module, images: Any, pieces: list[slice], states: list[Any], learned: Any, device: str
    ):
        self.embedder, self.images, self.pieces, self.states, self.learned = embedder, images, pieces, states, learned
        self.device, self.autocast = device, torch.is_autocast_enabled(device)
        self.dtype = torch.get_autocast_dtype(device)
        self.versions, self.done = self.versions_now(), False

    def cast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device, self.dtype, enabled=self.autocast)

    def versions_now(self) -> list[int | None]:
        """Return how often each weight and each tensor of images was changed in place."""
        parts = [part for part in parts_of(self.images) if isinstance(part, Tensor)]
        return [version_of(tensor) for tensor in (*self.learned, *parts)]

    def gradients(self, rows: Tensor, gradient: Tensor) -> list[Tensor | None]:
        """Return the gradient of each parameter, from that of the rows; half types are added up in float32."""
        if self.versions_now() != self.versions:
            raise RuntimeError(
                "weights or images were changed between cached_rows and backward; call backward first, then step."
            )
        totals: list[Tensor | None] = [None] * len(self.learned)
        after = random_states(self.embedder)
        buffers = Buffers(self.embedder) if self.done else None  # a second backward moves no statistics
        with _without_hooks(self.learned):
            for piece, state in zip(self.pieces, self.states, strict=True):
                with self.cast():
                    again = second_pass(self.embedder, self.images, piece, state, rows[piece])
                parts: Any = [None] * len(totals)
                if again.requires_grad:
                    parts = torch.autograd.grad(again, self.learned, gradient[piece], allow_unused=True)
                for place, part in enumerate(parts):
                    if part is not None:
                        part, here = part.float() if part.dtype in HALVES else part, totals[place]
                        totals[place] = part if here is None else here + part
        if all(part is None for part in totals):
            raise RuntimeError(
                "no weight of the embedder got a gradient: during the call it computes with other tensors than "
                "embedder.parameters(), as under FSDP or functional_call; use cached_backward, or call it plainly."
            )
        set_random_states(after)
        if buffers is not None:
            buffers.put_back()
        self.done = True
        return [
            None if part is None else part.to(weight.dtype) for part, weight in zip(totals, self.learned, strict=True)
        ]


@contextmanager
def _without_hooks(parameters: list[Tensor]) -> Iterator[None]:
    """Switch hooks on the parameters' gradients off for a while: they see the whole gradient, once, afterwards."""
    kept = [parameter._backward_hooks for parameter in parameters]
    try:
        for parameter in parameters:
            parameter._backward_hooks = None
        yield
    finally:
        for parameter, hooks in zip(parameters, kept, strict=True):
            parameter._backward_hooks = hooks


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, again: _Again, *learned: Tensor) -> Tensor:
        ctx.again = again
        ctx.save_for_backward(rows)
        return rows.clone()  # a view could not be changed in place

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore
        (rows,) = ctx.saved_tensors
        return None, None, *ctx.again.gradients(rows, gradients[0])
