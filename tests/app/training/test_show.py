"""What is shown of a run: a line an epoch anywhere, a moving line in a terminal, each warning once."""

import io

import pytest
from rich.console import Console

from shadowmetric.app.training import show as module
from shadowmetric.app.training.show import Moment, Screen, duration, epoch_sentence

LINE = {"epoch": 3, "loss": 0.1234, "recall_at_1": 0.8765, "map_at_r": 0.5, "is_best": True, "active": 0.5, "dead": 2}
LINE |= {"images_per_second": 1234.5, "seconds": 61.0, "warnings": []}
MOMENT = Moment(2, 30, 5, 10, 0.2, 999.9, 0.25, 0.1, 0.9, 75.0, ["all is lost: use --learning-rate (3 in a row)"])


def shown(terminal):
    found = Screen()
    found.next = 0.0
    found.console = Console(file=io.StringIO(), force_terminal=terminal, width=120, highlight=False)
    return found


def test_the_line_of_an_epoch():
    assert epoch_sentence(LINE) == (
        "epoch   3  loss 0.1234  Recall@1 87.65 % best  MAP@R 50.00 %  active  50 %  2 dead batches  "
        "1,234 images/s  1 min 01 s"
    )
    bare = {**LINE, "recall_at_1": None, "active": None, "dead": 0}
    assert epoch_sentence(bare) == "epoch   3  loss 0.1234  1,234 images/s  1 min 01 s"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7260, "2 h 01 min"), (-3, "0 s")]
)
def test_times_as_people_say_them(seconds, said):
    assert duration(float(seconds)) == said


def test_a_terminal_gets_a_moving_line_with_what_remains():
    show = shown(terminal=True)
    assert show.wants()
    show.moment(MOMENT)
    assert not show.wants()  # not so soon again
    show.close()
    said = show.console.file.getvalue()
    for part in ("epoch 2/30", "loss 0.2000", "1,000 images/s", "active 25 %", "gaps 0.10 | 0.90", "1 min 15 s left"):
        assert part in said


def test_a_terminal_gets_a_bar_while_scores_are_made():
    show = shown(terminal=True)
    show.stage("test split: collapse", 0.5)
    show.close()
    assert "test split: collapse ━━━━━━━━╌╌╌╌╌╌╌╌ 50 %" in show.console.file.getvalue()


def test_a_file_gets_no_moving_line_and_each_warning_once():
    show = shown(terminal=False)
    show.notes(("A note that is much longer than " + "a line " * 20,))
    show.epoch({**LINE, "warnings": ["all is lost: use --learning-rate (3 in a row)"]})
    show.epoch({**LINE, "warnings": ["all is lost: use --learning-rate (9 in a row)"]})
    show.close()
    said = show.console.file.getvalue().splitlines()
    assert len(said) == 4
    assert [line for line in said if "Warning" in line] == ["Warning: all is lost: use --learning-rate (3 in a row)."]


def test_a_file_gets_a_line_a_minute(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "FIRST", 5.0)
    show = Screen()
    show.console = Console(file=io.StringIO(), force_terminal=False, width=120, highlight=False)
    show.stage("reading images", 0.1)
    assert not show.wants()
    clock.now += 5
    show.stage("reading images", 0.2)
    show.stage("reading images", 0.3)
    clock.now += 59
    assert not show.wants()
    show.epoch(LINE)  # which is a line, too
    clock.now += 59
    assert not show.wants()
    clock.now += 1
    assert show.wants()
    show.moment(MOMENT)
    show.close()
    first, second, third, warning = show.console.file.getvalue().splitlines()
    assert first == "reading images: 20 %  40 s left"
    assert second == epoch_sentence(LINE)
    assert third.startswith("epoch 2/30 batch 5 of 10  loss 0.2000  1,000 images/s  active 25 %")
    assert third.endswith("1 min 15 s left")
    assert warning.startswith("Warning: all is lost")
