"""`shadowmetric train`: what it prints, where it writes, and the mistakes people make."""

import json
import os
import signal
from pathlib import Path

import pytest

from shadowmetric.app.cli import main
from shadowmetric.app.training import loop
from shadowmetric.app.training.runs.run import Run

SHORT = ["--device", "cpu", "--epochs", "1", "--batches", "2", "--batch", "20", "--per-class", "2"]
QUICK = ["--data", "digits", *SHORT]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code in (0, None)


def refused(capsys, *words, code=2):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said.strip().splitlines()[-1]


def test_a_run_from_nothing_but_its_name(capsys):
    run("train", *SHORT)
    said = capsys.readouterr()
    assert "Recall@1" in said.out
    folder = "runs/glyphs-normalized_softmax-0"
    assert f"The run is {folder}; more figures: shadowmetric evaluate {folder}" in said.out
    assert "Validation: 22 of the 217 training classes" in said.err
    run("train", *SHORT, "--json")  # the folder is taken, so it gets a number
    scores = json.loads(capsys.readouterr().out)
    assert scores == Run(Path("runs") / "glyphs-normalized_softmax-0-2").scores()
    assert scores["unseen_classes"] is True


def test_a_config_is_overridden_by_the_command_line_and_replays_a_run(capsys, tmp_path):
    run("train", *QUICK, "--out", "first")
    run("train", "--config", "first/settings.yaml", "--out", "second")
    run("train", "--config=first/settings.yaml", "--seed", "5", "--out", "third")
    first, second, third = (Run(tmp_path / name) for name in ("first", "second", "third"))
    assert first.settings() == second.settings()
    assert third.settings().seed == 5
    assert first.best_file.read_bytes() == second.best_file.read_bytes() != third.best_file.read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--los", "shadow"], "Unknown option: --los. Did you mean --loss?"),
        (["--loss", "tripplet"], "--loss is 'tripplet'; choose one of shadow, triplet,"),
        (["--epochs", "many"], 'unable to convert "many" into int'),
        (["--data", "digit"], "there is no dataset 'digit'; did you mean digits?"),
        (["--data", "cub200", "--data-root", "nowhere"], "cub200: "),
        (["--data", "folder:nowhere"], "nowhere"),
        (["--backbone", "resnet"], "backbone is 'resnet'"),
        (["--weights", "nothing.safetensors"], "nothing.safetensors"),
        (["--resume", "nowhere"], "nowhere is not there; name the folder of a run"),
        (["--resume", "nowhere", "--epochs", "3"], "--resume takes the settings and the folder of its run"),
        (["--config", "nothing.yaml"], "--config 'nothing.yaml' cannot be read: No such file"),
        (["--config"], "--config names no file"),
    ],
)
def test_mistakes_are_one_sentence(capsys, words, sentence):
    assert sentence in refused(capsys, "train", *words)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epochz: 3", "Did you mean --epochs?"),
        ("- a", "holds no options"),
        ("a: [", "is no YAML"),
        ("epochs: x", "epochs"),
    ],
)
def test_mistakes_in_a_config_name_it(capsys, tmp_path, text, sentence):
    (tmp_path / "c.yaml").write_text(text)
    said = refused(capsys, "train", "--config", "c.yaml")
    assert sentence in said
    assert "c.yaml" in said


def test_ctrl_c_prints_the_command_that_goes_on(capsys, monkeypatch):
    step = loop.train_step

    def interrupting(*given):
        step(*given)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(loop, "train_step", interrupting)
    assert refused(capsys, "train", *QUICK, "--out", "mine", code=130) == "shadowmetric train --resume mine"
    monkeypatch.setattr(loop, "train_step", step)
    run("train", "--resume", "mine")
    assert "Best epoch 1 of 1" in capsys.readouterr().out


def test_a_folder_of_photos_is_trained_and_evaluated(capsys, tmp_path):
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    for kind, level in (("cat", 40), ("dog & <b>", 200)):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(20):
            noisy = random.normal(level, 20, (12, 15, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(tmp_path / "photos" / kind / f"{number}.png")
    run("train", "--data", "folder:photos", *SHORT, "--validation", "0.3", "--out", "run")
    assert "Recall@1" in capsys.readouterr().out
    run("evaluate", "run", "--measures", "recall_at", "accuracy", "--no-interval")
    said = capsys.readouterr().out
    assert "run: 8 rows × 64, 2 classes" in said
    assert "By a vote of the training images, as in scores.json" in said
    assert "not for" not in refused(capsys, "evaluate", "run", "--gallery", "x.npy")
    assert "--part is 'tst'; choose one of" in refused(capsys, "evaluate", "run", "--part", "tst")
    assert "has no gallery part" in refused(capsys, "evaluate", "run", "--against", "gallery")
    assert "are for a run" in refused(capsys, "evaluate", "x.npy", "--part", "train")


def test_evaluating_a_run_gives_its_scores_again(capsys, tmp_path):
    run("train", *QUICK, "--out", "run")
    capsys.readouterr()
    run("evaluate", "run", "--json", "--no-interval")
    found = json.loads(capsys.readouterr().out)
    scores = Run(tmp_path / "run").scores()
    for name in ("recall_at_1", "recall_at_8", "map_at_r", "silhouette", "nmi"):
        assert found[name] == scores[name]
    run("evaluate", "run", "--json", "--no-interval", "--against", "train", "--measures", "accuracy")
    found = json.loads(capsys.readouterr().out)
    assert (found["accuracy"], found["macro_f1"]) == (scores["accuracy"], scores["macro_f1"])
    assert found["hardest_queries"][0]["name"].startswith("digit ")


def test_a_plan_alone(capsys, tmp_path):
    run("train", *QUICK, "--dry-run")
    said = capsys.readouterr()
    for words in ("network  small_cnn", "pixels   8 × 8 in gray", "memory ", "time     about", "Nothing was begun"):
        assert words in said.out
    assert not list(tmp_path.iterdir())
    assert "leave out --resume" in refused(capsys, "train", "--resume", "a", "--dry-run")
