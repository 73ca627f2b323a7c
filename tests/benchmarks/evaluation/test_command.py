"""`python -m benchmarks evaluation` from outside: mistakes, help, a real tiny run, and runs with a quick worker."""

import csv
import json
import sys

import pytest

from benchmarks.command import main
from benchmarks.evaluation import command as bench_evaluation
from benchmarks.evaluation.plan import EVALUATION, FIGURES

SAID = {"retrieval_s": 2.0, "silhouette_s": 1.0, "total_s": 3.0, "extrapolated": False, "peak_extra_mb": 64.0}
SAID |= dict.fromkeys(FIGURES, 0.5)


def result(capsys, *tokens):
    """Run the command in this process; return its exit code, output and errors."""
    try:
        main(("evaluation", *tokens))
        code = 0
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


def replaced(monkeypatch, code):
    """Let this code be the worker; `job` is there."""
    code = f"import json, sys; said = {SAID!r}; job = json.loads(sys.argv[1])\n{code}\nprint(json.dumps(said))"
    monkeypatch.setattr(bench_evaluation, "EVALUATION", EVALUATION._replace(worker=(sys.executable, "-c", code)))


def written(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (["--rows", "1"], "--rows is 1; it must be 2 or more."),
        (["--classes", "10", "1"], "--classes is 1; it must be 2 or more."),
        (["--dim", "0"], "--dim is 0; it must be 1 or more."),
        (["--queries", "0"], "--queries is 0; it must be 1 or more."),
        (["--seed", "-1"], "--seed is -1; it must be 0 or more."),
        (["--timeout", "0"], "--timeout is 0; it must be above 0 seconds."),
        (["--contender", "pml"], "--contender is 'pml'; choose one of ours, peers."),
        (["--measures", "nmi"], "--measures is 'nmi'; choose one of recall-map, silhouette, all."),
        (["--out", "/nowhere/at/all.csv"], "--out '/nowhere/at/all.csv' cannot be written"),
        (["--row", "32"], "Did you mean --rows?"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_code_2(capsys, monkeypatch, tmp_path, tokens, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, errors = result(capsys, *tokens)
    assert (code, out) == (2, "")
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_help_has_the_settings(capsys):
    code, out, errors = result(capsys, "--help")
    assert (code, errors) == (0, "")
    assert "--classes" in out
    assert "--batch" not in out


def test_a_real_run_of_both_contenders_agrees(capsys, tmp_path):
    path = tmp_path / "figures.csv"
    code, out, _ = result(capsys, "--rows", "300", "--dim", "16", "--classes", "10", "--out", str(path))
    assert code == 0
    ours, peers = written(path)
    assert (ours["contender"], peers["contender"]) == ("ours", "peers")
    assert tuple(ours) == EVALUATION.columns
    for name in FIGURES:
        assert float(ours[name]) == pytest.approx(float(peers[name]), abs=1e-6)
    assert "300 × 16, 10 classes" in out
    (line,) = [line for line in out.splitlines() if "largest difference" in line]
    assert line.split()[-1] == "met"
    assert out.splitlines()[-1] == f"The CSV is {path}"


def test_the_defaults_are_those_of_the_bar():
    jobs = bench_evaluation.plan_jobs(bench_evaluation.EvaluationSettings())
    assert [(job.contender, job.rows, job.dim, job.classes) for job in jobs] == [
        ("ours", 60_000, 64, 10),
        ("peers", 60_000, 64, 10),
        ("ours", 60_000, 64, 10_000),
        ("peers", 60_000, 64, 10_000),
    ]
    assert {job.measures for job in jobs} == {"recall-map silhouette"}


def test_ratios_and_bars_of_what_the_workers_said(capsys, monkeypatch, tmp_path):
    replaced(monkeypatch, "said['total_s'] *= 1 if job['contender'] == 'peers' else 5; said['silhouette'] += 1e-5")
    path = tmp_path / "figures.csv"
    tokens = ("--rows", "40", "80", "--dim", "8", "--classes", "4", "30", "--out", str(path))
    code, out, _ = result(capsys, *tokens)
    assert code == 0
    assert out.count("5.00×") == 3
    assert out.count("not met") == 3  # the time of three sets; the fourth has too few rows
    assert out.count("unknown") == 3
    assert "skipped: 40 rows are fewer than two for each of 30 classes" in " ".join(out.split())
    assert len(written(path)) == 8


def test_figures_that_differ_are_named(capsys, monkeypatch, tmp_path):
    replaced(monkeypatch, "said['map_at_r'] += 1e-5 * (job['contender'] == 'ours')")
    path = tmp_path / "figures.csv"
    _, out, _ = result(capsys, "--rows", "40", "--dim", "8", "--classes", "4", "--out", str(path))
    (line,) = [line for line in out.splitlines() if "largest difference (map_at_r)" in line]
    assert "1.0e-05" in line
    assert "not met" in line


def test_a_missing_peer_is_a_row_that_says_so(capsys, monkeypatch, tmp_path):
    missing = {"reason": "faiss-cpu cannot be imported: No module named 'faiss'"}
    replaced(monkeypatch, f"said = said if job['contender'] == 'ours' else {json.dumps(missing)}")
    path = tmp_path / "figures.csv"
    code, out, _ = result(capsys, "--rows", "40", "--dim", "8", "--classes", "4", "--out", str(path))
    assert code == 0
    assert "faiss-cpu cannot be imported" in " ".join(out.split())
    assert out.count("unknown") == 2  # time and agreement; memory is known without a peer
    ours, peers = written(path)
    assert ours["reason"] == ""
    assert peers["reason"] == missing["reason"]
    assert peers["total_s"] == ""


def test_what_was_extrapolated_says_so(capsys, monkeypatch, tmp_path):
    replaced(monkeypatch, "said['extrapolated'] = job['contender'] == 'peers'")
    tokens = ("--rows", "40", "--dim", "8", "--classes", "4", "--queries", "10", "--out", str(tmp_path / "f.csv"))
    _, out, _ = result(capsys, *tokens)
    assert "peers, extrapolated" in out
    assert "faiss searched 10 queries" in out
    assert "time, ours / peers, extrapolated" in out


def test_one_contender_and_one_measure(capsys, monkeypatch, tmp_path):
    replaced(monkeypatch, "")
    path = tmp_path / "figures.csv"
    tokens = ("--rows", "40", "--classes", "4", "--contender", "peers", "--measures", "silhouette", "--out", str(path))
    code, out, _ = result(capsys, *tokens)
    assert code == 0
    assert "Bars" not in out  # they are bars for ours
    (row,) = written(path)
    assert (row["contender"], row["measures"]) == ("peers", "silhouette")


def test_control_c_keeps_the_rows_that_finished(capsys, monkeypatch, tmp_path):
    replaced(monkeypatch, "")
    real, path = bench_evaluation.skip_reason, tmp_path / "figures.csv"

    def pressed(job):
        if job.contender == "peers":
            raise KeyboardInterrupt
        return real(job)

    monkeypatch.setattr(bench_evaluation, "skip_reason", pressed)
    code, out, _ = result(capsys, "--rows", "40", "--classes", "4", "--out", str(path))
    assert code == 130
    assert out.splitlines()[-1] == f"Stopped. The rows that finished are in {path}"
    assert [row["contender"] for row in written(path)] == ["ours"]
