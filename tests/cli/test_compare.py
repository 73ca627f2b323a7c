"""`shadowmetric compare`: its table in words, and the mistakes people make."""

import pytest
import torch

from shadowmetric.cli import compare_table, main
from shadowmetric.experiments import compare as comparing
from shadowmetric.experiments.compare import Row
from shadowmetric.experiments.plan import Plan
from shadowmetric.training.loop import train
from shadowmetric.training.settings import TrainSettings

QUICK = ["--device", "cpu", "--epochs", "1", "--batches", "2", "--batch", "20", "--per-class", "2"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert (ended.value.code or 0) == code
    return capsys.readouterr()


def row(name, kind, recalls, maps=(0.5, 0.5)):
    return Row(name, kind, {"recall_at_1": list(recalls), "map_at_r": list(maps), "silhouette": [0.1, 0.3]}, None, [])


def test_a_small_comparison(capsys, monkeypatch):
    def in_this_process(cells, jobs, tell=None):
        torch.set_num_threads(1)
        for cell in cells:
            if cell.run.scores() is None:
                train(cell.settings, cell.folder)
        return {}

    monkeypatch.setattr(comparing, "run_cells", in_this_process)
    said = run(capsys, "compare", *QUICK, "--losses", "shadow", "n-pair", "--seeds", "1").out
    assert "digits: test split, mean ± spread of 1 seeds" in said
    for name in ("shadow", "n_pair", "triplet_control", "double_shadow", "raw_pixels", "untrained"):
        assert name in said
    assert "Not above raw_pixels in Recall@1: shadow, n_pair." in said
    assert "runs/compare-digits/compare.csv" in said
    assert run(capsys, "compare", "--resume", "runs/compare-digits").out == said
    assert "holds a comparison already" in run(capsys, "compare", *QUICK, code=2).err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--losses", "shadow", "tripple"], "--loss is 'tripple'; choose one of"),
        (["--seeds", "0"], "--seeds is 0"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--resume", "nowhere"], "nowhere holds no comparison"),
        (["--resume", "nowhere", "--epochs", "3"], "give it alone"),
        (["--seed", "x"], "--seed"),
        (["--loss", "triplet"], "--loss and --patience have no meaning here"),
    ],
)
def test_mistakes_are_one_sentence(capsys, words, sentence):
    assert sentence in run(capsys, "compare", *words, code=2).err


def test_what_the_table_says_in_words(tmp_path):
    plan = Plan(TrainSettings(), tmp_path, losses=("shadow", "triplet"), seeds=2)
    rows = [
        row("shadow", "loss", (0.90, 0.92)),
        row("triplet", "loss", (0.80, 0.82), maps=(0.9, 0.9)),
        row("triplet_control", "control", (0.90, 0.91)),
        row("double_shadow", "control", (0.91, 0.91)),
        row("raw_pixels", "floor", (0.85, 0.85)),
    ]
    found = " ".join(compare_table.sentences(plan, rows))
    assert "by 0.50 points on average" in found
    assert "Not above raw_pixels in Recall@1: triplet." in found
    assert "Not above raw_pixels in MAP@R: shadow." in found
    assert "Not finished: shadow, triplet, triplet_control, double_shadow, raw_pixels, untrained." in found
    assert compare_table.figure(rows[0], "recall_at_1") == "91.00 ± 1.41"
    assert compare_table.figure(rows[0], "silhouette") == "0.200"
    assert compare_table.figure(rows[0], "accuracy") == "–"
    assert compare_table.difference(rows[0]) == "–"
