"""`--recipe head`: a run like any other, whose backbone is never trained and whose images are embedded once."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from shadowmetric.app import serving
from shadowmetric.app.cli import main
from shadowmetric.app.cli.train import about_floor
from shadowmetric.app.compare import compare as comparing
from shadowmetric.app.compare.compare import compare
from shadowmetric.app.compare.floors import FLOORS
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.models import Embedder, build_embedder
from shadowmetric.app.training import loop
from shadowmetric.app.training.features.first_head import begin_at_components
from shadowmetric.app.training.features.floor import pooled_floor
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.preparation import parts_of, prepare
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import EPOCHS_OF_ALL, PATIENCE_OF_ALL, TrainSettings, with_recipe
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.app.training.scoring import HERE, score_test
from shadowmetric.app.training.show import Silent
from shadowmetric.errors import Interrupted, Mistake
from shadowmetric.progress import silent

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


def test_the_scores_have_the_floor_and_the_first_sentence_says_so(whole, settings, tmp_path):
    floor = whole.scores()["pooled_features"]
    parts = parts_of(whole)
    alone = train(replace(settings, epochs=0), tmp_path / "pooled")
    assert floor["recall_at_1"] == pytest.approx(alone["recall_at_1"], abs=0.005)
    assert floor["map_at_r"] == pytest.approx(alone["map_at_r"], abs=0.002)  # cosines round otherwise
    tuned = replace(parts.settings, recipe="finetune")
    images = prepare(tuned)
    embedded = pooled_floor(images, torch.device("cpu"), HERE, silent)["pooled_features"]
    assert embedded["recall_at_1"] == pytest.approx(floor["recall_at_1"], abs=0.005)
    said = about_floor({"recall_at_1": 0.5, "pooled_features": {"recall_at_1": 0.6}})
    assert said.startswith(
        "TRAINING DOES NOT HELP: Recall@1 is 50.00 %, and the pooled features of its weights have 60.00 %"
    )
    assert about_floor({"recall_at_1": 0.7, "pooled_features": {"recall_at_1": 0.6}}).startswith("Above the pooled ")
    assert about_floor({"recall_at_1": 0.7}) == ""


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
        ({"weights": None}, "small_cnn has no published weights"),
        ({"weights": "none"}, "--recipe head trains a head on the features of a pretrained backbone; give its weights"),
        ({"augment": "photo"}, "--augment is photo, and --recipe head computes features once"),
        ({"memory_budget": "2GB"}, "--memory-budget plans the backbone's steps, and --recipe head has none"),
    ],
)
def test_what_makes_no_sense(settings, tmp_path, changes, sentence):
    with pytest.raises(Mistake, match=sentence):
        train(replace(settings, **changes), tmp_path / "run")


def test_a_comparison_takes_the_features_and_has_the_pooled_ones_as_a_floor(whole, settings, tmp_path, monkeypatch):
    plan = Plan(
        replace(settings, epochs=1, batches=2, loss=None), tmp_path / "out", ("shadow",), controls=False, seeds=2
    )
    plan.begin()
    assert whole.scores() is not None  # so the features are there
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


@pytest.mark.parametrize("name", ["batch", "logical_batch"])
def test_all_images_are_one_batch(settings, tmp_path, name, monkeypatch):
    seen, step = [], loop.train_step
    monkeypatch.setattr(
        loop, "train_step", lambda training, batch, *more: seen.append(batch) or step(training, batch, *more)
    )
    given = replace(settings, **({"batch": None, "batches": None, "epochs": 2, "loss": "smooth_ap"} | {name: "all"}))
    train(given, tmp_path / "run")
    run = Run(tmp_path / "run")
    images = len(parts_of(run).train)
    assert run.settings().batch == images
    assert [sorted(batch.numbers) for batch in seen] == [list(range(images))] * 2
    assert [line["images"] for line in run.journal()] == [images] * 2
    longer = with_recipe(replace(given, epochs=None, patience=None))
    assert (longer.epochs, longer.patience) == (EPOCHS_OF_ALL, PATIENCE_OF_ALL)


def test_a_head_begins_at_the_principal_components():
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(50, 6, generator=random) * torch.tensor([1.0, 9.0, 2.0, 5.0, 0.1, 3.0]) + 4
    head = torch.nn.Linear(6, 3)
    begin_at_components(head, rows)
    _, _, directions = torch.linalg.svd((rows - rows.mean(0)).double(), full_matrices=False)
    ours = head.weight.double()
    torch.testing.assert_close(
        (ours * directions[:3]).sum(1).abs(), torch.ones(3, dtype=torch.float64), rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(head(rows).mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    wide = torch.nn.Linear(6, 9)
    drawn = wide.weight[6:].clone()
    begin_at_components(wide, rows)
    assert torch.equal(wide.weight[6:], drawn)  # there are no more directions


def test_nothing_is_trained_in_no_epochs(settings, tmp_path, whole):
    scores = train(replace(settings, epochs=0, loss=None), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert (run.settings().dim, scores["epochs"], scores["selected_on"]) == (128, 0, "nothing: not trained")
    assert scores["convergence_epoch"] is None
    embedder = load_embedder(run)
    images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        features = torch.nn.functional.normalize(embedder.features(images))
        torch.testing.assert_close(embedder(images), features)
    plain = train(replace(settings, epochs=0, recipe="default"), tmp_path / "plain")
    assert plain["recall_at_1"] == pytest.approx(scores["recall_at_1"], abs=0.005)
    assert train(replace(settings, epochs=0), tmp_path / "run", resume=True) == scores


def test_an_index_of_a_backbone_without_training(tmp_path, capsys, monkeypatch):
    random = torch.Generator().manual_seed(0)
    for number in range(4):
        (tmp_path / "photos" / "some").mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(0, 256, (20, 20, 3), dtype=torch.uint8, generator=random).numpy()
        Image.fromarray(pixels).save(tmp_path / "photos" / "some" / f"{number}.png")
    save_file(build_embedder("small_cnn", size=16, seed=3).state_dict(), tmp_path / "w.safetensors")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            main(["index", "--backbone", "small_cnn", "--weights", "w.safetensors", "--size", "16", "photos"])
        assert end.value.code in (0, None)
    assert Run(tmp_path / "photos-model").settings().dim == 128
    answers = serving.search("photos.shadowmx", ["photos/some/2.png"], k=1)
    assert answers[0].hits[0].entry.path.endswith("2.png")
    with pytest.raises(SystemExit):
        main(["index", "--backbone", "small_cnn", "--weights", "other.safetensors", "--size", "16", "photos"])
    with pytest.raises(SystemExit):
        main(["index", "--size", "16", "runs/x", "photos"])
    assert "--backbone takes the place of a run" in capsys.readouterr().err
