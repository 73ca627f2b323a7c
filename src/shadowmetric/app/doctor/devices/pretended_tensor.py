"""A tensor that says it is on a device which is not there, and has its values on the CPU."""

from typing import Any

import torch
from torch import Tensor

DEVICE = torch.device("meta")


class PretendedTensor(torch.Tensor):
    """A tensor that says it is on the device and has its values on the CPU."""

    on_cpu: Tensor
    __torch_function__: Any = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAttributeAccessIssue]

    @staticmethod
    def __new__(cls, on_cpu: Tensor):
        """Return a tensor of the same shape and strides elsewhere."""
        tensor = torch.Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls,
            on_cpu.size(),
            strides=on_cpu.stride(),
            storage_offset=on_cpu.storage_offset(),
            dtype=on_cpu.dtype,
            layout=on_cpu.layout,
            device=DEVICE,
        )
        tensor.on_cpu = on_cpu
        return tensor

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"PretendedTensor({self.on_cpu!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse what happens outside of `count_step`."""
        raise RuntimeError(f"{func} of a pretended tensor outside of count_step; use it in the step only.")


def is_on_device(thing: Any) -> bool:
    """Return whether a tensor is on the pretended device, or a device is it."""
    if isinstance(thing, Tensor):
        return thing.device.type == DEVICE.type
    return isinstance(thing, str | torch.device) and torch.device(thing).type == DEVICE.type


def values_of(thing: Any) -> Any:
    """Return the values of a pretended tensor, and anything else as it is."""
    return thing.on_cpu if isinstance(thing, PretendedTensor) else thing
