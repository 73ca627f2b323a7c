"""A log that says the same thing once a minute at most: what anybody can cause must not fill a disk.

The first line of a place in the code (and of a kind of error) is written at once. Those that follow within a minute are
counted; then the last of them is written, with their number. Nothing is lost for longer than a minute.
"""

import contextlib
import copy
import logging
import threading
import time
from collections.abc import Callable, Iterator

SECONDS = 60.0
Place = tuple[str, int, str, int, type | None]


class Repeats:
    """The lines of one place since the one that was written last."""

    def __init__(self, written: float):
        self.written, self.count = written, 0
        self.last: logging.LogRecord | None = None


class SeldomRepeated(logging.Filter):
    """Lets a line of each place through, and holds back its like for a while."""

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self.seconds, self.clock = seconds, clock
        self.places: dict[Place, Repeats] = {}
        self.lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written now."""
        if getattr(record, "repeated", False):
            return True
        now, place = self.clock(), place_of(record)
        with self.lock:
            repeats = self.places.get(place)
            if repeats is None or (repeats.count == 0 and now - repeats.written >= self.seconds):
                self.places[place] = Repeats(now)
                return True
            repeats.count, repeats.last = repeats.count + 1, record
            return False

    def due(self, at_once: bool = False) -> list[logging.LogRecord]:
        """Return the lines whose minute is over, each with the number of those it stands for."""
        now, lines = self.clock(), []
        with self.lock:
            for place, repeats in list(self.places.items()):
                if not at_once and now - repeats.written < self.seconds:
                    continue
                if repeats.last is None:
                    del self.places[place]
                else:
                    lines.append(with_count(repeats.last, repeats.count))
                    self.places[place] = Repeats(now)
        return lines


def place_of(record: logging.LogRecord) -> Place:
    """Return what makes lines alike: where they are written, and the kind of error."""
    kind = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, record.pathname, record.lineno, kind


def with_count(record: logging.LogRecord, count: int) -> logging.LogRecord:
    """Return a line that says how often it was meant."""
    line = copy.copy(record)
    if count > 1:
        line.msg, line.args = f"{record.getMessage()} ({count:,} like it in a minute)", ()
    line.repeated = True
    return line


class SeldomLog:
    """The filter on everything that this process writes its log with."""

    def __init__(self, repeated: SeldomRepeated | None = None):
        self.repeated = repeated or SeldomRepeated()

    @contextlib.contextmanager
    def hold_back(self) -> Iterator[None]:
        """Hold repeated lines back, for as long as this lasts."""
        handlers = list(logging.getLogger().handlers) or [logging.lastResort]
        handlers = [handler for handler in handlers if handler is not None]
        for handler in handlers:
            handler.addFilter(self.repeated)
        try:
            yield
        finally:
            self.write_due(at_once=True)
            for handler in handlers:
                handler.removeFilter(self.repeated)

    def write_due(self, at_once: bool = False) -> None:
        """Write the lines that have been held back long enough."""
        for line in self.repeated.due(at_once):
            logging.getLogger(line.name).handle(line)
