"""`python -m benchmarks memory` from outside: mistakes, a run whose workers are quick ones, and one that is over."""

import csv
import json
import sys

import pytest

from benchmarks.command import main
from benchmarks.memory import command as bench_memory
from benchmarks.memory.contract import MEMORY

FIGURES = {
    "formula": "32 MiB + 64 P",
    "predicted_bytes": 2_000_000,
    "counted_bytes": 1_500_000,
    "resident_bytes": 2_500_000,
    "counted_share": 0.75,
    "kept_formula": "4 S",
    "kept_predicted_bytes": 200_000,
    "kept_bytes": 100_000,
    "over": False,
}


def result(capsys, *tokens):
    """Run the command in this process; return its exit code, output and errors."""
    try:
        main(("memory", *tokens))
        code = 0
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


def say(monkeypatch, **figures):
    """Replace the worker by one that says these figures."""
    code = f"print({json.dumps(FIGURES | figures)!r})"
    monkeypatch.setattr(bench_memory, "MEMORY", MEMORY._replace(worker=(sys.executable, "-c", code)))


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (["--batch", "1"], "--batch is 1; it must be 2 or more."),
        (["--dim", "0"], "--dim is 0; it must be 1 or more."),
        (["--scratch-mb", "0"], "--scratch-mb is 0; it must be 1 or more."),
        (["--name", "nobody"], "--name is 'nobody'; choose one of"),
        (["--dtype", "int8"], "--dtype is 'int8'; choose one of"),
        (["--timeout", "0"], "--timeout is 0; it must be above 0 seconds."),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(capsys, monkeypatch, tmp_path, tokens, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, errors = result(capsys, *tokens)
    assert (code, out) == (2, "")
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_predicted_stands_beside_measured_and_the_csv_has_the_rows(capsys, monkeypatch, tmp_path):
    say(monkeypatch)
    path = tmp_path / "memory.csv"
    code, out, _ = result(capsys, "--batch", "32", "64", "--dim", "8", "--name", "shadow", "n_pair", "--out", str(path))
    assert code == 0
    assert "S = 32, D = 8, float32" in out
    for figure in ("2.00", "1.50", "75%", "2.50", "0.20", "0.10", "32 MiB + 64 P", "4 S"):
        assert figure in out
    assert "OVER" not in out
    assert out.splitlines()[-2:] == ["More than its formula: none.", f"The CSV is {path}"]
    with path.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [(row["name"], row["batch"]) for row in written] == [
        ("shadow", "32"),
        ("n_pair", "32"),
        ("shadow", "64"),
        ("n_pair", "64"),
    ]
    assert tuple(written[0]) == MEMORY.columns


def test_a_row_that_is_over_is_marked_and_ends_with_exit_code_1(capsys, monkeypatch, tmp_path):
    say(monkeypatch, over=True)
    code, out, _ = result(capsys, "--batch", "32", "--name", "shadow", "--out", str(tmp_path / "memory.csv"))
    assert code == 1
    assert "OVER" in out
    assert "More than its formula: shadow at 32 × 128." in out


def test_what_could_not_be_measured_is_a_reason(capsys, monkeypatch, tmp_path):
    code = "import sys; sys.exit('no luck')"
    monkeypatch.setattr(bench_memory, "MEMORY", MEMORY._replace(worker=(sys.executable, "-c", code)))
    code, out, _ = result(capsys, "--batch", "32", "--name", "shadow", "--out", str(tmp_path / "memory.csv"))
    assert code == 0
    assert "no luck" in " ".join(out.split())
