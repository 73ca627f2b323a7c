"""A logical batch of any size: the gradient of the whole batch in the memory of a micro-batch.

    1. embed each micro-batch without a graph                                  rows (batch, dim)
    2. loss of all rows, and its gradient with respect to them                 gradient (batch, dim)
    3. embed each micro-batch again, with a graph, and send its share of that gradient back through it

By the chain rule the weights receive the gradient of loss(embedder(images), labels), whatever the loss does with the
rows: every pair and triplet of the logical batch counts, as gradient accumulation can't do. (Gao et al. 2021, for
softmax losses.) It equals the plain step if an image's row does not depend on its neighbors in the batch, and if
both passes see the same:

    random numbers      each micro-batch starts both passes with the same states of torch's generators
    buffers             are put back after the first pass, so that running statistics move once
    batch normalization takes its statistics from the micro-batch unless it is frozen: that changes what is computed,
                        as a smaller batch would, and is warned of
    ranks               gradients are sent once a step, with the last micro-batch (`no_sync` before)

Memory: activations of one micro-batch; the images; rows and their gradient, 2 x batch x dim numbers; what the loss
needs. Time: a forward pass more than the plain step, about a third.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, SupportsIndex

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import get_device_states, set_device_states

from shadowmetric.ops.ranks import cut
from shadowmetric.types import AnyLabels, Embeddings, Scalar

HALVES = (torch.float16, torch.bfloat16)
SAME_ROW = 1e-2  # how far the second pass may part from the first, as a share of the largest number
BATCH_NORM_CHANGES = (
    "batch normalization takes its statistics from each micro-batch of {}, not from the whole batch; "
    "freeze it (call .eval() on those layers, or train with --freeze-batch-norm) for the gradient of the whole batch"
)


class Step(NamedTuple):
    """What a step saw: the loss, and all rows with their gradient in `.grad`."""

    value: Scalar
    embeddings: Embeddings


def cached_backward(
    embedder: nn.Module,
    images: Any,
    labels: AnyLabels,
    loss: nn.Module,
    micro_batch: int = 32,
    *,
    scaler: torch.amp.GradScaler | None = None,
) -> Scalar:
    """Add the gradient of loss(embedder(images), labels) to the weights; return the loss.

    images: a tensor, a mapping or sequence of tensors with one row for each label, or anything that gives a
    micro-batch for a slice; the embedder is called with a piece of it.
    scaler: as in mixed precision with float16; scales the gradients, as scaler.scale(loss).backward() would.
    """
    if uses_batch_statistics(embedder) and len(labels) > micro_batch:
        warnings.warn(BATCH_NORM_CHANGES.format(micro_batch) + ".", stacklevel=2)
    return run_cached_step(embedder, images, labels, loss, micro_batch, scaler=scaler).value


def run_cached_step(
    embedder: nn.Module,
    images: Any,
    labels: AnyLabels,
    loss: Callable[[Tensor, Any], Tensor],
    micro_batch: int,
    *,
    scaler: torch.amp.GradScaler | None = None,
) -> Step:
    """Do the three passes; return the loss, and the rows with their gradient."""
    pieces = pieces_of(images, len(labels), micro_batch)
    rows, states = first_pass(embedder, images, pieces)
    rows.requires_grad_()
    with torch.enable_grad():
        value = loss(rows, labels)
    (value if scaler is None else scaler.scale(value)).backward()
    rows.grad = torch.zeros_like(rows) if rows.grad is None else rows.grad
    after, halves = random_states(embedder), HalfGradients(embedder)
    for piece, state in zip(pieces, states, strict=True):
        with _without_sync(embedder) if piece.stop < len(labels) else nullcontext():
            again = second_pass(embedder, images, piece, state, rows.detach()[piece])
            if again.requires_grad:  # else the embedder is frozen, and only the loss learns
                again.backward(rows.grad[piece])
        halves.take()
    halves.give()
    set_random_states(after)
    return Step(value.detach(), rows)


class HalfGradients:
    """Gradients of half-precision weights, added up in float32 piece by piece: sums of many small ones would stall.

    DistributedDataParallel sends gradients out of buckets of its own, so there they stay where they are.
    """

    def __init__(self, embedder: nn.Module):
        wrapped = isinstance(embedder, DistributedDataParallel)
        self.weights = [] if wrapped else [weight for weight in embedder.parameters() if weight.dtype in HALVES]
        self.total: dict[Tensor, Tensor] = {}
        self.take()

    def take(self) -> None:
        """Add what the weights have, and take it from them."""
        for weight in self.weights:
            if weight.grad is not None:
                self.total[weight] = weight.grad.float() + self.total.get(weight, 0)
                weight.grad = None

    def give(self) -> None:
        """Give the weights the sums."""
        for weight, total in self.total.items():
            weight.grad = total.to(weight.dtype)


class Buffers:
    """The buffers of a module as they are now, to be put back where a call has changed or replaced them."""

    def __init__(self, module: nn.Module):
        named = [(part, name) for part in module.modules() for name, _ in part.named_buffers(recurse=False)]
        self.kept = [(part, name, getattr(part, name), getattr(part, name).clone()) for part, name in named]

    @torch.no_grad()
    def put_back(self) -> None:
        """Make them what they were. Autograd does not take that for a change: a graph made before has seen them so."""
        for part, name, buffer, before in self.kept:
            with torch.autograd._unsafe_preserve_version_counter(buffer):  # pyright: ignore
                buffer.copy_(before)
            if getattr(part, name) is not buffer:
                setattr(part, name, buffer)


def version_of(tensor: Tensor) -> int | None:
    """Return how often a tensor was changed in place."""
    return None if tensor.is_inference() else tensor._version


def uses_batch_statistics(embedder: nn.Module) -> bool:
    """Return whether a layer of batch normalization takes its statistics from the batch."""
    layers = [layer for layer in embedder.modules() if isinstance(layer, _BatchNorm)]
    return any(layer.training or layer.running_mean is None for layer in layers)


@torch.no_grad()
def first_pass(
    embedder: nn.Module, images: Any, pieces: Sequence[slice], *, put_back: bool = True
) -> tuple[Tensor, list[Any]]:
    """Return the rows of all pieces, and the states of the generators before each; put buffers back."""
    bare = embedder.module if isinstance(embedder, DistributedDataParallel) else embedder  # nothing is to be sent
    buffers = Buffers(bare) if put_back else None
    rows, states = torch.empty(0), []
    for piece in pieces:
        states.append(random_states(embedder))
        outputs = bare(_piece(images, piece))
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != piece.stop - piece.start:
            what = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise ValueError(
                f"the embedder gave {what} for {piece.stop - piece.start} images; it must give (images, dim)."
            )
        if piece.start == 0:
            rows = outputs.new_empty(pieces[-1].stop, outputs.shape[1])
        rows[piece] = outputs
    if buffers is not None:
        buffers.put_back()
    torch.clear_autocast_cache()  # else weights that were cast without a graph would be used again, and get no gradient
    return rows, states


def second_pass(embedder: nn.Module, images: Any, piece: slice, state: Any, before: Tensor) -> Tensor:
    """Return the rows of a piece again, with a graph, from the random numbers that it saw before."""
    set_random_states(state)
    with torch.enable_grad():
        again = embedder(_piece(images, piece))
    _check_same(again.detach(), before)
    return again


def pieces_of(images: Any, count: int, micro_batch: int, counted: str = "labels") -> list[slice]:
    """Return the micro-batches, or refuse what can't be cut. An image that would be left alone joins the last one."""
    if isinstance(micro_batch, bool) or not isinstance(micro_batch, SupportsIndex) or micro_batch < 1:  # numpy's too
        raise ValueError(f"micro_batch is {micro_batch!r}; it must be a number of images, such as 32.")
    for part in parts_of(images):
        if not hasattr(part, "__len__"):
            raise ValueError(f"a part of the images is {part!r}, which has no row for each image; leave it out.")
        if len(part) != count:
            hint = " A list of single images must be stacked first." if isinstance(images, list) else ""
            raise ValueError(f"there are {len(part)} images and {count} {counted}; give one for each image.{hint}")
    if count == 0:
        raise ValueError("the batch is empty; give at least one image.")
    return cut(count, micro_batch)


