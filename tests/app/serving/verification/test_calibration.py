"""The table of thresholds against a plain loop over all pairs; kept in the run, measured again for other weights."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from image_folders import DIM, FakeModel, write_run
from scipy.optimize import isotonic_regression

from shadowmetric.app.serving.model import RunModel
from shadowmetric.app.serving.verification import calibration
from shadowmetric.app.serving.verification.calibration import calibrate, rising, table_of
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake
from shadowmetric.evaluation.verification import STEPS, pair_histograms


def rows_of(seed=0, classes=6, count=8, dim=5, spread=0.7):
    """Return unit rows around a center for each class."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), count)
    rows = random.normal(size=(classes, dim))[labels] + spread * random.normal(size=(len(labels), dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels


def table(rows, labels):
    histograms = pair_histograms(torch.from_numpy(rows).float(), torch.from_numpy(labels))
    return table_of(*histograms, "abc", "some images")


def steps_of(rows, labels):
    """Return the cosines of all pairs, in steps to the nearest, of one class and of two."""
    same, other = [], []
    for a in range(len(rows)):
        for b in range(a + 1, len(rows)):
            step = round(float(np.dot(rows[a], rows[b])) * STEPS)
            (same if labels[a] == labels[b] else other).append(step)
    return same, other


def differences(found, same, other):
    """Return for each row of a table how many pairs its two rates are off, compared with a loop."""
    for cosine, far, tar in zip(found.cosines, found.false_accepts, found.true_accepts, strict=True):
        yield abs(far * len(other) - sum(step / STEPS >= cosine for step in other))
        yield abs(tar * len(same) - sum(step / STEPS >= cosine for step in same))


@pytest.mark.parametrize("seed", range(3))
def test_rates_are_those_of_a_loop_over_all_pairs(seed):
    random = np.random.default_rng(seed)
    rows, labels = random.choice([-0.25, 0.25], (40, 16)), random.integers(0, 4, 40)  # all cosines are exact
    found, (same, other) = table(rows, labels), steps_of(rows, labels)
    assert (found.genuine_pairs, found.impostor_pairs) == (len(same), len(other))
    assert found.least_rate() == 1 / len(other)
    assert max(differences(found, same, other)) < 1e-9


def test_rates_of_any_rows_are_those_of_a_loop_but_for_cosines_between_two_steps():
    rows, labels = rows_of()
    found, (same, other) = table(rows, labels), steps_of(rows, labels)
    assert (found.genuine_pairs, found.impostor_pairs) == (len(same), len(other)) == (168, 960)
    off = np.array(list(differences(found, same, other)))
    assert off.max() < 1.01
    assert (off > 1e-9).mean() < 0.05


def test_the_table_is_in_order():
    found = table(*rows_of())
    assert list(found.cosines) == sorted(set(found.cosines))
    assert list(found.false_accepts) == sorted(found.false_accepts, reverse=True)
    assert list(found.true_accepts) == sorted(found.true_accepts, reverse=True)
    assert list(found.confidence) == sorted(found.confidence)
    assert (found.false_accepts[0], found.true_accepts[0]) == (1.0, 1.0)
    assert found.false_accepts[-1] == 0.0
    assert 0 <= found.confidence[0] < 0.5 < found.confidence[-1] <= 1


def test_thresholds_respect_the_rate_and_are_the_best_there_are():
    rows, labels = rows_of(count=4, classes=5)
    found, (same, other) = table(rows, labels), steps_of(rows, labels)
    for rate in (1 / 160, 0.01, 0.05, 0.1, 0.3):
        best = 0
        for bound in [*same, *other]:
            if sum(step >= bound for step in other) <= rate * len(other) + 1e-9:
                best = max(best, sum(step >= bound for step in same))
        decision = found.decide(0.0, rate)
        assert decision.false_accept_rate <= rate
        assert round(decision.true_accept_rate * len(same)) == best


def test_confidence_is_near_the_true_share():
    rows, labels = rows_of(classes=12, count=12, spread=0.5)
    found = table(rows, labels)
    same, other = (np.array(steps) / STEPS for steps in steps_of(rows, labels))
    for low, high in ((0.2, 0.4), (0.6, 0.8), (0.85, 0.95)):
        alike, apart = (((cosines >= low) & (cosines < high)).mean() for cosines in (same, other))
        assert found.confidence_at(low) - 0.15 <= alike / (alike + apart) <= found.confidence_at(high) + 0.15


@pytest.mark.parametrize(("classes", "count"), [(8, 2), (12, 4), (60, 3)])
def test_few_pairs_that_say_nothing_make_nobody_sure(classes, count):
    """Rows that know nothing of their class: the truth is one half everywhere, however few the pairs are."""
    found = [table(*rows_of(seed, classes, count, dim=16, spread=1e6)) for seed in range(8)]
    middle = np.mean([one.confidence_at(cosine) for one in found for cosine in (-0.2, 0.0, 0.2)])
    assert 0.4 < middle < 0.6


def test_few_pairs_that_say_much_are_believed():
    found = [table(*rows_of(seed, 8, 2, dim=16, spread=0.2)) for seed in range(4)]
    assert max(one.confidence_at(0.0) for one in found) < 0.2
    assert min(one.confidence_at(0.95) for one in found) > 0.8


@pytest.mark.parametrize("alike", ["all", "across classes"])
def test_a_threshold_above_one_refuses_what_cannot_be_told_apart(alike):
    """Rows that are equal across classes: no threshold up to 1 keeps the rate, so nothing is the same."""
    rows, labels = rows_of()
    rows = np.repeat(rows[:1], len(rows), 0) if alike == "all" else np.concatenate([rows, rows])
    labels = labels if alike == "all" else np.concatenate([labels, labels + 1])
    found = table(rows, labels)
    decision = found.decide(1.0, found.least_rate())
    assert decision.false_accept_rate <= found.least_rate()
    assert not decision.same


def test_classes_that_are_apart_are_told_apart():
    labels = np.repeat(np.arange(4), 5)
    found = table(np.eye(4)[labels], labels)
    decision = found.decide(1.0, found.least_rate())
    assert decision.same
    assert (decision.false_accept_rate, decision.true_accept_rate) == (0.0, 1.0)
    assert not found.decide(0.0, found.least_rate()).same
    assert found.decide(1.0, 0.5).probability > 0.97  # of 40 pairs
    assert found.decide(0.0, 0.5).probability < 0.03


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = write_run(tmp_path_factory.mktemp("runs") / "run")
    calibrate(Run(folder), RunModel(folder))
    return folder


@pytest.fixture
def run(made, tmp_path):
    return Run(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture
def measured(monkeypatch):
    """Count measurements, and make each of a few rows."""
    seen = []

    def measure(run, model, *_):
        seen.append(model.about.fingerprint)
        rows, labels = rows_of(dim=DIM)
        histograms = pair_histograms(torch.from_numpy(rows).float(), torch.from_numpy(labels))
        return table_of(*histograms, model.about.fingerprint, "fake")

    monkeypatch.setattr(calibration, "measure", measure)
    return seen


def test_it_is_measured_on_the_test_images(run):
    kept = json.loads((run.folder / "calibration.json").read_text())
    assert kept["fingerprint"] == RunModel(run.folder).about.fingerprint
    assert kept["images"] == "602 test images of 10 classes of digits"
    assert kept["genuine_pairs"] + kept["impostor_pairs"] == 602 * 601 // 2


def test_what_was_measured_is_kept(run, measured):
    model = RunModel(run.folder)
    found = calibrate(run, model)
    assert measured == []
    assert found.plain() == calibrate(run, model).plain()
    assert found.fingerprint == model.about.fingerprint
    (run.folder / "calibration.json").unlink()
    assert calibrate(run, model).images == "fake"
    assert calibrate(run, model).images == "fake"
    assert measured == [model.about.fingerprint]


def test_other_weights_are_measured_again(run, measured):
    calibrate(run, FakeModel())
    assert measured == ["fake0"]
    calibrate(run, FakeModel())
    assert measured == ["fake0"]


def test_an_exported_model_does_not_replace_the_calibration_of_the_run(run, measured):
    before, model = (run.folder / "calibration.json").read_bytes(), FakeModel()
    model.about = replace(model.about, fingerprint="abc-int8")
    assert calibrate(run, model).fingerprint == "abc-int8"
    assert measured == ["abc-int8"]
    assert (run.folder / "calibration.json").read_bytes() == before


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b"\xff\xfe",
    b'{"fingerprint": "a"}',
]


@pytest.mark.parametrize("stored", DAMAGED, ids=lambda stored: repr(stored[:12]))
def test_a_damaged_file_is_refused_and_kept(run, measured, stored):
    (run.folder / "calibration.json").write_bytes(stored)
    with pytest.raises(Mistake, match=r"calibration\.json") as refused:
        calibrate(run, RunModel(run.folder))
    assert "\n" not in str(refused.value)
    assert measured == []
    assert (run.folder / "calibration.json").read_bytes() == stored


@pytest.mark.parametrize("name", ["cosines", "false_accepts", "impostor_pairs", "fingerprint"])
def test_a_file_that_misses_something_is_refused(run, name):
    file = run.folder / "calibration.json"
    kept = json.loads(file.read_text())
    del kept[name]
    file.write_text(json.dumps(kept))
    with pytest.raises(Mistake, match=r"calibration\.json is no calibration .*; remove it, and it is measured again"):
        calibrate(run, RunModel(run.folder))


def test_a_test_split_without_pairs_is_refused(run, monkeypatch):
    monkeypatch.setattr(calibration, "pair_histograms", lambda *_: (torch.zeros(9, dtype=torch.int64),) * 2)
    (run.folder / "calibration.json").unlink()
    with pytest.raises(Mistake, match="have no pairs of one class, or none of two; a threshold needs both"):
        calibrate(run, RunModel(run.folder))
    assert not (run.folder / "calibration.json").exists()


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1e-3, 1e3)), min_size=1, max_size=60))
def test_pooled_shares_are_the_isotonic_regression(pairs):
    values, weights = np.array(pairs).T
    expected = isotonic_regression(values, weights=weights).x
    np.testing.assert_allclose(rising(values, weights), expected, rtol=1e-9, atol=1e-12)
