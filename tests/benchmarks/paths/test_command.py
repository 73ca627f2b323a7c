"""`python -m benchmarks paths` from outside: tables, CSV, reasons and mistakes."""

import csv

import pytest

from benchmarks.command import main
from benchmarks.paths import command as bench_paths
from benchmarks.paths import paths
from benchmarks.paths.paths import COLUMNS


def result(capsys, *tokens):
    """Run the command in this process; return its exit code, output and errors."""
    try:
        main(("paths", *tokens))
        code = 0
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let each contender run once in a round."""
    monkeypatch.setattr(paths, "ROUND_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (["--sizes", "1"], "--sizes is 1; it must be 2 or more."),
        (["--dim", "0"], "--dim is 0; it must be 1 or more."),
        (["--per-class", "1"], "--per-class is 1; it must be 2 or more."),
        (["--rounds", "-1"], "--rounds is -1; it must be 0 or more."),
        (["--threads", "0"], "--threads is 0; it must be 1 or more."),
        (["--losses", "nobody"], "--losses is 'nobody'; choose one of shadow"),
        (["--miners", "easy"], "--miners is 'easy'; choose one of semi_hard"),
        (["--sizes", "8", "--csv", "nowhere/rows.csv"], "--csv 'nowhere/rows.csv' cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(capsys, monkeypatch, tmp_path, tokens, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, errors = result(capsys, *tokens)
    assert (code, out) == (2, "")
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_table_for_each_size_and_the_rows_in_the_csv(capsys, tmp_path):
    file = tmp_path / "paths.csv"
    words = ("--losses", "shadow", "multi-similarity", "--miners", "batch-hard", "--rounds", "1", "--dim", "8")
    code, out, _ = result(capsys, "--sizes", "8", "16", *words, "--csv", str(file))
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert [line for line in lines if line.startswith("S =")] == [
        "S = 8, D = 8, 4 rows a class",
        "S = 16, D = 8, 4 rows a class",
    ]
    assert lines.count("loss miner contender kernels waits forward µs backward µs total µs ratio") == 2
    assert sum(line.startswith("shadow batch_hard ours ") for line in lines) == 2
    assert sum(line.startswith("multi_similarity – ours ") for line in lines) == 2
    assert lines[-1] == f"The CSV is {file}"
    with file.open(newline="") as opened:
        written = list(csv.DictReader(opened))
    assert tuple(written[0]) == COLUMNS
    ours = [row for row in written if row["contender"] == "ours"]
    assert [(row["loss"], row["batch"], row["threads"]) for row in ours] == [
        ("shadow", "8", "1"),
        ("multi_similarity", "8", "1"),
        ("shadow", "16", "1"),
        ("multi_similarity", "16", "1"),
    ]


def test_no_file_is_written_unless_asked_for(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, _ = result(capsys, "--sizes", "8", "--losses", "contrastive", "--rounds", "1")
    assert code == 0
    assert not list(tmp_path.iterdir())


def test_what_is_not_run_is_said_once_below_the_table(capsys, monkeypatch):
    monkeypatch.setattr("shadowmetric.app.doctor.devices.contenders.PEER_ROWS", 4)
    _, out, _ = result(capsys, "--sizes", "8", "--losses", "shadow", "triplet", "--miners", "hard", "--rounds", "1")
    assert out.count("dense: not run beyond 4 rows: its tensors grow with S×S") == 1
    assert sum(line.split()[2:] == ["dense", *"––––––"] for line in out.splitlines()) == 2


def test_compile_adds_a_table(capsys, monkeypatch):
    def played(case, rounds):
        figures = {"cold_seconds": 12.34, "warm_us": 100.4, "eager_us": 1234.5, "reason": None}
        return {"loss": case.loss, "miner": case.miner, "batch": case.batch} | figures

    monkeypatch.setattr(bench_paths, "measure_compile", played)
    _, out, _ = result(capsys, "--sizes", "8", "--losses", "contrastive", "--rounds", "1", "--compile")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "torch.compile(fullgraph=True), S = 256" in lines
    assert "shadow semi_hard 12.3 100 1,234" in lines
    assert "multi_similarity – 12.3 100 1,234" in lines
