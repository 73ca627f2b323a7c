"""The command from outside: mistakes, help, and a run whose workers are replaced by a quick one."""

import csv
import json
import subprocess
import sys

import pytest

from benchmarks.command import main
from benchmarks.losses import command as bench_losses
from benchmarks.losses.plan import LOSSES

FIGURES = {"forward_ms": 1.0, "total_ms": 3.0, "product_ms": 2.0, "ratio_to_product": 1.5, "kept_bytes": 64}
QUICK = f"print({json.dumps(FIGURES)!r})"


def result(capsys, *tokens):
    """Run the command in this process; return its exit code, output and errors."""
    try:
        main(tokens)
        code = 0
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (["losses", "--batch", "0"], "--batch is 0; it must be 1 or more."),
        (["losses", "--dim", "64", "-3"], "--dim is -3; it must be 1 or more."),
        (["losses", "--repeats", "0"], "--repeats is 0; it must be 1 or more."),
        (["losses", "--timeout", "0"], "--timeout is 0; it must be above 0 seconds."),
        (["losses", "--contender", "nobody"], "--contender is 'nobody'; choose one of"),
        (["losses", "--out", "/nowhere/at/all.csv"], "--out '/nowhere/at/all.csv' cannot be written"),
        (["losses", "--bacth", "32"], "Did you mean --batch?"),
        (["losses", "--batch", "many"], "--batch"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_code_2(capsys, monkeypatch, tmp_path, tokens, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, errors = result(capsys, *tokens)
    assert code == 2
    assert out == ""
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tokens", "word"),
    [
        (["--help"], "losses"),
        (["losses", "--help"], "--per-class"),
        (["--help"], "evaluation"),
    ],
)
def test_help_and_version(capsys, tokens, word):
    code, out, errors = result(capsys, *tokens)
    assert (code, errors) == (0, "")
    assert word in out


def test_a_run_prints_tables_ratios_and_where_the_csv_is(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench_losses, "LOSSES", LOSSES._replace(worker=(sys.executable, "-c", QUICK)))
    path = tmp_path / "figures.csv"
    tokens = ("losses", "--batch", "32", "64", "--dim", "8", "--contender", "ours", "pml", "--out", str(path))
    code, out, _ = result(capsys, *tokens)
    assert code == 0
    assert "S = 32, D = 8" in out
    assert "S = 64, D = 8" in out
    assert "1.00×" in out  # pml / ours: both workers said 3 ms
    assert "1.50×" in out  # ours / bare product
    assert out.splitlines()[-1] == f"The CSV is {path}"
    with path.open(newline="") as file:
        assert [(row["contender"], row["batch"]) for row in csv.DictReader(file)] == [
            ("ours", "32"),
            ("pml", "32"),
            ("ours", "64"),
            ("pml", "64"),
        ]


def test_importing_the_library_loads_neither_bench_nor_command():
    code = "import sys, shadowmetric; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    unwanted = ("benchmarks", "shadowmetric.app.cli", "rich", "cyclopts")
    assert not [name for name in names if name.startswith(unwanted)]
