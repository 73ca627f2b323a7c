"""Ctrl-C and SIGTERM end a run between two batches, after its state was saved; a second Ctrl-C ends it at once.

A process that has nothing to save ends when the one that started it is gone (`end_with_parent`).
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from types import FrameType


class Stop:
    """True once a signal to stop has come. Use as a context manager; outside the main thread it never is."""

    def __init__(self, also: Callable[[], bool] = lambda: False):
        self.signalled, self.also = False, also
        self.before: dict[int, object] = {}

    @property
    def asked(self) -> bool:
        """Return whether a signal has come, or whoever started this process asks for it."""
        return self.signalled or self.also()

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            raise KeyboardInterrupt
        self.signalled = True


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it has ended, however that was."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=end_after, args=(parent.sentinel,), daemon=True).start()


def end_after(sentinel: int) -> None:
    """Wait for the end of a process, and end."""
    wait([sentinel])
    os._exit(1)
