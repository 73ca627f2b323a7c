"""A few requests at work, some waiting, the others refused at once.

`arrival` lasts while an upload comes in and takes no place, so that no number of slow ones keeps others out; `place` is
held from its last byte to the answer. `work` is done by as many threads as may be at work, first come first served,
while the event loop goes on answering /health.

`stop` refuses those that are still arriving or waiting; what is at work is finished.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from shadowmetric.app.serving.server.refusals import RETRY, Refused, stopping

T = TypeVar("T")


class Line:
    """Room for some requests. All but the work itself is done by the event loop's thread."""

    def __init__(self, name: str, at_once: int, waiting: int):
        self.room = at_once + waiting
        self.inside = 0
        self.arriving: set[asyncio.Task[Any]] = set()  # uploads that are not complete
        self.name, self.at_once = name, at_once
        self.threads: ThreadPoolExecutor | None = None  # from the first work on
        self.stopping = False

    @contextlib.contextmanager
    def arrival(self) -> Iterator[None]:
        """Receive an upload, if there is a place for it now; `stop` ends that."""
        self.check_room()
        task = current_task()
        self.arriving.add(task)
        try:
            with self.stoppable(task):
                yield
        finally:
            self.arriving.discard(task)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place in the line."""
        self.check_room()
        self.inside += 1
        try:
            with self.stoppable(current_task()):
                yield
        finally:
            self.inside -= 1

    def check_room(self) -> None:
        """Refuse if there is no place."""
        if self.stopping:
            raise stopping()
        if self.inside >= self.room:
            raise Refused(503, f"{self.inside} requests are at work or waiting; try again in a second.", RETRY)

    @contextlib.contextmanager
    def stoppable(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Refuse what `stop` has cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            task.uncancel()
            raise stopping() from None

    async def work(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns, in its turn."""
        if self.threads is None:
            self.threads = ThreadPoolExecutor(self.at_once, thread_name_prefix=self.name)
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    def stop(self) -> None:
        """Refuse those who arrive and wait, from now on; what is at work ends by itself."""
        self.stopping = True
        for task in self.arriving:
            task.cancel()
        self.close()

    def close(self) -> None:
        """Let go of those who wait; what is at work ends by itself."""
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)
        self.threads = None


def current_task() -> asyncio.Task[Any]:
    """Return the task of the request that is being answered."""
    task = asyncio.current_task()
    assert task is not None
    return task
