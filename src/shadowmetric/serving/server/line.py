"""A few requests at work, some waiting, the others refused at once.

`place` is held from the first byte of an upload to the answer, so that memory has a bound; `work` is done by as many
threads as may be at work, first come first served, while the event loop goes on answering /health.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shadowmetric.serving.server.refusals import RETRY, Refused

T = TypeVar("T")


class Line:
    """Room for some requests."""

    def __init__(self, name: str, at_once: int, waiting: int):
        self.room = at_once + waiting
        self.inside = 0  # changed by the event loop's thread alone
        self.name, self.at_once = name, at_once
        self.threads: ThreadPoolExecutor | None = None  # from the first work on

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place in the line."""
        if self.inside >= self.room:
            raise Refused(503, f"{self.inside} requests are at work or waiting; try again in a second.", RETRY)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def work(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns, in its turn."""
        if self.threads is None:
            self.threads = ThreadPoolExecutor(self.at_once, thread_name_prefix=self.name)
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    def close(self) -> None:
        """Let go of those who wait; what is at work ends by itself."""
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)
        self.threads = None
