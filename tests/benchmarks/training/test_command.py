"""`python -m benchmarks training`: rows as they finish, under one heading, and mistakes."""

import pytest

from benchmarks.command import main
from benchmarks.training import speed
from benchmarks.training.speed import Speed


def run(*words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["training", *words])
    assert (ended.value.code or 0) == code


def test_each_row_is_printed_before_the_next_is_measured(capsys, monkeypatch):
    figures = iter([(2000.0, 1800.0, 0.9), (50.0, 49.0, 0.98)])
    printed = []

    def measured(workload, *, batch, per_class, rounds):
        assert (batch, per_class, rounds) == (16, 2, 3)
        printed.append(capsys.readouterr().out)
        return Speed(workload, batch, *next(figures))

    monkeypatch.setattr(speed, "training_speed", measured)
    run("--batch", "16", "--per-class", "2", "--rounds", "3")
    before, first, second = (text.splitlines() for text in (*printed, capsys.readouterr().out))
    assert before == []
    title, heading, _, row = first
    assert title.strip() == "Images per second, training"
    assert heading.split() == ["backbone", "bare", "loop", "train", "ratio"]
    assert row.split() == ["small_cnn,", "28", "pixels,", "batch", "16", "2,000", "1,800", "0.900"]
    (last,) = second
    assert last.split() == ["resnet18,", "64", "pixels,", "batch", "16", "50", "49", "0.980"]
    assert (
        ends(heading, "loop", "train", "ratio")
        == ends(row, "2,000", "1,800", "0.900")
        == ends(last, "50", "49", "0.980")
    )


def ends(line, *words):
    """Return where these words end."""
    return [line.rindex(word) + len(word) for word in words]


@pytest.mark.parametrize("words", [("--batch", "1"), ("--per-class", "1"), ("--rounds", "0")])
def test_a_mistake_is_one_sentence(capsys, words):
    run(*words, code=2)
    out, errors = capsys.readouterr()
    assert out == ""
    assert f"{words[0]} is {words[1]}; it must be" in errors
