"""The same line once a minute, with a count; other lines at once."""

import logging

import pytest

from shadowmetric.app.serving.server.limits.seldom_log import SeldomLog, SeldomRepeated


@pytest.fixture
def written(monkeypatch):
    """A log whose minutes pass when told, and its lines."""
    lines, now = [], [0.0]

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    monkeypatch.setattr(logging.getLogger(), "handlers", [Kept()])
    log = SeldomLog(SeldomRepeated(clock=lambda: now[0]))

    def passed(seconds):
        now[0] += seconds
        log.write_due()

    with log.hold_back():
        yield log, lines, passed


def say(words, *values, name="uvicorn.error"):
    logging.getLogger(name).warning(words, *values)


def test_a_line_that_repeats_itself_is_counted(written):
    _, lines, passed = written
    for number in range(1000):
        say("bad request %d", number)
        passed(0.01)
    assert lines == ["bad request 0"]
    passed(60)
    assert lines == ["bad request 0", "bad request 999 (999 like it in a minute)"]
    passed(59)
    say("bad request %d", 5)
    assert len(lines) == 2
    passed(1)
    assert lines[2:] == ["bad request 5"]
    passed(60)
    passed(60)
    say("bad request %d", 6)
    assert lines[3:] == ["bad request 6"]


def test_other_places_and_other_errors_are_written_at_once(written):
    _, lines, _ = written
    for error in (ValueError("one"), KeyError("two"), ValueError("three")):
        try:
            raise error
        except Exception:
            logging.getLogger("asyncio").exception(str(error))
    logging.getLogger("shadowmetric.serve").warning("the index was replaced")
    assert lines == ["one", "'two'", "the index was replaced"]


def test_what_is_held_back_is_written_at_the_end(monkeypatch):
    lines = []

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    handler = Kept()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    with SeldomLog().hold_back():
        for number in range(3):
            say("line %d", number)
    assert lines == ["line 0", "line 2 (2 like it in a minute)"]
    say("line %d", 3)
    assert lines[2:] == ["line 3"]
    assert handler.filters == []
