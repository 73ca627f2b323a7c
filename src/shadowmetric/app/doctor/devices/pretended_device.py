"""A pretended accelerator: tensors that say they are elsewhere, and a count of what a GPU would be asked.

Torch sees the device "meta": autograd then runs backward in the calling thread, and no driver is wanted. A tensor there
holds real values on the CPU, so results are the CPU's to the bit. Counted, forward and backward:

    kernels    operations that are neither views nor allocations. A lower bound: a GPU's sort is several launches
    waits      times that the host must have an answer or hand over values (`host_waits.py`)
    mixes      operations on tensors of both sides, which a GPU would refuse
    largest    bytes of the largest tensor that was allocated

Operations of torch.ops.shadowmetric are entered: their insides are counted, not they. With values=False the tensors are
torch's own meta tensors: shapes without numbers, so that a batch of any size takes milliseconds and no memory. There a
step that reads from the device fails with `HostRead`.
"""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._library.custom_ops import OPDEFS
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from shadowmetric.app.doctor.devices.calling_line import calling_line
from shadowmetric.app.doctor.devices.counts import Counts, HostRead, Place
from shadowmetric.app.doctor.devices.host_waits import Wait, find_wait, mixes_devices
from shadowmetric.app.doctor.devices.pretended_tensor import DEVICE, PretendedTensor, is_on_device, values_of

ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
NO_KERNEL = frozenset((*ALLOCATIONS, "detach", "alias", "lift", "lift_fresh", "_unsafe_view", "set_"))
NAMESPACE = "shadowmetric"  # of operations that are entered


