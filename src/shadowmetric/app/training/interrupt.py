"""Ctrl-C and SIGTERM end a run between two batches, after its state was saved; a second Ctrl-C ends it at once."""

import signal
import threading
from collections.abc import Callable
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
