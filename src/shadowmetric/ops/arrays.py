"""The same lines for numpy and for torch.

A call of numpy costs a third of a call of torch, which is most of the time of a small batch; a call of torch runs on
any device, on several threads, and in a compiled graph. So rounding to the grid and what miners compare is written once
in the operations that both have, and these few where they differ. Both round alike: additions, products, quotients and
roots as IEEE 754 says, in the order that the lines give.
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


def to_array(array: Array) -> Array:
    """Return a tensor of a CPU as a numpy array, without a copy."""
    return array.numpy() if isinstance(array, Tensor) else array


def round_half_even(array: Array) -> Array:
    """Return the nearest whole numbers, halves to the even one."""
    return array.round() if isinstance(array, Tensor) else numpy.rint(array)
