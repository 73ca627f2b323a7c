"""The loop: a run's folder, what is learned, how it stops and resumes, and that nobody sees the test split early."""

import json
import math
import os
import shlex
import signal

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from shadowmetric.app.training import epoch, loop, preparation, scoring, setup
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.app.training.show import Silent
from shadowmetric.errors import Interrupted, Mistake, Stopped
from shadowmetric.losses.catalogue import LOSSES

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK = TrainSettings(
    data="digits", loss="shadow", device="cpu", epochs=2, batches=5, batch=20, per_class=2, patience=0, augment="shift"
)
FILES = {"settings.yaml", "replay.txt", "journal.jsonl", "best.safetensors", "last", "scores.json"}
FIGURES = {"recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "r_precision", "silhouette"}
FIGURES |= {"macro_f1", "accuracy", "nmi", "convergence_epoch"}


def quick(**changes):
    return TrainSettings(**(vars(QUICK) | changes))


class Watching(Silent):
    """Calls a function after every batch and remembers what it was told."""

    def __init__(self, each=lambda moment: None):
        self.each, self.told, self.lines, self.moments = each, [], [], []

    def notes(self, sentences):
        self.told += sentences

    def wants(self):
        return True

    def moment(self, moment):
        self.moments.append(moment)
        self.each(moment)

    def epoch(self, line):
        self.lines.append(line)


def test_a_run_is_a_folder_with_everything(tmp_path):
    show = Watching()
    scores = train(QUICK, tmp_path / "run", show=show)
    run = Run(tmp_path / "run")
    assert {path.name for path in run.folder.iterdir()} >= FILES
    assert scores.keys() >= FIGURES
    assert all(0 <= scores[name] <= 1 for name in FIGURES - {"convergence_epoch", "silhouette"})
    assert scores == run.scores()
    assert scores["selected_on"] == "validation"
    assert [line["epoch"] for line in run.journal()] == [1, 2]
    assert run.journal() == show.lines
    assert run.settings().backbone == "small_cnn"
    assert None not in {
        run.settings().learning_rate,
        run.settings().size,
        run.settings().augment,
        run.settings().warmup,
    }
    assert [(moment.epoch, moment.batch) for moment in show.moments] == [(e, b) for e in (1, 2) for b in range(1, 6)]
    assert any(sentence.startswith("Validation: 120 of the 1,195") for sentence in show.told)
    assert f"--config {shlex.quote(str(run.folder / 'settings.yaml'))} " in (run.folder / "replay.txt").read_text()


def test_training_learns(tmp_path):
    scores = train(quick(epochs=6, batches=20, batch=40, per_class=4), tmp_path / "run")
    before = train(quick(epochs=1, batches=1, learning_rate=1e-12, head_learning_rate=1e-12), tmp_path / "before")
    assert scores["map_at_r"] > before["map_at_r"] + 0.1
    lines = Run(tmp_path / "run").journal()
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert lines[-1]["positive_gap_50"] < lines[0]["positive_gap_50"]


def test_the_same_settings_give_the_same_bits(tmp_path):
    first, second = train(QUICK, tmp_path / "first"), train(QUICK, tmp_path / "second")
    for scores in (first, second):
        scores.pop("train_seconds")
    assert first == second
    other = train(quick(seed=1), tmp_path / "other")
    assert other["map_at_r"] != first["map_at_r"]


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains(tmp_path, name):
    scores = train(quick(loss=name, epochs=1, batches=2), tmp_path / "run")
    assert math.isfinite(scores["map_at_r"])
    assert math.isfinite(Run(tmp_path / "run").journal()[0]["loss"])


def test_losses_see_the_same_batches_from_the_same_weights(tmp_path, monkeypatch):
    seen = {}
    step = loop.train_step

    def noting(training, batch, watch, tally):
        start = {name: value.clone() for name, value in training.bare_embedder.state_dict().items()}
        seen.setdefault(training.settings.loss, []).append((batch, start))
        step(training, batch, watch, tally)

    monkeypatch.setattr(loop, "train_step", noting)
    for name in ("shadow", "soft_triple"):
        train(quick(loss=name, epochs=1), tmp_path / name)
    for (batch, _start), (other, _other_start) in zip(seen["shadow"], seen["soft_triple"], strict=True):
        assert batch.numbers == other.numbers
        assert torch.equal(batch.images, other.images)
    first, second = seen["shadow"][0][1], seen["soft_triple"][0][1]
    assert all(torch.equal(first[name], second[name]) for name in first)


IN_PIECES = {"logical_batch": 40, "batch": None, "micro_batch": 16}  # and the rest in a smaller piece
MEMORY = {"cross_batch_memory": 50, "cross_batch_warmup": 1}


@pytest.mark.parametrize(
    ("batch", "more"), [(1, {}), (3, {}), (5, {}), (7, {}), (3, IN_PIECES | MEMORY), (5, IN_PIECES), (5, MEMORY)]
)
def test_ctrl_c_saves_and_a_resume_ends_as_if_nothing_had_happened(tmp_path, batch, more):
    settings = quick(**more)
    whole = train(settings, tmp_path / "whole")
    count = [0]

    def interrupt(moment):
        count[0] += 1
        if count[0] == batch:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)  # a job in the background ignores it
    with pytest.raises(Interrupted, match=r"shadowmetric train --resume .*stopped"):
        train(settings, tmp_path / "stopped", show=Watching(interrupt))
    assert Run(tmp_path / "stopped").scores() is None
    resumed = train(settings, tmp_path / "stopped", resume=True)
    weights = [load_file(tmp_path / name / "best.safetensors") for name in ("whole", "stopped")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert {**whole, "train_seconds": 0} == {**resumed, "train_seconds": 0}
    assert signal.getsignal(signal.SIGINT) is before


def test_a_stop_during_the_judgment_repeats_the_judgment(tmp_path):
    class Stopping(Watching):
        def stage(self, name, share):
            if name.startswith("epoch 1"):
                os.kill(os.getpid(), signal.SIGTERM)

    whole = train(QUICK, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(QUICK, tmp_path / "stopped", show=Stopping())
    assert Run(tmp_path / "stopped").journal() == []
    resumed = train(QUICK, tmp_path / "stopped", resume=True)
    assert {**whole, "train_seconds": 0} == {**resumed, "train_seconds": 0}


def test_a_finished_run_is_not_trained_again(tmp_path, monkeypatch):
    scores = train(QUICK, tmp_path / "run")
    monkeypatch.setattr(loop, "set_up", lambda *given, **settings: pytest.fail("it was set up again"))
    assert train(QUICK, tmp_path / "run", resume=True) == scores


def test_folders_that_are_refused(tmp_path):
    train(quick(epochs=1, batches=1), tmp_path / "run")
    with pytest.raises(Mistake, match="holds a run already; go on with it by `shadowmetric train --resume"):
        train(QUICK, tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "photo.jpg").touch()
    with pytest.raises(Mistake, match="is there and holds no run"):
        train(QUICK, tmp_path / "other")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "replay.txt").touch()  # as after a kill before the settings were written
    train(quick(epochs=1, batches=1), tmp_path / "begun")
    with pytest.raises(Mistake, match=r"is not there; name the folder of a run"):
        train(QUICK, tmp_path / "nothing", resume=True)


def test_the_test_split_is_looked_at_once_and_last(tmp_path, monkeypatch):
    events = []
    finish, finish_epoch = loop.finish, loop.finish_epoch
    monkeypatch.setattr(loop, "finish_epoch", lambda *given: (finish_epoch(*given), events.append("epoch")))
    monkeypatch.setattr(loop, "finish", lambda *given: (events.append("test"), finish(*given))[1])
    monkeypatch.setattr(epoch, "score_test", lambda *given: pytest.fail("an epoch looked at the test split"))
    train(QUICK, tmp_path / "run")
    assert events == ["epoch", "epoch", "test"]


def test_selecting_on_test_is_stamped(tmp_path):
    show = Watching()
    scores = train(quick(select_on="test"), tmp_path / "run", show=show)
    assert scores["selected_on"] == "test"
    assert scores["best_epoch"] == 1 + int(np.argmax([line["recall_at_1"] for line in show.lines]))
    assert max(line["recall_at_1"] for line in show.lines) == scores["recall_at_1"]
    assert any("CHOSEN" in note.upper() and "TEST" in note for note in scores["notes"])


def test_without_validation_the_last_epoch_is_kept(tmp_path):
    scores = train(quick(validation=0.0), tmp_path / "run")
    assert (scores["best_epoch"], scores["convergence_epoch"]) == (2, None)
    assert scores["selected_on"].startswith("nothing")
    with pytest.raises(Mistake, match="--patience 0"):
        train(quick(validation=0.0, patience=3), tmp_path / "other")


def test_the_plateau_stops_a_run(tmp_path, monkeypatch):
    recalls = iter([0.5, 0.7, 0.702, 0.701, 0.9])
    judged = {"map_at_r": 0.1, "silhouette": 0.0, "effective_rank": 9.0}
    monkeypatch.setattr(epoch, "judge_epoch", lambda *given: {"recall_at_1": next(recalls), **judged})
    scores = train(quick(epochs=5, batches=1, patience=2), tmp_path / "run")
    assert (scores["epochs"], scores["best_epoch"], scores["convergence_epoch"]) == (4, 3, 2)


def test_a_loss_that_is_not_finite_stops_before_any_weight_is_touched(tmp_path, monkeypatch):
    kept = {}

    class Broken(torch.nn.Module):
        def forward(self, embeddings, labels):
            return embeddings.sum() * (math.nan if kept["training"].state.step == 3 else 1.0)

    def broken(*given, **settings):
        kept["training"] = made(*given, **settings)
        kept["training"].loss = Broken()
        return kept["training"]

    made = setup.set_up
    monkeypatch.setattr(loop, "set_up", broken)
    with pytest.raises(Stopped, match=r"batch 3 of epoch 1 is not finite; its images are listed in .*not-finite\.json"):
        train(QUICK, tmp_path / "run")
    found = json.loads((tmp_path / "run" / "not-finite.json").read_text())
    assert len(found["numbers"]) == len(found["images"]) == len(found["labels"]) == 20
    assert all(torch.isfinite(value).all() for value in kept["training"].bare_embedder.state_dict().values())


def test_the_best_weights_are_those_that_were_scored(tmp_path):
    train(QUICK, tmp_path / "run")
    embedder = load_embedder(Run(tmp_path / "run"))
    images = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    assert not embedder.training
    torch.testing.assert_close(embedder(images).norm(dim=1), torch.ones(1))
    run = Run(tmp_path / "run")
    run.write(run.best_file, lambda place: place.write_bytes(b"nothing"))
    with pytest.raises(Mistake, match="does not fit the settings"):
        load_embedder(Run(tmp_path / "run"))


def test_a_damaged_state_is_named(tmp_path):
    with pytest.raises(Interrupted):
        train(QUICK, tmp_path / "run", show=Watching(lambda moment: os.kill(os.getpid(), signal.SIGINT)))
    state = Run(tmp_path / "run").state_file
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(Mistake, match=r"state\.pt is not as it was written; bring back a copy"):
        train(QUICK, tmp_path / "run", resume=True)
    run = Run(tmp_path / "run")
    run.write(state, lambda place: place.write_bytes(b"nothing"))
    with pytest.raises(Mistake, match=r"state\.pt cannot be read"):
        train(QUICK, tmp_path / "run", resume=True)


def test_other_images_than_the_run_began_with_are_refused(tmp_path):
    photos = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    labels = np.arange(60) % 3
    np.savez(tmp_path / "a.npz", images=photos, labels=labels)
    settings = quick(data=f"npz:{tmp_path / 'a.npz'}", validation=0.2)
    with pytest.raises(Interrupted):
        train(settings, tmp_path / "run", show=Watching(lambda moment: os.kill(os.getpid(), signal.SIGINT)))
    np.savez(tmp_path / "a.npz", images=photos[:57], labels=labels[:57])
    with pytest.raises(Mistake, match=r"are not those that .* began with"):
        train(settings, tmp_path / "run", resume=True)


def test_a_validation_part_without_positives_is_never_made(tmp_path):
    photos = np.random.default_rng(0).integers(0, 255, (160, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=photos, labels=np.arange(160) % 10)
    scores = train(quick(data=f"npz:{tmp_path / 'a.npz'}"), tmp_path / "run")
    assert all(line["recall_at_1"] is not None for line in Run(tmp_path / "run").journal())
    assert scores["selected_on"] == "validation"


def test_embeddings_on_a_line_are_a_warning(tmp_path, monkeypatch):
    judged = {"recall_at_1": 0.5, "map_at_r": 0.1, "silhouette": 0.0, "effective_rank": 1.2}
    monkeypatch.setattr(epoch, "judge_epoch", lambda *given: judged)
    train(quick(batches=1), tmp_path / "run")
    assert all("lie on a line" in line["warnings"][0] for line in Run(tmp_path / "run").journal())


def test_a_resume_does_not_need_the_first_weights_again(tmp_path):
    train(quick(epochs=1, batches=1), tmp_path / "first")
    weights = tmp_path / "first" / "best.safetensors"
    stopped = Watching(lambda moment: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted):
        train(quick(weights=str(weights)), tmp_path / "run", show=stopped)
    weights.unlink()
    assert train(QUICK, tmp_path / "run", resume=True)["epochs"] == 2


def test_a_stop_while_images_are_read_leaves_nothing(tmp_path, monkeypatch):
    def reading(settings, report, **how):
        os.kill(os.getpid(), signal.SIGINT)
        report("reading images", 0.5)

    monkeypatch.setattr(setup, "prepare", reading)
    with pytest.raises(KeyboardInterrupt):
        train(QUICK, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_bf16_trains_and_is_scored_in_float32(tmp_path):
    AcceleratorState._reset_state(reset_partial_state=True)
    scores = train(quick(precision="bf16"), tmp_path / "run")
    run = Run(tmp_path / "run")
    parts = preparation.parts_of(run)
    again = scoring.score_test(load_embedder(run), parts.dataset, parts.shape)[1]
    assert again["map_at_r"] == scores["map_at_r"]
    AcceleratorState._reset_state(reset_partial_state=True)
    with pytest.raises(Mistake, match="fp16 needs a GPU"):
        train(quick(precision="fp16"), tmp_path / "other")
    AcceleratorState._reset_state(reset_partial_state=True)
