"""A bundle: complete, made by its own model, free of this machine's paths, and never half there."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from exported_runs import write_digits

from shadowmetric.app import serving
from shadowmetric.app.serving.exporting import bundle as bundling
from shadowmetric.app.serving.exporting import parity
from shadowmetric.app.serving.exporting.bundle import check_place, write_bundle
from shadowmetric.app.serving.exporting.resident import HOUSE
from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.model import model_of
from shadowmetric.errors import Mistake
from shadowmetric.runtime.bundle import Bundle
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.index_file import read_index, write_index
from shadowmetric.runtime.model import OnnxModel
from shadowmetric.runtime.unfinished import MACHINE

pytest_plugins = ["exported_fixtures"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def copy(bundled, tmp_path):
    return shutil.copytree(bundled.folder, tmp_path / "bundle", ignore=shutil.ignore_patterns(".*"))


def test_it_has_all_that_a_device_needs(bundled):
    assert names(bundled.folder) == [
        "README.txt",
        "calibration.json",
        "device",
        "digests.json",
        "index.shadowmx",
        "model.onnx",
        "requirements.txt",
    ]
    for file in (HOUSE / bundling.ROOM).glob("*.py"):
        assert (bundled.folder / "device" / file.name).read_bytes() == file.read_bytes()
    assert names(bundled.folder / "device") == sorted(file.name for file in (HOUSE / bundling.ROOM).glob("*.py"))
    needs = (bundled.folder / "requirements.txt").read_text().split()
    assert [need.partition(">")[0] for need in needs] == ["numpy", "onnxruntime", "pillow"]
    assert "python -m device search" in (bundled.folder / "README.txt").read_text()
    assert (bundled.model, bundled.images, bundled.broken) == ("int8", 40, [])
    files = [file for file in bundled.folder.rglob("*") if file.is_file()]
    assert bundled.bytes == sum(file.stat().st_size for file in files)


@pytest.mark.parametrize("name", ["model.onnx", "calibration.json", "digests.json"])
def test_a_bundle_whose_files_were_changed_is_refused_by_name(copy, name):
    random, file = np.random.default_rng(0), copy / name
    stored = file.read_bytes()
    for _ in range(20):
        damaged = bytearray(stored)
        damaged[random.integers(len(stored))] ^= 1 << random.integers(7)
        file.write_bytes(damaged)
        if name.endswith(".json") and damaged.split() == stored.split():
            continue
        with pytest.raises(Mistake, match=r"damaged|not as it was written|not in digests"):
            Bundle(copy).calibration()


def test_an_index_of_a_file_with_the_same_fingerprint_is_refused(copy):
    about, contents = read_index(copy / "index.shadowmx")
    assert about.digest == OnnxModel(copy / "model.onnx").about.digest
    write_index(copy / "index.shadowmx", replace(about, digest="0" * 64), contents)
    with pytest.raises(Mistake, match="was made by another model"):
        Bundle(copy).index()


def test_model_index_and_threshold_are_of_one_model(bundled, exported, images):
    assert (bundled.folder / "model.onnx").read_bytes() == exported.files["int8"].read_bytes()
    model = OnnxModel(bundled.folder / "model.onnx")
    about, contents = read_index(bundled.folder / "index.shadowmx")
    calibration = json.loads((bundled.folder / "calibration.json").read_text())
    assert about.fingerprint == calibration["fingerprint"] == model.about.fingerprint
    assert contents.classes == tuple(f"digit {label}" for label in range(10))
    squares = np.stack([about.shape.square(open_image(images / path)) for path in contents.paths])
    np.testing.assert_allclose(contents.rows, model.embed(squares), atol=1e-3)


def test_no_path_of_this_machine_is_in_it(bundled, made_in):
    about, contents = read_index(bundled.folder / "index.shadowmx")
    assert (about.root, about.model) == ("", ("model.onnx",))
    assert contents.paths[0] == "digit 0/0.png"
    for file in bundled.folder.rglob("*"):
        if file.is_file():
            assert str(made_in).encode() not in file.read_bytes()


def test_the_product_opens_its_index_with_its_model(bundled):
    gallery = FileGallery(bundled.folder / "index.shadowmx")
    model = model_of(gallery.about, bundled.folder / "index.shadowmx")
    assert model.about.fingerprint == gallery.about.fingerprint


def test_the_float_model_is_taken_if_the_other_was_refused(digits_run, exported, images, tmp_path):
    refused = replace(exported, files={"fp32": exported.files["fp32"]}, refusal="too bad")
    found = write_bundle(digits_run, refused, tmp_path / "new", images)
    assert found.model == "fp32"
    assert (tmp_path / "new" / "model.onnx").read_bytes() == exported.files["fp32"].read_bytes()


def test_a_bundle_takes_the_place_of_a_bundle_and_says_what_is_gone(digits_run, exported, copy, tmp_path):
    fewer = write_digits(tmp_path / "fewer", count=1)
    (fewer / "digit 3" / "broken.png").write_bytes(b"no image")
    (tmp_path / f".bundle.{MACHINE}{'0' * 10}" / "bundle").mkdir(parents=True)  # what a killed export left
    found = write_bundle(digits_run, exported, copy, fewer)
    assert (found.images, len(found.broken)) == (10, 1)
    assert "digit 3/broken.png" in found.broken[0]
    assert "30 images of the index that was there are not in the new one." in found.notes
    assert len(read_index(copy / "index.shadowmx")[1]) == 10
    assert names(tmp_path) == ["bundle", "fewer"]


@pytest.mark.parametrize("stage", ["calibrate", "take_place", "write_index"])
def test_what_fails_leaves_the_old_bundle_and_nothing_beside(
    digits_run, exported, images, copy, tmp_path, monkeypatch, stage
):
    def fail(*_, **__):
        raise RuntimeError("on purpose")

    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    monkeypatch.setattr(bundling, stage, fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        write_bundle(digits_run, exported, copy, images)
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == before
    assert names(tmp_path) == ["bundle"]


def test_a_rename_that_fails_brings_the_old_bundle_back(copy, tmp_path):
    with pytest.raises(FileNotFoundError):
        bundling.take_place(tmp_path / "nowhere", copy)
    assert names(tmp_path) == ["bundle"]
    assert (copy / "model.onnx").is_file()


def test_a_bundle_that_a_kill_left_aside_comes_back(copy, tmp_path):
    before = names(copy)
    aside = copy.rename(tmp_path / ".bundle.before")
    check_place(copy)
    assert names(tmp_path) == ["bundle"]
    assert names(copy) == before
    shutil.copytree(copy, aside)
    (aside / "model.onnx").unlink()  # another took its place, and a kill came while it was removed
    check_place(copy)
    assert names(tmp_path) == ["bundle"]
    assert names(copy) == before
    aside.mkdir()
    (aside / "holiday.jpg").touch()  # somebody else's
    check_place(copy)
    assert (aside / "holiday.jpg").exists()


def test_a_folder_with_other_things_is_refused_and_an_empty_one_is_not(copy, tmp_path):
    check_place(tmp_path / "new")
    check_place(copy)
    (copy / ".index.shadowmx.lock").touch()
    check_place(copy)
    (tmp_path / "empty").mkdir()
    check_place(tmp_path / "empty")
    (tmp_path / "empty" / "README.txt").write_text("of something else")
    with pytest.raises(Mistake, match="holds other things than a bundle"):
        check_place(tmp_path / "empty")
    (copy / "holiday.jpg").touch()
    with pytest.raises(Mistake, match=r"holds other things than a bundle \(it has holiday.jpg\); name another"):
        check_place(copy)
    with pytest.raises(Mistake, match="is a file"):
        check_place(copy / "model.onnx")


def test_images_none_of_which_can_be_read_are_refused(digits_run, exported, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"no image")
    with pytest.raises(Mistake, match="none of the 1 images can be read"):
        write_bundle(digits_run, exported, tmp_path / "new", tmp_path / "images")
    assert names(tmp_path) == ["images"]


def test_the_function_export_writes_a_bundle_too(digits_run, images, tmp_path, monkeypatch):
    monkeypatch.setattr(parity, "resident_bytes", lambda place, of_run: 5_000_000)
    monkeypatch.setattr(parity, "REPEATS", 3)
    place = {"bundle": tmp_path / "bundle", "gallery": images}
    found = serving.export(digits_run.folder, tmp_path / "out", int8=False, images=20, **place)
    assert (tmp_path / "bundle" / "model.onnx").read_bytes() == found.files["fp32"].read_bytes()
    assert len(read_index(tmp_path / "bundle" / "index.shadowmx")[1]) == 40
    with pytest.raises(Mistake, match="belong together"):
        serving.export(digits_run.folder, bundle=tmp_path / "other")
