"""Functions that a compiled graph calls as they are, and does not look into.

`torch.compile` may join a multiplication and an addition into one rounding, or replace a root. Functions whose last
digit must be the same everywhere stay out of its reach as operators of their own: eagerly they are plain functions,
and in a compiled graph calls of `torch.ops.shadowmetric.NAME`.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch


def opaque(name: str, fake: Callable) -> Callable[[Callable], Callable]:
    """Make a function of tensors an operator for compiled graphs. fake: returns empty tensors of the result's shape."""

    def wrap(function: Callable) -> Callable:
        operator: Any = torch.library.custom_op(f"shadowmetric::{name}", function, mutates_args=())
        operator.register_fake(fake)

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            return operator(*args) if torch.compiler.is_compiling() else function(*args)

        return call

    return wrap
