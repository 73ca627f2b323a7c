"""Operators that launch Triton kernels: defined where Triton and torch allow it, and refused in one sentence elsewhere.

`torch.library.triton_op` makes a kernel visible to torch.compile. It came with torch 2.6, and the tuples that kernels
keep their answers in came with Triton 3.3; importing a file with kernels needs neither.
"""
# pyright: reportOptionalMemberAccess=false

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

try:
    triton: Any = importlib.import_module("triton")
    tl: Any = importlib.import_module("triton.language")
except ImportError:
    triton = tl = None
wrap_triton: Any = getattr(torch.library, "wrap_triton", None)  # torch.compile finds kernels by this bare name


def missing() -> str:
    """Return what kernels lack here, or nothing."""
    if triton is None:
        return "Triton, which is not installed"
    if not hasattr(torch.library, "triton_op"):
        return f"torch 2.6 or newer; this is {torch.__version__}"
    return "" if hasattr(tl, "tuple") else f"Triton 3.3 or newer; this is {triton.__version__}"


def define_op(name: str, launch: Callable, fake: Callable) -> Callable:
    """Return the operator of a function that launches kernels; where something is missing, one that refuses.

    fake: returns empty results of the right shapes, for torch.compile.
    """
    lack = missing()
    if not lack:
        op: Any = torch.library.triton_op(f"shadowmetric::{name}", launch, mutates_args=())
        op.register_fake(fake)
        return op

    def refuse(*_: Tensor) -> None:
        raise ValueError(f"{name} needs {lack}. Do without it: the miners and losses give the same answer.")

    return refuse


def check_device(kernel: Any, rows: Tensor) -> None:
    """Refuse rows that a compiled kernel can't reach; Triton's interpreter reaches them all."""
    if rows.device.type == "cpu" and isinstance(kernel, triton.runtime.JITFunction):
        raise ValueError(f"rows are on {rows.device}, and fused kernels run on a GPU; move them, or do without.")
