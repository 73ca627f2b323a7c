"""`python -m benchmarks scale`: tables, JSON and CSV of what is computed; measured rows beside them; mistakes."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.command import main
from benchmarks.scale import ranks as scale_ranks

GRID = ("--paper-batch", "1000", "1000000", "--paper-ranks", "1", "1024", "--paper-dim", "512")
PART = {"embedder": 0.4, "few": 0.001, "many": 0.011}
OF_ONE = {
    "loss": 0.02,
    "loss_of_some": 0.011,
    "update": 0.001,
    "flops": 3.5e6,
    "kept_bytes": 50_000,
    "step_bytes": 5_000_000,
    "weights": 100_000,
    "pixel_bytes": 784,
    "buffer_bytes": 2_000,
}
STEP = {"seconds": 0.5, "core_seconds": 0.4, "extra_bytes": 10_000_000, "received_bytes": 7e5, "collectives": 8.0}


def run(*words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["scale", *words])
    assert (ended.value.code or 0) == code


@pytest.fixture
def measured(monkeypatch):
    """Let ranks find figures at once; return what they were asked."""
    asked = []

    def found(trial, say):
        asked.append(trial)
        say("2 rank(s)")
        rank = PART | OF_ONE | STEP
        return {ranks: [rank | ({"loopback_bytes": 8e5} if ranks > 1 else {})] * ranks for ranks in (1, 2, 3)}

    monkeypatch.setattr(scale_ranks, "measure_ranks", found)
    return asked


def test_the_page_on_scale_quotes_what_the_command_computes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "130")
    run("--paper")
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    results = Path(__file__).parents[3] / "benchmarks" / "records"
    assert printed.strip() == (results / "scale-paper.txt").read_text(encoding="utf-8").strip()


def test_paper_measures_nothing(capsys, measured):
    run("--paper", *GRID)
    out = capsys.readouterr().out
    assert measured == []
    assert "Computed, not measured" in out
    assert "Measured here" not in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("    1,000", "1,000,000"))]
    assert [row[:3] for row in rows[:3]] == [
        ["1,000", "512", "1"],
        ["1,000,000", "512", "1"],
        ["1,000,000", "512", "1,024"],
    ]  # a thousand rows can't be shared by 1,024
    assert "…" not in out


def test_json_has_every_figure(capsys, tmp_path):
    run("--paper", "--json", *GRID, "--out", str(tmp_path / "rows.csv"))
    found = json.loads(capsys.readouterr().out)
    last = found["computed"][-1]
    assert (last["batch"], last["ranks"], last["rows"]) == (1_000_000, 1024, 977)
    assert last["gather_bytes"] == 2 * 1023 * 977 * 512 * 4
    assert found["assumed"]["machine"]["link"] == 5e10
    assert found["assumed"]["machine"]["cores"] is None  # as many as there are ranks
    assert {point["dim"] for point in found["crossings"]} == {512}
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["ranks"] for row in rows] == ["1", "1", "1024"]
    assert float(rows[-1]["gather_bytes"]) == last["gather_bytes"]


def test_a_slower_link_is_overtaken_earlier(capsys):
    points = []
    for link in ("400", "40"):
        run("--paper", "--json", *GRID, "--link-gbit", link)
        points.append(json.loads(capsys.readouterr().out)["crossings"][-1])
    assert points[1]["embedder"] < points[0]["embedder"]
    assert points[1]["rows"] == pytest.approx(10 * points[0]["rows"])


def test_measured_rows_stand_beside_computed_ones(capsys, measured):
    run("--batch", "1000", "--dim", "32", "--repeats", "2", *GRID)
    out = capsys.readouterr().out
    (trial,) = measured
    assert (trial.batch, trial.dim, trial.micro_batch, trial.repeats, trial.ranks) == (1000, 32, 64, 2, (1, 2, 3))
    assert "small_cnn, 28 pixels, S = 1,000, D = 32" in out
    at = out.splitlines().index(next(line for line in out.splitlines() if "Seconds of a step" in line))
    one, two, three = (line.split() for line in out.splitlines()[at + 3 : at + 6])
    assert [row[0] for row in (one, two, three)] == ["1", "2", "3"]
    assert one[1:] == ["0.421", "0.5", "0.84", "0.421", "0.4", "1.05"]
    assert float(two[1]) < float(one[1])
    at = out.splitlines().index(next(line for line in out.splitlines() if "Bytes of a rank" in line))
    assert out.splitlines()[at + 3].split()[-2:] == ["–", "–"]  # one rank sends nothing
    assert "…" not in out


def test_json_of_a_measured_run(capsys, measured):
    run("--json", "--ranks", "2", *GRID)
    found = json.loads(capsys.readouterr().out)
    (row,) = found["measured"]
    assert (row["ranks"], row["measured_seconds"], row["measured_collectives"]) == (2, 0.5, 8.0)
    assert found["calibrated"]["machine"]["link"] == pytest.approx(scale_ranks.MANY / 0.01)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batch", "1"), "--batch is 1; it must be 2 or more."),
        (("--ranks", "0"), "--ranks is 0; it must be 1 or more."),
        (("--batch", "4", "--ranks", "8"), "--ranks is 8 and --batch 4; give each rank an image."),
        (("--link-gbit", "0"), "--link-gbit is 0; it must be above 0."),
        (("--latency-us", "-1"), "--latency-us is -1; it must be 0 or more."),
        (("--loss", "pairs"), "--loss"),
        (("--paper", "--out", "nowhere/rows.csv"), "cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence(capsys, measured, words, said):
    run(*words, code=2)
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1
    assert measured == []
