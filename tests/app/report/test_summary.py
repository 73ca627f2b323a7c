"""The sentence at the top: who leads, by how much, and whether that is more than noise."""

from dataclasses import replace

import pytest

from shadowmetric.app.compare.compare import Lead, Row
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.compare.seed_intervals import interval
from shadowmetric.app.report.collect import Group
from shadowmetric.app.report.summary import summary, training_noise
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.evaluation import PairedTest


def row(name, recalls, beside=None, kind="loss", seeds=()):
    test = None
    if beside is not None:
        low, high = beside
        test = PairedTest((low + high) / 2, low, high, 0.01, 0.95, 500, inside_the_noise=low <= 0 <= high)
    return Row(name, kind, {"recall_at_1": list(recalls)}, test, list(seeds))


def group(tmp_path, rows, noise=None, **settings):
    """Return a group; noise: how far a run of double_shadow is from one of shadow."""
    plan = Plan(TrainSettings(**settings), tmp_path, losses=("shadow", "triplet"), seeds=1)
    for name, recall in (("shadow", 0.5), ("double_shadow", None if noise is None else 0.5 + noise)):
        if recall is not None:
            plan.run(name, 0).begin(plan.settings)
            plan.run(name, 0).write_scores({"recall_at_1": recall, "notes": []})
    return Group("digits", tmp_path, [], rows, plan)


def test_a_lead_outside_both_noises(tmp_path):
    rows = [row("shadow", [0.90, 0.92]), row("triplet", [0.95, 0.97], (0.03, 0.07))]
    found = summary(group(tmp_path, rows, noise=0.01))
    assert found == (
        "triplet reaches 96.00 % Recall@1 in the mean of 2 seeds and leads shadow by 5.00 points (95 % interval over "
        "queries +3.00 to +7.00), more than the noise of the queries and more than the 1.00 points that training noise "
        "makes."
    )


def test_a_lead_of_the_reference_turns_the_interval_round(tmp_path):
    rows = [row("shadow", [0.95]), row("triplet", [0.90], (-0.07, -0.03))]
    found = summary(group(tmp_path, rows))
    assert "shadow reaches 95.00 % Recall@1 with one seed and leads triplet by 5.00 points" in found
    assert "+3.00 to +7.00), more than the noise of the queries." in found


def test_a_lead_inside_the_noise_says_which(tmp_path):
    queries = [row("shadow", [0.90]), row("triplet", [0.91], (-0.01, 0.03))]
    assert "inside the noise, since the 95 % interval over queries −1.00 to +3.00 holds 0." in summary(
        group(tmp_path / "a", queries, noise=0.001)
    )
    training = [row("shadow", [0.90]), row("triplet", [0.91], (0.005, 0.015))]
    found = summary(group(tmp_path / "b", training, noise=-0.02))
    assert "inside the noise, since shadow and twice shadow, the same but for rounding, differ by up to 2.00." in found


def test_seeds_that_disagree_are_noise_and_one_seed_knows_none(tmp_path):
    rows = [row("shadow", [0.90, 0.92]), row("triplet", [0.95, 0.97], (0.03, 0.07), seeds=[0.11, -0.01])]
    found = summary(group(tmp_path / "a", rows, recipe="paper"))
    assert "inside the noise, since the 95 % interval over 2 seeds −71.24 to +81.24 holds 0." in found
    agreeing = [row("shadow", [0.90, 0.92]), row("triplet", [0.95, 0.97], (0.03, 0.07), seeds=[0.05, 0.0501])]
    assert "more than the noise of the queries." in summary(group(tmp_path / "b", agreeing, recipe="paper"))
    alone = [row("shadow", [0.90]), row("triplet", [0.95], (0.03, 0.07), seeds=[0.05])]
    assert "; one seed says nothing about the noise of training." in summary(group(tmp_path / "c", alone))


@pytest.mark.parametrize("settings", [{"optimizer": "sgd"}, {"recipe": "paper"}])
def test_where_a_factor_matters_there_is_no_measure_of_training_noise(tmp_path, settings):
    assert training_noise(group(tmp_path, [], noise=0.1, **settings)) is None


def test_a_leader_is_paired_with_the_reference_wherever_that_stands(tmp_path):
    rows = [row("shadow", [0.5]), row("triplet", [0.90], (0.3, 0.5)), row("n_pair", [0.91], (0.31, 0.51))]
    found = summary(group(tmp_path, rows))
    assert found == (
        "n_pair reaches 91.00 % Recall@1 with one seed and leads triplet by 1.00 points, and shadow, the reference, by "
        "41.00 (95 % interval over queries +31.00 to +51.00), more than the noise of the queries."
    )


def test_runs_that_are_no_comparison_are_not_judged(tmp_path):
    rows = [row("shadow", [0.5]), row("triplet", [0.9])]
    assert summary(Group("digits", tmp_path, [], rows)).endswith("so whether that is more than noise is open.")


def test_floors_above_every_loss_are_named_first(tmp_path):
    rows = [row("shadow", [0.5]), row("raw_pixels", [0.9], kind="floor"), row("untrained", [0.1], kind="floor")]
    assert summary(group(tmp_path, rows)) == (
        "No loss is above raw_pixels (90.00 % Recall@1), which is not trained at all. shadow reaches 50.00 % Recall@1 "
        "with one seed."
    )


def test_a_success_stands_first_and_says_what_was_searched(tmp_path):
    lead = Lead(PairedTest(0.3, 0.2, 0.4, 0.01, 0.95, 40, inside_the_noise=False), interval([0.3]))
    rows = [replace(row("shadow", [0.5]), leads={"raw_pixels": lead}), row("raw_pixels", [0.2], kind="floor")]
    searched = group(tmp_path, rows)
    setting = {"queries": 40, "classes": 4, "protocol": "leave-one-out"}
    assert searched.plan is not None
    searched.plan.run("shadow", 0).write_scores({"setting": setting, "unseen_classes": True, "notes": []})
    assert summary(searched).startswith(
        "Training helps: on 40 test images of 4 classes that training never saw, shadow is above raw_pixels (20.00 %"
    )


def test_nothing_finished_and_equal_losses(tmp_path):
    assert summary(group(tmp_path / "a", [])) == "No run is finished, so there are no test figures yet."
    rows = [row("shadow", [0.5]), row("triplet", [0.5], (0.0, 0.0))]
    assert "shadow and triplet both reach 50.00 %" in summary(group(tmp_path / "b", rows))