def parts_of(images: Any) -> list[Any]:
    """Return what has a row for each image."""
    if isinstance(images, Mapping):
        return list(images.values())
    return list(images) if isinstance(images, tuple | list) else [images]


def _piece(images: Any, piece: slice) -> Any:
    """Return some images in the form that all of them came in: a tensor, a dictionary or a tuple."""
    if isinstance(images, Mapping):
        return {name: part[piece] for name, part in images.items()}
    return tuple(part[piece] for part in images) if isinstance(images, tuple | list) else images[piece]


def _without_sync(embedder: nn.Module) -> AbstractContextManager[Any]:
    """Return a context in which gradients stay on this rank."""
    return embedder.no_sync() if hasattr(embedder, "no_sync") else nullcontext()  # pyright: ignore


def random_states(embedder: nn.Module) -> tuple[Tensor, Any, Any]:
    """Return the states of the generators that an embedder may draw from."""
    return torch.get_rng_state(), *get_device_states(*embedder.parameters())


def set_random_states(states: tuple[Tensor, Any, Any]) -> None:
    """Put them back."""
    torch.set_rng_state(states[0])
    if states[1]:
        set_device_states(*states[1:])


def _check_same(again: Tensor, before: Tensor) -> None:
    """Refuse to send a gradient through other rows than it was computed for."""
    if again.device.type != "cpu" or not bool(torch.isfinite(before).all()):  # a GPU would have to be waited for
        return
    apart = float((again - before).abs().max()) if again.shape == before.shape else float("inf")
    if not apart <= SAME_ROW * max(float(before.abs().max()), 1e-12):
        raise ValueError(
            "the embedder gave other rows for the same images in the second pass; "
            "its random numbers must come from torch's own generators, and nothing else may change between calls: "
            "neither .train() and .eval(), nor what is wrapped around it."
        )
