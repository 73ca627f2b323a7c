"""The same lines for numpy and for torch.

A call of numpy costs a third of a call of torch, which is most of the time of a small batch; a call of torch runs on
any device, on several threads, and in a compiled graph. So what is done before anything has a gradient, rounding to
the grid and mining, is written once in the operations that both have, and these few where they differ. Both round
alike: additions, products, quotients and roots as IEEE 754 says, in the order that the lines give.
"""

from typing import Any

import numpy
import torch
from torch import Tensor

Array = Any
"""A numpy array or a tensor."""


def library_of(array: Array) -> Any:
    """Return numpy or torch, whichever an array belongs to."""
    return torch if isinstance(array, Tensor) else numpy


def is_on_host(tensor: Tensor) -> bool:
    """Return whether numpy can handle a tensor: on a CPU, eagerly."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def to_tensor(array: Array) -> Tensor:
    """Return an array as a tensor, without a copy."""
    return array if isinstance(array, Tensor) else torch.from_numpy(array)


def count_up(stop: int, like: Array) -> Array:
    """Return 0, 1, ... as int64, where `like` is."""
    return torch.arange(stop, device=like.device) if isinstance(like, Tensor) else numpy.arange(stop)


def stable_order(array: Array) -> Array:
    """Return the order that sorts an array, equal values as they stand."""
    return torch.argsort(array, stable=True) if isinstance(array, Tensor) else array.argsort(kind="stable")


def places_among(ranked: Array, values: Array, *, right: bool = False) -> Array:
    """Return where values stand in a sorted array: before those that equal them, or behind."""
    if isinstance(ranked, Tensor):
        return torch.searchsorted(ranked, values, right=right)
    return ranked.searchsorted(values, "right" if right else "left")


def round_half_even(array: Array) -> Array:
    """Return the nearest whole numbers, halves to the even one."""
    return array.round() if isinstance(array, Tensor) else numpy.rint(array)


def reciprocals(array: Array) -> Array:
    """Return 1 / number of each, in place: a fresh array of that size costs more than the division."""
    return array.reciprocal_() if isinstance(array, Tensor) else numpy.reciprocal(array, out=array)


def first_largest(array: Array) -> Array:
    """Return the place of the largest number along the last axis, of equal ones the first."""
    return array.max(-1).indices if isinstance(array, Tensor) else array.argmax(-1)  # argmax of torch takes longer


def first_least(array: Array) -> Array:
    """Return the place of the least number along the last axis, of equal ones the first."""
    return array.min(-1).indices if isinstance(array, Tensor) else array.argmin(-1)


def concatenate(arrays: list[Array], axis: int) -> Array:
    """Return arrays one after the other along an axis."""
    if len(arrays) == 1:
        return arrays[0]
    return torch.cat(arrays, axis) if isinstance(arrays[0], Tensor) else numpy.concatenate(arrays, axis)
