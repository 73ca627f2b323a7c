"""The parity report's figures, each against a plain computation."""

import numpy as np
import pytest
import torch
from exported_runs import IMAGES

from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.data.dataset import Split
from shadowmetric.app.serving.exporting import parity
from shadowmetric.app.serving.exporting.parity import cosine_errors, median_seconds, torch_threads
from shadowmetric.app.serving.exporting.squares import some_of_each
from shadowmetric.app.serving.model import RunModel
from shadowmetric.errors import Stopped
from shadowmetric.runtime.model import OnnxModel

pytest_plugins = ["exported_fixtures"]


@pytest.fixture(scope="module")
def compared():
    split = some_of_each(open_dataset("digits").test, IMAGES)
    pixels = np.stack([split.images.read(number).numpy() for number in range(len(split))])
    return pixels, split.labels


def found_first(rows, labels):
    cosine = rows @ rows.T
    np.fill_diagonal(cosine, -2)
    return float((labels[cosine.argmax(1)] == labels).mean())


def test_recall_and_cosine_errors_are_those_of_the_rows(digits_run, exported, compared):
    pixels, labels = compared
    assert exported.images == len(labels) == IMAGES
    torchs = RunModel(digits_run.folder).embed(pixels)
    assert exported.of("torch").recall_at_1 == pytest.approx(found_first(torchs, labels))
    for name, file in exported.files.items():
        rows, one = OnnxModel(file).embed(pixels), exported.of(name)
        error = 1 - (rows.astype(float) * torchs).sum(1)
        assert one.recall_at_1 == pytest.approx(found_first(rows, labels))
        assert one.change == pytest.approx(one.recall_at_1 - exported.of("torch").recall_at_1)
        assert one.largest_cosine_error == pytest.approx(error.max(), abs=1e-6)
        assert one.mean_cosine_error == pytest.approx(error.mean(), abs=1e-6)
        assert one.bytes == file.stat().st_size
    assert exported.of("fp32").largest_cosine_error < 1e-9 < exported.of("int8").largest_cosine_error


def test_all_test_images_give_the_runs_own_figure(digits_run, monkeypatch):
    monkeypatch.setattr(parity, "resident_bytes", lambda place, of_run: 1)
    monkeypatch.setattr(parity, "REPEATS", 1)
    split, more = open_dataset("digits").test, {"skip_broken": False, "tell": lambda *_: None}
    ((measured,), count) = parity.measure_parity(digits_run.folder, digits_run.best_file, {}, split, **more)
    assert (count, measured.recall_at_1) == (602, pytest.approx(digits_run.scores()["recall_at_1"]))


def test_a_gallery_of_its_own_is_what_queries_are_searched_in(digits_run, monkeypatch):
    monkeypatch.setattr(parity, "resident_bytes", lambda place, of_run: 1)
    monkeypatch.setattr(parity, "REPEATS", 1)
    whole, more = open_dataset("digits").test, {"skip_broken": False, "tell": lambda *_: None}
    query, gallery = whole.take(np.arange(40)), whole.take(np.arange(300, 340))
    folder, weights = digits_run.folder, digits_run.best_file
    ((measured,), count) = parity.measure_parity(folder, weights, {}, query, gallery, **more)
    pixels = [np.stack([part.images.read(number).numpy() for number in range(40)]) for part in (query, gallery)]
    rows, others = (RunModel(folder).embed(some) for some in pixels)
    right = gallery.labels[(rows @ others.T).argmax(1)] == query.labels
    known = np.isin(query.labels, gallery.labels)
    assert (count, measured.recall_at_1) == (40, pytest.approx(right[known].mean()))


def test_cosine_errors_do_not_depend_on_lengths():
    rows = np.array([[1, 0], [3, 4], [1, 0]], np.float32)
    others = np.array([[5, 0], [4, 3], [-2, 0]], np.float32)
    np.testing.assert_allclose(cosine_errors(rows, others), [0, 1 - 24 / 25, 2])


def test_speed_is_measured_for_one_and_two_threads(digits_run, exported, compared):
    for one in exported.measured:
        assert set(one.milliseconds) == {"1", "2"}
        assert min(one.images_per_second, *one.milliseconds.values()) > 0
    model, sizes = OnnxModel(exported.files["fp32"]), []
    embed = model.embed
    model.embed = lambda squares: sizes.append(len(squares)) or embed(squares)
    median_seconds(model, compared[0][:4], 7)
    assert sizes == [4] * (7 + parity.WARM_UP)


def test_torch_gets_its_threads_back():
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError), torch_threads(before + 1):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == before


def test_images_that_cannot_be_read_are_left_out_if_the_run_left_them_out(tmp_path, digits_run):
    from PIL import Image

    from shadowmetric.app.data.images import FileImages
    from shadowmetric.errors import BrokenImage

    for number in range(3):
        Image.fromarray(np.full((8, 8), 80 * number, np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "1.png").write_bytes(b"no image")
    split = Split(FileImages(tmp_path, [f"{number}.png" for number in range(3)], 1), np.array([4, 5, 6]))
    models = {"torch": RunModel(digits_run.folder)}
    rows, labels, sample = parity.rows_of(models, split, True, lambda *_: None)
    assert (len(rows["torch"]), labels.tolist(), len(sample)) == (2, [4, 6], 2)
    with pytest.raises(BrokenImage, match=r"1\.png"):
        parity.rows_of(models, split, False, lambda *_: None)
    with pytest.raises(Stopped, match="none of the test images"):
        parity.rows_of(models, split.take(np.array([1])), True, lambda *_: None)
