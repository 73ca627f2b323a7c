"""Calls as users make them: without the run-time checks of annotations, which pytest adds and which refuse first."""

import contextlib
from collections.abc import Iterator

from jaxtyping import config


@contextlib.contextmanager
def unchecked_calls() -> Iterator[None]:
    """Let calls through that annotations forbid, so that a test sees what the library itself says."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
