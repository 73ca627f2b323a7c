"""Frozen batch normalization: statistics and scales as they were learned, whatever the batches are.

    y = weight (x - mean) / sqrt(variance + eps) + bias

In training mode a layer takes mean and variance from the batch, and moves its running ones. A metric-learning batch
is small and holds a few classes only, so both are noise to a pretrained network. A frozen layer uses its running mean
and variance always, and its weight and bias need no gradient: they were learned for those statistics. Each output then
depends on its own image alone, which is also what makes cached logical batches equal to whole ones.

It holds through every later call of .train(). Parameters, buffers and the state dict are as before. Statistics must
come from somewhere: freeze a network whose weights are loaded, or into which they will be.
"""

from functools import cache
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


class _Frozen:
    """Goes before the class of a layer, and leaves it in eval mode."""

    def train(self, mode: bool = True) -> Any:
        return super().train(False)  # pyright: ignore[reportAttributeAccessIssue]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unfreeze, (type(self).__mro__[2],), self.__dict__


@cache
def _freeze(kind: type) -> type:
    return type(f"Frozen{kind.__name__}", (_Frozen, kind), {})


def _unfreeze(kind: type) -> Any:
    return object.__new__(_freeze(kind))


def freeze_batch_norm(module: nn.Module) -> None:
    """Freeze every layer of batch normalization in a module."""
    for layer in _layers(module):
        if not isinstance(layer, _Frozen):
            layer.__class__ = _freeze(type(layer))
        layer.train(False)
        for parameter in layer.parameters(recurse=False):
            parameter.requires_grad_(False)


def has_batch_norm(module: nn.Module) -> bool:
    """Return whether any output of a module depends on its batch: a layer of batch normalization, not frozen."""
    return any(not isinstance(layer, _Frozen) for layer in _layers(module))


def _layers(module: nn.Module) -> list[_BatchNorm]:
    return [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
