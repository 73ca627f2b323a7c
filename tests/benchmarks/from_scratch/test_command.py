"""`python -m benchmarks from-scratch`: a cell a row, on the embedded glyphs; a second call has nothing left to do."""

import csv

import pytest

from benchmarks.command import main
from benchmarks.from_scratch import sweep
from benchmarks.from_scratch.beds import BEDS, Bed, read_bed
from benchmarks.from_scratch.networks import NETWORKS
from benchmarks.from_scratch.sweep import ROUNDS
from benchmarks.from_scratch.trial import Setting


def run(*words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["from-scratch", *words])
    assert (ended.value.code or 0) == code


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(BEDS, "glyphs", Bed("glyphs", 8, 2, 0.2))
    monkeypatch.setattr(sweep, "seconds_of_step", lambda contenders, ground: [3.0] * len(contenders))


def test_every_contender_is_a_row_and_what_is_done_stays(small, tmp_path, capsys):
    out = tmp_path / "rows.csv"
    run("final", "--beds", "glyphs", "--seeds", "1", "--out", str(out))
    rows = rows_of(out)
    assert [row["contender"] for row in rows] == ["ours", "cross_entropy", "triplet", "raw_pixels", "untrained"]
    assert [row["steps"] for row in rows] == ["2", "2", "2", "0", "0"]
    assert all(0 < float(row["recall_at_1"]) < 1 and row["nearest"] == "" for row in rows)  # the classes are new
    assert all(row["judged_on"] == "test" for row in rows)
    assert "glyphs, seed 0, cross_entropy: 2 steps, recall_at_1" in capsys.readouterr().out
    run("final", "--beds", "glyphs", "--seeds", "2", "--out", str(out))
    assert rows_of(out)[:5] == rows
    assert [row["seed"] for row in rows_of(out)] == ["0"] * 5 + ["1"] * 5


def test_where_classes_are_known_the_labels_of_both_sides_are_the_same():
    ground = read_bed(Bed("digits", 8, 12, 0.25), None, "validation")
    assert ground.known
    assert set(ground.judged.labels.tolist()) == set(ground.train.labels.tolist()) == set(range(10))
    assert len(ground.train.labels) == 90
    assert ground.train.pixels.shape == (90, 1, 8, 8)
    assert not read_bed(Bed("glyphs", 8, 2, 0.2), None, "test").known


def test_rounds_change_one_setting_and_know_their_networks():
    for name, one in ROUNDS.items():
        for contender, setting in one.settings:
            assert setting.network in NETWORKS
            changed = [key for key, value in vars(setting).items() if value != getattr(Setting(), key)]
            assert len(changed) <= 1 or changed == ["loss", "batch", "per_class"], name  # rows need partners
            assert contender == "ours" or not changed
        assert set(one.beds) <= set(BEDS)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("finals",), "the round is 'finals'; choose one of losses"),
        (("final", "--beds", "birds"), "--beds has 'birds'; choose from fashion_mnist"),
        (("final", "--seconds", "0"), "--seconds is 0; it must be above 0"),
    ],
)
def test_mistakes(words, sentence, capsys):
    run(*words, code=2)
    assert sentence in capsys.readouterr().err
