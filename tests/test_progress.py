"""Lines for a log: the first, each stage, each minute, whether the work says anything or not; and who gets a bar."""

import io
import sys
import time

import pytest

from shadowmetric import progress
from shadowmetric.progress import Bar, Lines, watch


class Clock:
    """A time that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture(autouse=True)
def five_seconds(monkeypatch):
    """Undo what conftest.py does for other tests."""
    monkeypatch.setattr(progress, "QUIET", 5.0)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def said(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_line_at_each_stage_and_each_minute(clock, capsys):
    with Lines(tick=3600.0) as lines:
        lines("reading", 0.0)
        clock.now += 4.9
        lines("reading", 0.1)
        assert said(capsys) == []  # quick work says nothing
        clock.now += 0.1
        lines("reading", 0.2)
        assert said(capsys) == ["0:00:05  reading: 20 %, about 0:00:20 left"]
        clock.now += 59.9
        lines("reading", 0.21)
        assert said(capsys) == []
        clock.now += 0.1
        lines("reading", 0.25)
        assert said(capsys) == ["0:01:05  reading: 25 %, about 0:03:15 left"]
        clock.now += 5
        lines("embedding", 0.5)
        assert said(capsys) == ["0:01:10  embedding: 50 %, about 0:01:10 left"]
        lines("scoring", 0.6)  # stages that fly past are no lines
        clock.now += 5
        lines("writing", 0.9)
        assert said(capsys) == ["0:01:15  writing: 90 %, about 0:00:08 left"]


def test_long_work_says_at_once_that_it_begins(clock, capsys):
    with Lines(quiet=0.0, tick=3600.0) as lines:
        lines("floors: embedding 12 %", 0.0)
        clock.now += 6
        lines("floors: embedding 99 %", 0.0)  # the same stage
        assert said(capsys) == ["0:00:00  floors: embedding 12 %"]


def test_work_that_reports_nothing_is_spoken_for(capsys):
    with Lines(quiet=0.0, pause=0.01, tick=0.001) as lines:
        lines("building", 0.5)
        end, heard = time.monotonic() + 60, []
        while len(heard) < 3 and time.monotonic() < end:
            time.sleep(0.01)
            heard += said(capsys)
    assert len(heard) >= 3
    assert all("building: 50 %" in line for line in heard)
    assert not lines.watcher.is_alive()


def test_no_control_characters_and_no_letters_that_there_are_not(clock, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", out)
    with Lines(quiet=0.0, tick=3600.0) as lines:
        lines("a\x1b[2J\nü", 0.0)
    assert out.buffer.getvalue() == b"0:00:00  a?[2J??\n"


def test_an_error_goes_through_and_ends_the_watch():
    with pytest.raises(KeyboardInterrupt), Lines() as lines:
        raise KeyboardInterrupt
    assert not lines.watcher.is_alive()


@pytest.mark.parametrize(("terminal", "kind"), [(True, Bar), (False, Lines)])
def test_a_bar_in_a_terminal_and_lines_elsewhere(monkeypatch, terminal, kind):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert type(watch()) is kind
