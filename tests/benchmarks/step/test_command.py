"""`python -m benchmarks step`: rows, ratios, a CSV, and mistakes in one sentence."""

import csv

import pytest

from benchmarks.command import main
from benchmarks.step.command import sentences


def test_rows_ratios_and_a_csv(tmp_path, capsys):
    out = tmp_path / "steps.csv"
    words = ["--backbone", "small_cnn", "--size", "16", "--plain", "8", "16", "--cached", "16", "--peer", "8"]
    with pytest.raises(SystemExit) as done:
        main(["step", *words, "--micro-batch", "8", "--out", str(out)])
    assert done.value.code in (0, None)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(row["contender"], row["batch"]) for row in rows] == [
        ("plain", "8"),
        ("plain", "16"),
        ("cached", "16"),
        ("pml", "8"),
    ]
    said = " ".join(capsys.readouterr().out.split())
    assert "of a plain 8's memory" in said
    assert "At 16 images, cached takes" in said


def test_ratios_are_of_the_right_rows():
    def row(contender, batch, micro_batch, peak, seconds):
        return {
            "contender": contender,
            "batch": batch,
            "micro_batch": micro_batch,
            "peak_extra_mb": peak,
            "seconds": seconds,
            "reason": None,
        }

    found = sentences(
        [row("plain", 8, None, 10.0, 1.0), row("plain", 64, None, 80.0, 8.0), row("cached", 64, 8, 12.0, 10.0)]
    )
    assert found == [
        "A batch of 64 takes 1.20 of a plain 8's memory.",
        "At 64 images, cached takes 1.25 of plain's time, 0.15 of its memory.",
    ]
    assert sentences([{"reason": "killed"}]) == []


@pytest.mark.parametrize(
    ("words", "message"), [(["--plain", "1"], "--plain"), (["--micro-batch", "0"], "--micro-batch")]
)
def test_mistakes_are_said(words, message, capsys):
    with pytest.raises(SystemExit) as done:
        main(["step", *words])
    assert done.value.code == 2
    assert message in capsys.readouterr().err
