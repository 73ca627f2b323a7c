"""Arrays of images: both forms, gray and color, and every mistake."""

import numpy as np
import pytest

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT
from shadowmetric.app.data.own.npz_file import read_npz
from shadowmetric.errors import DataMistake

GRAY = np.arange(10 * 2 * 3, dtype=np.uint8).reshape(10, 2, 3)
COLOR = np.arange(10 * 2 * 3 * 3, dtype=np.uint8).reshape(10, 2, 3, 3)
LABELS = np.arange(10) % 2
SPLIT = np.array(["train"] * 6 + ["test"] * 4)


@pytest.fixture
def saved(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "a.npz", **arrays)
        return tmp_path / "a.npz"

    return save


@pytest.mark.parametrize("images", [GRAY, GRAY[..., None], COLOR], ids=["gray", "gray with a channel", "color"])
def test_images_labels_and_a_split(saved, images):
    found = read_npz(saved(images=images, labels=LABELS * 5 - 3, split=SPLIT))
    assert found.classes == ("-3", "2")
    assert found.train.labels.tolist() == [0, 1, 0, 1, 0, 1]
    image = images[7] if images.ndim == 4 else images[7, :, :, None]
    assert np.array_equal(found.test.images.read(1).numpy(), image.transpose(2, 0, 1))
    assert found.kind == STANDARD


def test_without_a_split_a_fifth_is_held_out(saved):
    found = read_npz(saved(images=GRAY, labels=np.array(["b", "a"])[LABELS]))
    assert sorted(found.test.labels) == [0, 0, 1, 1]
    assert found.classes == ("a", "b")
    assert "No split is given" in found.notes[0]


def test_two_parts(saved):
    parts = {"train_images": GRAY, "test_images": GRAY[:2] + 1, "train_labels": LABELS, "test_labels": LABELS[:2] + 7}
    found = read_npz(saved(**parts))
    assert (len(found.train), len(found.test)) == (10, 2)
    assert found.classes == ("0", "1", "7", "8")
    assert np.array_equal(found.test.images.read(0).numpy()[0], GRAY[0] + 1)
    assert found.kind == ZERO_SHOT


OBJECTS = np.array([{}, "x"], dtype=object)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"images": GRAY}, "has the arrays images; give images, labels"),
        ({"images": GRAY, "labels": LABELS[:9]}, "10 'images' and 9 'labels'"),
        ({"images": GRAY / 255, "labels": LABELS}, "is float64 of shape"),
        ({"images": GRAY[0], "labels": LABELS[:2]}, r"is uint8 of shape \(2, 3\)"),
        ({"images": np.zeros((2, 3, 8, 9), np.uint8), "labels": LABELS[:2]}, r"shape \(2, 3, 8, 9\); give uint8"),
        ({"images": COLOR[..., :2], "labels": LABELS}, "1 or 3"),
        ({"images": GRAY[:, :0], "labels": LABELS}, "give uint8 of shape"),
        ({"images": GRAY, "labels": LABELS + 0.5}, "has 0.5 in row 0; labels must be integers or strings"),
        ({"images": GRAY, "labels": LABELS, "split": SPLIT[:9]}, "has 9 values for 10 images"),
        ({"images": GRAY, "labels": LABELS, "split": np.repeat("val", 10)}, "the value 'val'; give 'train' or 'test'"),
        ({"images": GRAY, "labels": LABELS, "split": LABELS}, "the value 0; give 'train'"),
        ({"images": GRAY, "labels": LABELS * 0}, "of 1 class"),
        ({"images": OBJECTS, "labels": LABELS[:2]}, "'images' in .* cannot be read"),
        ({"images": GRAY[:2], "labels": OBJECTS}, "never unpickled"),
    ],
)
def test_what_is_refused(saved, arrays, sentence):
    with pytest.raises(DataMistake, match=sentence):
        read_npz(saved(**arrays))


def test_parts_of_two_shapes_are_refused(saved):
    parts = {"train_images": GRAY, "test_images": COLOR, "train_labels": LABELS, "test_labels": LABELS}
    with pytest.raises(DataMistake, match="give both one shape"):
        read_npz(saved(**parts))


def test_files_that_are_no_npz(tmp_path):
    np.save(tmp_path / "a.npy", GRAY)
    with pytest.raises(DataMistake, match="holds one array"):
        read_npz(tmp_path / "a.npy")
    with pytest.raises(DataMistake, match="does not exist"):
        read_npz(tmp_path / "nothing.npz")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(DataMistake, match="damaged or cut short"):
        read_npz(tmp_path / "b.npz")
