"""The first sentence of a comparison: a success where the figures bear it, and no success where they do not."""

from finished_runs import SETTING, write_finished

from shadowmetric.app.compare.compare import Lead, Row, leads_of, pair
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.compare.seed_intervals import interval
from shadowmetric.app.compare.success import about_training
from shadowmetric.app.compare.wording import about_test, sentences
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.evaluation import PairedTest

TEST = "40 test images of 4 classes"


def row(name, recalls, kind="loss", **leads):
    """Return a row; leads: by floor, the interval over queries and the leads of the seeds."""
    made = {
        floor: Lead(PairedTest((low + high) / 2, low, high, 0.01, 0.95, 40, low <= 0 <= high), interval(seeds))
        for floor, (low, high, seeds) in leads.items()
    }
    return Row(name, kind, {"recall_at_1": list(recalls)}, None, [], made)


PIXELS = row("raw_pixels", [0.30], kind="floor")
UNTRAINED = row("untrained", [0.10], kind="floor")
CLEAR = {"raw_pixels": (0.1, 0.3, [0.2, 0.21]), "untrained": (0.3, 0.5, [0.4, 0.41])}


def test_a_success_names_the_weakest_loss_and_the_highest_floor():
    rows = [row("shadow", [0.70, 0.72], **CLEAR), row("triplet", [0.50, 0.51], **CLEAR), UNTRAINED, PIXELS]
    assert about_training(rows, TEST) == (
        "Training helps: on 40 test images of 4 classes, all two losses are above raw_pixels (30.00 % Recall@1) and "
        "untrained (10.00 %). The weakest of them, triplet with 50.50 %, leads raw_pixels by 20.00 points (95 % "
        "interval +10.00 to +30.00 over queries, +14.15 to +26.85 over 2 seeds); the best is shadow with 71.00 %."
    )


def test_one_loss_and_one_seed():
    one = row("shadow", [0.5], raw_pixels=(0.1, 0.3, [0.2]))
    assert about_training([one, PIXELS]) == (
        "Training helps: shadow is above raw_pixels (30.00 % Recall@1). shadow reaches 50.00 % and leads raw_pixels by "
        "20.00 points (95 % interval +10.00 to +30.00 over queries; one seed says nothing about the noise of training)."
    )


def test_losses_that_are_not_clearly_above_are_named_beside_those_that_are():
    below = row("n_pair", [0.2], **{**CLEAR, "raw_pixels": (-0.2, -0.05, [-0.1, -0.1])})
    unclear = row("triplet", [0.32], **{**CLEAR, "raw_pixels": (-0.01, 0.05, [0.02, 0.02])})
    rows = [row("shadow", [0.7], **CLEAR), unclear, below, PIXELS, UNTRAINED]
    said = about_training(rows, TEST)
    assert said.startswith("Training helps with one of three losses: on 40 test images of 4 classes, it is above raw_")
    assert "not above these by more than the noise: triplet (32.00 %), n_pair (20.00 %). shadow reaches 70.00 %" in said


def test_seeds_that_disagree_are_no_success():
    shaken = row("shadow", [0.4, 0.6], raw_pixels=(0.1, 0.3, [0.01, 0.4]))
    assert about_training([shaken, PIXELS]) == (
        "Whether training helps is open: no loss is above raw_pixels (30.00 % Recall@1), not trained at all, by more "
        "than the noise of queries and seeds."
    )


def test_a_floor_above_every_loss_is_no_success():
    rows = [row("shadow", [0.2], **{**CLEAR, "raw_pixels": (-0.2, -0.05, [-0.1])}), PIXELS, UNTRAINED]
    assert about_training(rows) == "No loss is above raw_pixels (30.00 % Recall@1), which is not trained at all."
    assert "and" not in about_training([row("shadow", [0.05]), PIXELS, UNTRAINED])
    assert "untrained (10.00 %), which are not" in about_training([row("shadow", [0.05]), PIXELS, UNTRAINED])


def test_without_floors_or_losses_nothing_is_claimed():
    assert about_training([row("shadow", [0.9])]) == about_training([PIXELS]) == about_training([]) == ""


def test_leads_are_those_of_the_runs_and_the_terminal_says_them_first(tmp_path):
    plan = Plan(TrainSettings(), tmp_path, losses=("shadow",), controls=False, seeds=2)
    for seed in (0, 1):
        write_finished(plan, "shadow", seed, [1.0] * 38 + [0.0] * 2)
        write_finished(plan, "raw_pixels", seed, [1.0] * 10 + [0.0] * 30)
    leads = leads_of(plan, "shadow")
    assert list(leads) == ["raw_pixels"]  # the other floor is not scored
    assert abs(leads["raw_pixels"].queries.difference - 0.7) < 1e-6
    assert abs(leads["raw_pixels"].seeds.mean - 0.7) < 1e-6
    assert leads_of(plan, "raw_pixels") == {}
    assert pair(plan, "shadow", "untrained") == (None, [])
    rows = [Row("shadow", "loss", {"recall_at_1": [0.95, 0.95]}, None, [], leads), PIXELS]
    said = sentences(plan, rows)[0]
    assert said.startswith("Training helps: on 40 test images of 4 classes that training never saw, shadow is above")


def test_what_was_searched():
    assert about_test(SETTING | {"unseen_classes": False}) == TEST
    assert about_test(None) == about_test({}) == ""