class CountingMode(TorchDispatchMode):
    """Computes on the CPU what is asked of the device, and counts it."""

    def __init__(self, *, values: bool):
        super().__init__()
        self.values = values
        self.counts = Counts()
        self.phase = "forward"
        self.fills_number = False

    def send(self, tensor: Tensor) -> Tensor:
        """Return a copy on the device; a floating one gets a gradient."""
        with torch.no_grad():
            copy = PretendedTensor(tensor.detach().clone()) if self.values else torch.empty_like(tensor, device=DEVICE)
        return copy.requires_grad_(tensor.is_floating_point())

    def note(self, wait: Wait) -> None:
        """Note a wait; refuse to read where there are no values."""
        line = calling_line(__file__)
        if wait.reads and not self.values:
            raise HostRead(f"{wait.what} at {line} reads from the device; count with values=True.")
        self.counts.waits += wait.times
        self.counts.wait_places.append(Place(wait.what, line, self.phase, wait.times))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == NAMESPACE:
            return self._enter(func, args, kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(map(is_on_device, (*tensors, kwargs.get("device")))):
            return func(*args, **kwargs)
        with self:  # within an operator of ours torch has not taken others to pieces yet
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        name = func._schema.name.partition("::")[2]
        if mixes_devices(name, args, tensors, is_on_device):
            self.counts.mixes.append(Place(name, calling_line(__file__), self.phase))
        wait = find_wait(name, args, kwargs, is_on_device, fills_number=self.fills_number)
        if wait is not None:
            self.note(wait)
        result = self._compute(func, args, kwargs) if self.values else func(*args, **kwargs)
        if not is_view(func):
            self._count(name, result)
        return result

    def _count(self, name: str, result: Any) -> None:
        if name not in NO_KERNEL:
            self.counts.kernels += 1
            self.counts.by_name[name] = self.counts.by_name.get(name, 0) + 1
        sizes = [leaf.nbytes for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and is_on_device(leaf)]
        self.counts.largest_bytes = max([self.counts.largest_bytes, *sizes])

    def _enter(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the program of an operation of ours, and count what it asks."""
        definition = OPDEFS.get(func._schema.name)
        if definition is None:
            raise NotImplementedError(f"{func} has no program to enter; define it by torch.library.custom_op.")
        programs = definition._backend_fns
        with self, HostValuesMode(self):
            return (programs.get(None) or programs["cpu"])(*args, **kwargs)

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result on the CPU, said to be on the device if it would be."""
        target = kwargs.get("device")
        real_args, real_kwargs = tree_map(values_of, (args, kwargs))
        if any(isinstance(leaf, Tensor) and is_on_device(leaf) for leaf in tree_leaves((real_args, real_kwargs))):
            raise NotImplementedError(f"{func} at {calling_line(__file__)} got a tensor that torch made unseen.")
        result = func(*real_args, **real_kwargs if target is None else {**real_kwargs, "device": torch.device("cpu")})
        if any(one.alias_info is not None and one.alias_info.is_write for one in func._schema.returns):
            output = kwargs.get("out", args[0] if args else None)
            if isinstance(output, PretendedTensor) and output.shape != output.on_cpu.shape:
                raise NotImplementedError(f"{func} changes a shape in place, which a pretended tensor cannot.")
            return output
        if target is not None and not is_on_device(target):
            return result
        return tree_map(lambda leaf: PretendedTensor(leaf) if isinstance(leaf, Tensor) else leaf, result)


class HostValuesMode(TorchFunctionMode):
    """Sees what torch hides from its dispatcher: tensors of host values, tolist, masks that a number fills."""

    def __init__(self, counting: CountingMode):
        super().__init__()
        self.counting = counting

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.tolist and is_on_device(args[0]):
            self.counting.note(Wait("tolist", 1, True))
            return args[0].on_cpu.tolist()
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            with self._filling(len(args) == 3 and not isinstance(args[2], Tensor)):
                return func(args[0], keep_on_host(args[1]), *args[2:])
        if func is torch.Tensor.new_tensor:
            own = {"dtype": args[0].dtype, "device": args[0].device}
            func, args, kwargs = torch.tensor, args[1:], {**own, **kwargs}
        takes_values = func in (torch.tensor, torch.as_tensor) and not any(isinstance(arg, Tensor) for arg in args)
        if not takes_values or not is_on_device(kwargs.get("device")):
            return func(*args, **kwargs)
        self.counting.note(Wait("tensor of host values", 1, False))
        return func(*args, **{**kwargs, "device": "cpu"}).to(DEVICE, non_blocking=True)

    @contextmanager
    def _filling(self, number: bool):
        self.counting.fills_number = number
        try:
            yield
        finally:
            self.counting.fills_number = False


def count_step(step: Callable[..., Tensor], *tensors: Tensor, values: bool = True) -> Counts:
    """Return what step(*tensors on the device) and the backward of its result ask of the device.

    values: compute them on the CPU, at its cost; else only shapes. Floating tensors get gradients.
    """
    counting = CountingMode(values=values)
    inputs = [counting.send(tensor) for tensor in tensors]
    with counting, HostValuesMode(counting):
        value = step(*inputs)
        counting.phase = "backward"
        value.backward()
    if values:
        counting.counts.value = values_of(value)
        counting.counts.gradients = tuple(values_of(tensor.grad) for tensor in inputs)
    return counting.counts


def count_forward(program: Callable[..., Any], *tensors: Tensor) -> tuple[Counts, Any]:
    """Return what a program without gradient asks of the device, and its result on the CPU."""
    counting = CountingMode(values=True)
    inputs = [counting.send(tensor) for tensor in tensors]
    with counting, HostValuesMode(counting), torch.no_grad():
        result = program(*inputs)
    return counting.counts, tree_map(values_of, result)


def keep_on_host(index: Any) -> Any:
    """Return an index whose lists of numbers are tensors on the host: torch would send them to the device unseen."""
    if isinstance(index, tuple):
        return tuple(map(keep_on_host, index))
    return torch.tensor(index) if isinstance(index, list) and all(isinstance(one, int) for one in index) else index


def is_view(func: Any) -> bool:
    """Return whether an operation gives other sight of the same memory."""
    return any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)
