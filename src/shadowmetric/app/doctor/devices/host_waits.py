"""Which operations of torch make the host wait for CUDA, and how often: as its documentation and sources are known.

Only the rule of fills was compared with ATen's source; on a GPU `shadowmetric doctor --certificate` counts real waits.

    reads       item, equal, nonzero, unique, bincount, masked_select, repeat_interleave without output_size
    copies      between host and device, but for those to the device with non_blocking=True
    indexing    by a mask, whose size the host must know; by an index on the host, which is copied
    fills       x[mask] = number and masked_fill(mask, number) do not wait; by a number on the device they do

A sort, a scan or a scatter does not wait. `find_wait` sees an operation as torch's dispatcher does: name and arguments.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

READS = {  # operations whose result or its size goes to the host, and how often CUDA's implementation waits
    **dict.fromkeys(("_local_scalar_dense", "equal", "nonzero", "masked_select", "repeat_interleave"), 1),
    **dict.fromkeys(("_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"), 1),
    "bincount": 2,
}
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")
FILLS = ("masked_fill", "masked_fill_")
COPIES = ("_to_copy", "copy_")
MASKS = (torch.bool, torch.uint8)

OnDevice = Callable[[Any], bool]  # whether a tensor, or a device, is that of the accelerator


class Wait(NamedTuple):
    """What waits, how often, and whether it asks for values of the device."""

    what: str
    times: int
    reads: bool


def find_wait(
    name: str, args: Any, kwargs: dict[str, Any], on_device: OnDevice, *, fills_number: bool = False
) -> Wait | None:
    """Return how an operation that involves the device waits, or None. fills_number: it is x[mask] = a number."""
    if name in COPIES:
        return _wait_of_copy(name, args, kwargs, on_device)
    if name in INDEXING:
        return _wait_of_indexing(name, args, on_device, fills_number=fills_number)
    if name in FILLS:
        return Wait(f"{name} by a number on the device", 1, True) if on_device(args[2]) else None
    if name == "repeat_interleave" and kwargs.get("output_size") is not None:
        return None
    return Wait(name, READS[name], True) if name in READS else None


def mixes_devices(name: str, args: Any, tensors: list[Tensor], on_device: OnDevice) -> bool:
    """Return whether CUDA would refuse these tensors: numbers and indices may be on the host, nothing else."""
    if name in COPIES or not any(map(on_device, tensors)):
        return False
    indices = {id(index) for index in args[1]} if name in INDEXING and on_device(args[0]) else set()
    return any(tensor.ndim > 0 and not on_device(tensor) and id(tensor) not in indices for tensor in tensors)


def _wait_of_copy(name: str, args: Any, kwargs: dict[str, Any], on_device: OnDevice) -> Wait | None:
    if name == "copy_":
        target, source, *rest = args
        to_device, from_device = on_device(target), on_device(source)
        non_blocking = rest[0] if rest else kwargs.get("non_blocking", False)
    else:
        from_device = on_device(args[0])
        to_device = from_device if kwargs.get("device") is None else on_device(kwargs["device"])
        non_blocking = kwargs.get("non_blocking", False)
    if to_device == from_device or (to_device and non_blocking):
        return None
    return Wait(f"copy to the {'device' if to_device else 'host'}", 1, from_device)


def _wait_of_indexing(name: str, args: Any, on_device: OnDevice, *, fills_number: bool) -> Wait | None:
    indices = [index for index in args[1] if index is not None]
    if any(index.ndim > 0 and not on_device(index) for index in indices):
        return Wait(f"{name} by a host index", 1, False)
    if all(index.dtype not in MASKS for index in indices):
        return None
    fills = "put" in name and len(indices) == 1 and args[2].numel() == 1 and (fills_number or not on_device(args[2]))
    return None if fills else Wait(f"{name} by a mask", 1, True)
