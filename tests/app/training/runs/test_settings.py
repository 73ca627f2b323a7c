"""Settings: what is refused by which name, what the recipes fill in, and that a file gives them back."""

import re
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from shadowmetric.app.training.runs.recipes import FROM_SCRATCH, PAPER, PRETRAINED, Recipe
from shadowmetric.app.training.runs.settings import (
    TrainSettings,
    as_plain,
    check_settings,
    from_plain,
    recipe_settings,
    resolve_settings,
    with_recipe,
)
from shadowmetric.errors import Mistake

SAID = Path(sys.modules[TrainSettings.__module__].__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    ["epochs", "batch", "per_class", "optimizer", "learning_rate", "weight_decay", "warmup", "augment", "patience"],
)
def test_the_help_says_the_defaults_of_the_recipes(name):
    words = re.search(rf'^    {name}: [^\n]*\n    """(.*?)"""', SAID, re.MULTILINE | re.DOTALL)[1]
    scratch, pretrained = re.search(
        r"Default: ([\w.]+?)(?:; ([\w.]+?) from pretrained weights)?\.$", " ".join(words.split())
    ).groups()
    for said, recipe in ((scratch, FROM_SCRATCH), (pretrained or scratch, PRETRAINED)):
        wanted = getattr(recipe, name)
        assert type(wanted)(said) == wanted


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "tripple"}, "--loss is 'tripple'; choose one of shadow, triplet"),
        ({"recipe": "best"}, "--recipe is 'best'; choose one of default, head, finetune, paper"),
        ({"select_on": "train"}, "--select-on is 'train'"),
        ({"epochs": -1}, "--epochs is -1; it must be 0 or more"),
        ({"per_class": 0}, "--per-class is 0; it must be 1 or more"),
        ({"per_class": 1, "loss": "triplet"}, "--per-class is 1, and triplet compares rows with others of their class"),
        ({"per_class": 1, "weights": "pretrained"}, "--per-class is 1, and shadow compares rows"),
        ({"learning_rate": 0.0}, "--learning-rate is 0.0; it must be a number above 0"),
        ({"margin": float("nan")}, "--margin is nan"),
        ({"validation": 1.0}, "--validation is 1.0; it must be a share"),
        ({"seed": -1}, "--seed is -1"),
        ({"size": 4}, "--size is 4; it must be 8 or more"),
        ({"size": 1_000_000}, "--size is 1000000; it must be 4096 or less"),
        ({"size": 64, "resize": 32}, "--resize is 32; it must be at least --size, 64"),
        ({"channels": 2}, "--channels is 2"),
    ],
)
def test_what_is_refused(settings, sentence):
    with pytest.raises(Mistake, match=sentence):
        check_settings(TrainSettings(**settings))


def test_the_paper_s_recipe_is_the_paper_s():
    settings = resolve_settings(TrainSettings(recipe="paper", weights="pretrained"), size=224, resize=256, channels=3)
    assert (settings.batch, settings.per_class, settings.dim) == (32, 5, 64)
    assert resolve_settings(TrainSettings(recipe="paper"), size=224, resize=256, channels=3) == settings
    assert (settings.backbone, settings.weights) == ("googlenet", "pretrained")
    assert (settings.optimizer, settings.learning_rate, settings.head_learning_rate, settings.weight_decay) == (
        "adam",
        1e-4,
        1e-4,
        1e-4,
    )
    assert (settings.miner, settings.margin, settings.warmup, settings.augment) == ("semi_hard", 0.2, 0.0, "none")
    assert recipe_settings(settings) == PAPER


@pytest.mark.parametrize(("weights", "recipe"), [(None, FROM_SCRATCH), ("pretrained", PRETRAINED)])
def test_nothing_that_a_recipe_decides_is_left_open(weights, recipe):
    settings = resolve_settings(TrainSettings(weights=weights), size=28, resize=28, channels=1)
    assert recipe_settings(settings) == replace(recipe, augment="shift" if weights else "photo")
    assert (settings.backbone, settings.size, settings.resize) == ("small_cnn", 28, 28)
    assert resolve_settings(TrainSettings(), size=96, resize=96, channels=3).backbone == "resnet18"


