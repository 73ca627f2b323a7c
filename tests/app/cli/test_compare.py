"""`shadowmetric compare`: its table in words, and the mistakes people make."""

import json

import pytest
import torch

from shadowmetric.app.cli import main
from shadowmetric.app.cli.tables import compare as compare_table
from shadowmetric.app.compare import compare as comparing
from shadowmetric.app.compare.compare import Row
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.settings import TrainSettings

QUICK = ["--data", "digits", "--device", "cpu", "--epochs", "1", "--batches", "2", "--batch", "20", "--per-class", "2"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert (ended.value.code or 0) == code
    return capsys.readouterr()


def finish(plan, name, recalls):
    """Write runs as if they had been trained; recalls: by seed."""
    for seed, recall in recalls.items():
        plan.run(name, seed).begin(plan.settings)
        plan.run(name, seed).write_scores({"recall_at_1": recall, "notes": []})


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
    heard = run(capsys, "compare", *QUICK, "--losses", "shadow", "n-pair", "--seeds", "1")
    assert heard.err.startswith("0:00:0")  # it is long work, and says at once that it begins
    said = heard.out
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
        (["--losses", "shadow,triplet"], "--losses has 'shadow,triplet'; separate names by spaces."),
        (["--losses", "shadow", "tripple"], "--losses has 'tripple'; choose from shadow, triplet"),
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


def test_controls_that_are_equal_in_every_seed_are_no_measure_of_noise(tmp_path):
    plan = Plan(TrainSettings(), tmp_path, seeds=2)
    rows = [row(name, "control", (0.90, 0.91)) for name in ("triplet_control", "double_shadow")]
    found = " ".join(compare_table.sentences(plan, rows))
    assert "the same Recall@1 in every seed: they say nothing about noise." in found
    assert "0.00" not in found


def test_noise_is_the_largest_difference_that_a_factor_makes_in_a_seed_of_both(tmp_path):
    plan = Plan(TrainSettings(), tmp_path, losses=("triplet", "shadow"), seeds=4)
    finish(plan, "shadow", {0: 0.825, 1: 0.821, 2: 0.811})
    assert "noise of training" not in " ".join(compare_table.sentences(plan, []))
    finish(plan, "double_shadow", {1: 0.803, 2: 0.816, 3: 0.500})
    (found,) = [sentence for sentence in compare_table.sentences(plan, []) if "noise of training" in sentence]
    assert "by up to 1.80 points of Recall@1 (seeds: 2): that is noise" in found
    assert found.endswith("Smaller differences between losses mean nothing.")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (TrainSettings(), None),
        (TrainSettings(optimizer="adam", weight_decay=0.0), None),
        (TrainSettings(optimizer="adam"), "adam adds weight decay to the gradient"),
        (TrainSettings(recipe="paper"), "adam adds weight decay to the gradient"),
        (TrainSettings(optimizer="sgd", weight_decay=0.0), "sgd takes twice the step"),
    ],
)
def test_a_factor_is_noise_only_where_the_optimizer_ignores_it(tmp_path, settings, reason):
    plan = Plan(settings, tmp_path, losses=("shadow",), seeds=1)
    for name, recall in (("shadow", 0.91), ("double_shadow", 0.90)):
        finish(plan, name, {0: recall})
    found = " ".join(compare_table.sentences(plan, []))
    assert "1.00 points of Recall@1 (seeds: 1)" in found
    assert ("that is noise of training" in found) == (reason is None)
    assert reason is None or (reason in found and "not noise alone" in found)


def test_a_plan_alone(capsys, tmp_path):
    said = json.loads(run(capsys, "compare", *QUICK, "--losses", "shadow", "n_pair", "--dry-run", "--json").out)
    assert said["trainings"] == 12  # two losses and two controls with three seeds
    assert set(said["seconds_by_loss"]) == {"shadow", "n_pair", "triplet_control", "double_shadow"}
    assert said["expected_seconds"] > 3 * sum(said["seconds_by_loss"].values()) / said["jobs"]
    assert not list(tmp_path.iterdir())
    assert "leave out --resume" in run(capsys, "compare", "--resume", "a", "--dry-run", code=2).err
    assert "--dry-run" in run(capsys, "compare", *QUICK, "--json", code=2).err
