"""Features of a frozen backbone: what they are, that they are computed once, and what makes them others."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.models import Embedder, build_embedder
from shadowmetric.app.training.features import store
from shadowmetric.app.training.preparation import prepare
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import DataMistake, Mistake

CLASSES, EACH = 4, 6


@pytest.fixture
def weights(tmp_path):
    """A file of weights of the small network."""
    file = tmp_path / "weights.safetensors"
    save_file(build_embedder("small_cnn", size=12, seed=3).state_dict(), file)
    return str(file)


@pytest.fixture
def photos(tmp_path):
    """A folder per class, of small images in color; files of four images each keep the features."""
    random = np.random.default_rng(0)
    for label in range(CLASSES):
        for number in range(EACH):
            file = tmp_path / "photos" / f"class {label}" / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 256, (12, 15, 3), np.uint8)).save(file)
    return tmp_path / "photos"


@pytest.fixture
def settings(photos, weights, monkeypatch):
    """Settings whose features are kept beside the photos, four images in a file."""
    monkeypatch.setattr(store, "IMAGES", 4)
    monkeypatch.delenv(store.VARIABLE, raising=False)
    return TrainSettings(
        data=f"folder:{photos}", data_root=photos.parent, backbone="small_cnn", weights=weights, device="cpu"
    )


@pytest.fixture
def embedded(monkeypatch):
    """How many images passed the backbone, in a list."""
    counts, features = [], Embedder.features

    def counting(self, images):
        counts.append(len(images))
        return features(self, images)

    monkeypatch.setattr(Embedder, "features", counting)
    return counts


def rows_of(settings):
    parts = prepare(settings, features=True).dataset.parts()
    assert all(isinstance(split.images, FeatureRows) for split in parts.values())
    return {name: split.images.rows for name, split in parts.items()}


def test_features_are_the_backbone_s_of_each_image_alone(settings):
    parts, images = prepare(settings, features=True), prepare(settings)
    embedder = build_embedder("small_cnn", size=12, weights=settings.weights).eval()
    for name, split in parts.dataset.parts().items():
        source = images.dataset.parts()[name].images
        with torch.no_grad():
            alone = torch.cat([embedder.features(parts.shape(source.read(n))[None]) for n in range(len(split))])
        torch.testing.assert_close(split.images.rows, alone)
        assert [split.images.name(n) for n in range(len(split))] == [source.name(n) for n in range(len(split))]
        assert split.labels.tolist() == images.dataset.parts()[name].labels.tolist()
    assert parts.train.images.rows.shape == (len(images.train), 128)
    assert parts.train.labels.tolist() == images.train.labels.tolist()  # the same validation part was taken out


def test_they_are_computed_once_and_it_is_said_where_they_are(settings, embedded):
    first = prepare(settings, features=True)
    assert sum(embedded) == CLASSES * EACH
    folder = settings.data_root.resolve() / "features"
    assert first.notes[-2] == (
        f"The backbone is frozen: its features of 24 images are in {folder} (24 images computed now)."
    )
    embedded.clear()
    again = prepare(replace(settings, seed=7, dim=5), features=True)
    assert embedded == []
    assert again.notes[-2].endswith("(all were there).")
    assert torch.equal(again.dataset.train.images.rows, first.dataset.train.images.rows)


def test_after_a_kill_what_is_missing_is_computed(settings, embedded, monkeypatch):
    whole = rows_of(settings)
    files = sorted(settings.data_root.glob("features/*/0*.safetensors"))
    assert len(files) == 6
    bits = files[1].read_bytes()
    files[1].unlink()
    files[4].write_bytes(bits[:-1])  # damaged
    embedded.clear()
    again = rows_of(settings)
    assert embedded == [4, 4]
    assert all(torch.equal(rows, again[name]) for name, rows in whole.items())
    stored = store.Store.write

    def killed(self, part, rows, numbers):
        if part == 2:
            raise KeyboardInterrupt
        stored(self, part, rows, numbers)

    monkeypatch.setattr(store.Store, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        prepare(replace(settings, size=10, resize=10), features=True)
    monkeypatch.setattr(store.Store, "write", stored)
    embedded.clear()
    prepare(replace(settings, size=10, resize=10), features=True)
    assert sum(embedded) == CLASSES * EACH - 8


@pytest.mark.parametrize("change", ["weights", "size", "channels", "one image", "one more image"])
def test_other_weights_pixels_or_images_have_other_features(settings, photos, embedded, change):
    before = rows_of(settings)
    embedded.clear()
    first = photos / "class 0" / "0.png"
    if change == "weights":
        tensors = build_embedder("small_cnn", size=12, seed=4).state_dict()
        save_file(tensors, settings.weights)
    elif change == "one image":
        os.utime(first, ns=(1, 1))
    elif change == "one more image":
        (photos / "class 0" / "9.png").write_bytes(first.read_bytes())
    else:
        settings = replace(settings, **{"size": {"size": 10, "resize": 11}, "channels": {"channels": 1}}[change])
    after = rows_of(settings)
    assert sum(embedded) > 0
    same = {name: before[name].shape == after[name].shape and torch.equal(before[name], after[name]) for name in before}
    assert all(same.values()) == (change == "one image")  # whose bytes are as they were


def test_arrays_are_known_by_their_pixels(weights, tmp_path, embedded):
    digits = TrainSettings(data="digits", data_root=tmp_path, backbone="small_cnn", weights=weights, device="cpu")
    rows_of(digits)
    assert sum(embedded) == 1797
    rows_of(replace(digits, seed=1))
    assert sum(embedded) == 1797
    rows_of(replace(digits, most_per_class=20))
    assert sum(embedded) == 1797 + 400


def test_an_image_that_cannot_be_read_is_refused_or_left_out(settings, photos):
    (photos / "class 1" / "2.png").write_bytes(b"no image")
    with pytest.raises(DataMistake, match=r"1 images cannot be read: .*2\.png"):
        prepare(settings, features=True)
    for _ in range(2):  # computed, and from the files
        parts = prepare(replace(settings, broken="skip"), features=True)
        splits = parts.dataset.parts().values()
        assert sum(len(split) for split in splits) == CLASSES * EACH - 1
        assert any("1 image of train cannot be read and is left out" in note for note in parts.notes) or any(
            "1 image of test cannot be read and is left out" in note for note in parts.notes
        )
        names = [split.images.name(number) for split in splits for number in range(len(split))]
        assert str(Path("class 1") / "2.png") not in names


def test_the_cache_is_where_the_variable_says(settings, tmp_path, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "elsewhere"))
    rows_of(settings)
    assert len(list((tmp_path / "elsewhere").glob("*/*.safetensors"))) == 6
    assert not (settings.data_root / "features").exists()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(Mistake, match=f"cannot be made for features .* by the variable {store.VARIABLE}"):
        rows_of(settings)
