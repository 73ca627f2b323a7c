"""The validation part comes out of the training images; whole classes where the test classes are new too."""

import numpy as np
import pytest
import torch

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.training import preparation
from shadowmetric.app.training.preparation import prepare, split_for_selection
from shadowmetric.app.training.runs.settings import TrainSettings, resolve_settings


def dataset(classes, each, kind, groups=None, test_classes=4):
    def split(labels, groups=None):
        pixels = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 8, 8).contiguous()
        return Split(ArrayImages(pixels), labels.astype(np.int64), groups)

    train = split(np.repeat(np.arange(classes), each), groups)
    first = classes if kind == ZERO_SHOT else 0
    test = split(np.repeat(np.arange(first, first + test_classes), 3))
    return Dataset("made", kind, train, test, tuple(map(str, range(classes + test_classes))))


def settings(**changes):
    return resolve_settings(TrainSettings(**changes), size=8, resize=8, channels=1)


def parts_of(found, **changes):
    return split_for_selection(found, settings(**changes))


def test_zero_shot_sets_hold_whole_classes_out():
    kept, held, how = parts_of(dataset(30, 5, ZERO_SHOT))
    assert held is not None
    assert not set(kept.labels) & set(held.labels)
    assert len(set(held.labels)) == 3
    assert how == "Validation: 3 of the 30 training classes (15 images)."


@pytest.mark.parametrize(("classes", "kind"), [(5, ZERO_SHOT), (30, STANDARD)])
def test_others_hold_a_share_of_each_class_out(classes, kind):
    kept, held, how = parts_of(dataset(classes, 10, kind), validation=0.2)
    assert held is not None
    assert np.bincount(held.labels).tolist() == [2] * classes
    assert np.bincount(kept.labels).tolist() == [8] * classes
    assert how.startswith(f"Validation: {2 * classes} of the {10 * classes} training images")


def test_groups_are_not_parted():
    groups = np.arange(100) // 4
    kept, held, _ = parts_of(dataset(5, 20, STANDARD, groups), validation=0.25)
    assert held is not None
    assert not set(kept.groups) & set(held.groups)
    assert len(held) == 20  # 5 of 20 in each class are wanted, and a group is 4


def test_the_seed_chooses_the_part():
    found = dataset(5, 20, STANDARD)
    numbers = [parts_of(found, seed=seed)[1].images.pixels[:, 0, 0, 0].tolist() for seed in (0, 0, 1)]
    assert numbers[0] == numbers[1] != numbers[2]


def test_small_classes_train_without_a_judge():
    kept, held, how = parts_of(dataset(5, 3, STANDARD))
    assert held is None
    assert len(kept) == 15
    assert how.startswith("There is no validation part: --validation 0.1 would hold out 0 images, too few")
    assert np.bincount(parts_of(dataset(5, 4, STANDARD))[1].labels).tolist() == [2] * 5


def test_training_labels_are_consecutive_and_the_dataset_keeps_its_own(monkeypatch):
    found = dataset(40, 5, ZERO_SHOT)
    monkeypatch.setattr(preparation, "open_dataset", lambda *given, **settings: found)
    parts = prepare(TrainSettings())
    assert sorted(set(parts.train.labels)) == list(range(36))
    assert parts.classes == 36
    assert set(parts.validation.labels) <= set(range(40))
    assert parts.settings.backbone == "small_cnn"


def test_the_look_of_the_images_decides_what_is_left_to_it_and_is_said(monkeypatch):
    found = dataset(5, 10, STANDARD)  # plain squares: no color, and one level
    monkeypatch.setattr(preparation, "open_dataset", lambda *given, **settings: found)
    parts = prepare(TrainSettings())
    assert parts.settings.augment == "drawing"
    assert parts.notes[-1] == (
        "The images are taken for drawings: no color, one level covers 100 % of an image; training changes them as "
        "--augment drawing does."
    )
    for settings in (TrainSettings(augment="none"), TrainSettings(recipe="paper", backbone="small_cnn")):
        chosen = prepare(settings)
        assert chosen.settings.augment == "none"
        assert not any("taken for" in note for note in chosen.notes)
