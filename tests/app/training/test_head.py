"""`--recipe head`: a run like any other, whose backbone is never trained and whose images are embedded once."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from shadowmetric.app.compare import compare as comparing
from shadowmetric.app.compare.compare import compare
from shadowmetric.app.compare.floors import FLOORS
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.models import Embedder, build_embedder
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.preparation import parts_of
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.app.training.scoring import score_test
from shadowmetric.app.training.show import Silent
from shadowmetric.errors import Interrupted, Mistake

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Settings of a short run on digits, and where features are kept."""
    folder = tmp_path_factory.mktemp("head")
    save_file(build_embedder("small_cnn", channels=1, size=8, seed=3).state_dict(), folder / "weights.safetensors")
    return TrainSettings(
        data="digits",
        data_root=folder,
        recipe="head",
        backbone="small_cnn",
        weights=str(folder / "weights.safetensors"),
        device="cpu",
        loss="shadow",
        dim=16,
        epochs=3,
        batches=4,
        batch=60,
        patience=0,
    )


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(settings, folder)
    return Run(folder)


def test_the_head_alone_learns(whole, settings):
    weights, best = load_file(settings.weights), load_file(whole.best_file)
    for name, value in weights.items():
        if name.startswith("backbone."):
            assert torch.equal(best[name], value)
    start = build_embedder("small_cnn", dim=16, channels=1, size=8, seed=0)
    assert not torch.equal(best["head.weight"], start.head.weight)
    journal = whole.journal()
    assert journal[-1]["loss"] < journal[0]["loss"]


def test_the_run_s_scores_are_those_of_its_embedder_on_images(whole):
    parts = parts_of(whole)
    _, figures = score_test(load_embedder(whole), parts.dataset, parts.shape)
    scores = whole.scores()
    for name in ("recall_at_1", "map_at_r", "accuracy"):
        assert scores[name] == pytest.approx(figures[name], abs=0.005)  # rows are rounded otherwise in other batches


@pytest.mark.parametrize("batch", [2, 5])
def test_a_resume_ends_with_the_same_bits(whole, settings, tmp_path, batch, monkeypatch):
    class Stopping(Silent):
        count = 0

        def wants(self):
            return True

        def moment(self, moment):
            self.count += 1
            if self.count == batch:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(settings, tmp_path / "run", show=Stopping())
    monkeypatch.setattr(Embedder, "features", lambda *_: pytest.fail("features were computed again"))
    train(settings, tmp_path / "run", resume=True)
    run = Run(tmp_path / "run")
    first, second = whole.scores(), run.scores()
    assert {**first, "train_seconds": 0, "notes": 0} == {**second, "train_seconds": 0, "notes": 0}
    ours, theirs = load_file(run.best_file), load_file(whole.best_file)
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    assert (run.folder / "last" / "state.pt").stat().st_size < whole.best_file.stat().st_size  # it has the head alone


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weights": None}, "--recipe head trains a head on the features of a pretrained backbone; give its weights"),
        ({"weights": "none"}, "--recipe head trains a head on the features of a pretrained backbone; give its weights"),
        ({"augment": "photo"}, "--augment is photo, and --recipe head computes features once"),
        ({"memory_budget": "2GB"}, "--memory-budget plans the backbone's steps, and --recipe head has none"),
    ],
)
def test_what_makes_no_sense(settings, tmp_path, changes, sentence):
    with pytest.raises(Mistake, match=sentence):
        train(replace(settings, **changes), tmp_path / "run")


def test_a_comparison_computes_features_once_and_has_the_pooled_ones_as_a_floor(settings, tmp_path, monkeypatch):
    plan = Plan(
        replace(settings, epochs=1, batches=2, loss=None), tmp_path / "out", ("shadow",), controls=False, seeds=2
    )
    plan.begin()
    monkeypatch.setattr(comparing, "run_cells", lambda cells, *_: [train(c.settings, c.folder) for c in cells] and {})
    monkeypatch.setattr(Embedder, "features", lambda *_: pytest.fail("features were computed again"))
    rows, failures = compare(plan, jobs=1)
    assert failures == {}
    assert [row.name for row in rows] == ["shadow", *FLOORS]
    pooled, untrained = rows[-2:]
    assert pooled.figures["recall_at_1"][0] == pooled.figures["recall_at_1"][1]
    assert untrained.figures["recall_at_1"][0] != untrained.figures["recall_at_1"][1]
    assert set(rows[0].leads) == set(FLOORS)
    assert Path(settings.data_root / "features").is_dir()
