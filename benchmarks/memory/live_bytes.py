"""Live tensors, counted exactly: what is held after forward, and the most at once in forward and backward.

A dispatch mode sees the storage of every tensor that an operation returns, and is told when the storage dies. Not
seen: what an operation allocates and frees inside itself, and what is no tensor. Seen though it would not be there
otherwise: under any dispatch mode autograd adds gradients out of place, so that where two gradients of the embeddings
meet, one S x D more is counted than a training run holds.
"""

import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors made inside it that are alive now, and the most there were; not those known."""

    def __init__(self, known: Iterable[Tensor] = ()):
        super().__init__()
        self.known = {tensor.untyped_storage()._cdata for tensor in known}
        self.sizes: dict[int, int] = {}  # of each storage that is alive
        self.now = self.peak = 0
        self.where = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it returns."""
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        if self.now > self.peak:
            self.peak, self.where = self.now, str(func)
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.known:
            return
        if key not in self.sizes:
            self.sizes[key] = 0
            weakref.finalize(storage, self._forget, key).atexit = False
        self.now += storage.nbytes() - self.sizes[key]
        self.sizes[key] = storage.nbytes()

    def _forget(self, key: int) -> None:
        self.now -= self.sizes.pop(key)


class Counted(NamedTuple):
    """Bytes beyond the inputs."""

    kept: int
    peak: int
    where: str  # the operation that reached the peak


def count_live_bytes(step: Callable[[], Any], known: Iterable[Tensor]) -> Counted:
    """Run a forward pass, and backward if its value wants it; return what was kept between them and the peak."""
    with LiveBytes(known) as live:
        value = step()
        kept = live.now
        if isinstance(value, Tensor) and value.requires_grad:
            value.backward()
    return Counted(kept, live.peak, live.where)