def test_the_images_decide_what_is_left_to_them():
    shape = {"size": 28, "resize": 28, "channels": 1}
    assert resolve_settings(TrainSettings(), **shape, images="drawing").augment == "drawing"
    assert resolve_settings(TrainSettings(augment="auto", weights="pretrained"), **shape).augment == "photo"
    assert resolve_settings(TrainSettings(augment="none"), **shape, images="drawing").augment == "none"
    assert resolve_settings(TrainSettings(recipe="paper"), **shape, images="drawing").augment == "none"


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        ({}, "normalized_softmax"),
        ({"weights": "none", "batch": 32}, "normalized_softmax"),
        ({"weights": "pretrained"}, "shadow"),
        ({"recipe": "paper"}, "shadow"),
        ({"loss": "triplet"}, "triplet"),
        ({"miner": "hard"}, "shadow"),
        ({"margin": 0.1}, "shadow"),
        ({"cross_batch_memory": 64}, "shadow"),
        ({"unit_rows": False}, "shadow"),
        ({"loss": "normalized_softmax", "margin": 0.1}, "normalized_softmax"),
    ],
)
def test_the_loss_from_scratch_unless_an_option_asks_for_one_of_rows(given, loss):
    settings = with_recipe(TrainSettings(**given))
    assert settings.loss == loss
    assert with_recipe(settings) == settings


@pytest.mark.parametrize(
    ("given", "batch", "per_class"),
    [
        ({}, 32, 1),
        ({"loss": "arc_face"}, 32, 1),
        ({"loss": "shadow"}, 64, 4),
        ({"miner": "hard"}, 64, 4),
        ({"loss": "pml:TripletMarginLoss"}, 64, 4),
        ({"loss": "arc_face", "weights": "pretrained"}, 64, 4),
        ({"loss": "arc_face", "recipe": "paper"}, 32, 5),
        ({"per_class": 2}, 32, 2),
    ],
)
def test_images_come_as_they_are_where_none_needs_another_of_its_class(given, batch, per_class):
    settings = with_recipe(TrainSettings(**given))
    assert (settings.batch, settings.per_class) == (batch, per_class)


def test_paths_hold_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHADOWMETRIC_DATA", raising=False)
    settings = with_recipe(TrainSettings(data="folder:photos", weights="w.safetensors"))
    assert settings.data == f"folder:{tmp_path / 'photos'}"
    assert settings.weights == str(tmp_path / "w.safetensors")
    assert settings.data_root == tmp_path / "data"
    assert with_recipe(TrainSettings(weights="none")).weights == "none"


def test_what_the_user_says_wins():
    settings = resolve_settings(
        TrainSettings(batch=48, augment="crop", backbone="vgg16", learning_rate=3e-4), size=28, resize=28, channels=1
    )
    assert (settings.batch, settings.augment, settings.backbone, settings.learning_rate) == (48, "crop", "vgg16", 3e-4)
    ratio = FROM_SCRATCH.head_learning_rate / FROM_SCRATCH.learning_rate
    assert settings.head_learning_rate == pytest.approx(3e-4 * ratio)  # the head follows the rate that was named
    assert (
        resolve_settings(
            TrainSettings(learning_rate=3e-4, head_learning_rate=1.0), size=28, resize=28, channels=1
        ).head_learning_rate
        == 1.0
    )


def test_a_file_gives_the_settings_back():
    settings = resolve_settings(
        TrainSettings(data_root=Path("/some") / "where", track="tensorboard"), size=28, resize=28, channels=1
    )
    assert from_plain(yaml.safe_load(yaml.safe_dump(as_plain(settings))), Path("settings.yaml")) == settings
    with pytest.raises(Mistake, match=r"settings\.yaml has the setting 'epoch', which there is not"):
        from_plain({"epoch": 3}, Path("settings.yaml"))


def test_every_field_of_a_recipe_is_a_setting_that_can_be_left_open():
    for field in fields(Recipe):
        assert getattr(TrainSettings(), field.name) is None
    assert replace(TrainSettings(), epochs=3).epochs == 3
