"""What is shown of a run: held to plain loops over its embeddings, kept, and computed again when it must be."""

import base64
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from changed_runs import rewrite
from PIL import Image
from report_runs import FEW, NASTY, quick_settings, write_images

from shadowmetric.app.data.augmentation import Augmentation
from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.app.data.thumbnails import sheet_of, thumbnail
from shadowmetric.app.report.showcase import showcase as showing
from shadowmetric.app.report.showcase.augmented import augmented_of
from shadowmetric.app.report.showcase.confusion import confusion_of
from shadowmetric.app.report.showcase.gallery import KINDS, choose_queries
from shadowmetric.app.report.showcase.showcase import FILE, Album, Stages, make_showcase, showcase_of
from shadowmetric.app.report.showcase.tsne import points_of, sample
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.preparation import Parts, parts_of
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import resolve_settings
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.app.training.scoring import embed
from shadowmetric.errors import Mistake
from shadowmetric.evaluation.classification import class_report


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on the same images."""
    folder = tmp_path_factory.mktemp("showcase")
    data = f"npz:{write_images(folder / 'data.npz')}"
    for loss in ("shadow", "triplet"):
        train(quick_settings(data, loss=loss), folder / loss)
    return Run(folder / "shadow"), Run(folder / "triplet")


@pytest.fixture(scope="module")
def shown(runs):
    return [showcase_of(run, FEW) for run in runs]


def opened(address):
    return np.array(Image.open(io.BytesIO(base64.b64decode(address.partition("base64,")[2]))).convert("RGB"))


def test_neighbors_are_those_of_a_plain_search(runs, shown):
    parts = parts_of(runs[0])
    test = parts.dataset.test
    rows = embed(load_embedder(runs[0]), test, parts.shape).double()
    unit = torch.nn.functional.normalize(rows)
    assert len(shown[0].gallery) == 3 * FEW.queries
    for query in shown[0].gallery:
        similar = unit @ unit[query.number]
        similar[query.number] = -2.0
        best = similar.sort(descending=True, stable=True)
        labels = test.labels[best.indices.numpy()]
        assert [one.similarity for one in query.neighbors] == pytest.approx(best.values[:8].tolist(), abs=2e-4)
        assert [one.label for one in query.neighbors] == [class_name(parts, label) for label in labels[:8]]
        hits = labels[:-1] == test.labels[query.number]
        assert [one.right for one in query.neighbors] == hits[:8].tolist()
        assert query.first_right == int(np.argmax(hits)) + 1
        relevant = int(hits.sum())
        precise = [hits[: k + 1].mean() for k in range(relevant) if hits[k]]
        assert query.map_at_r == pytest.approx(sum(precise) / relevant, abs=1e-4)


def class_name(parts, label):
    return parts.dataset.classes[int(label)]


def test_images_are_those_of_the_test_split(runs, shown):
    test = parts_of(runs[0]).dataset.test
    query = shown[0].gallery[0]
    pixels = test.images.read(query.number).numpy().transpose(1, 2, 0)
    assert np.array_equal(opened(query.image), pixels)  # tiny ones lose nothing
    sheet, points = shown[0].sheet, shown[0].points
    whole = opened(sheet.image)
    for place in (0, 7, len(points.numbers) - 1):
        top, left = place // sheet.columns * sheet.side, place % sheet.columns * sheet.side
        tile = whole[top : top + sheet.side, left : left + sheet.side]
        assert np.array_equal(tile, test.images.read(points.numbers[place]).numpy().transpose(1, 2, 0))


def test_eight_images_stand_above_what_training_makes_of_them(runs, shown):
    parts = parts_of(runs[0])
    train, sheet = parts.train.images, shown[0].augmented
    assert (sheet.columns, sheet.rows, sheet.side) == (8, 2, 12)
    whole = opened(sheet.image)
    numbers = np.linspace(0, len(train) - 1, 8).astype(int)
    images = torch.stack([train.read(int(number)) for number in numbers])
    changed = Augmentation("photo", mirror=True)(images, parts.shape, parts.settings.seed)
    assert (changed != images).flatten(1).any(1).all()
    for row, squares in enumerate((images, changed)):
        for column, square in enumerate(squares):
            tile = whole[row * 12 : row * 12 + 12, column * 12 : column * 12 + 12]
            assert np.array_equal(tile, square.numpy().transpose(1, 2, 0))


def test_where_training_changes_nothing_there_is_no_such_sheet(runs):
    parts = parts_of(runs[0])
    assert augmented_of(replace(parts, settings=replace(parts.settings, augment="none")), 64) is None
    few = replace(parts, train=parts.train.take(np.arange(3)))
    assert augmented_of(few, 64).columns == 3


def test_every_run_of_a_dataset_shows_the_same_points_and_random_queries(shown):
    first, second = shown
    assert first.points.numbers == second.points.numbers
    assert (first.points.x, first.points.y) != (second.points.x, second.points.y)
    random = [[query.number for query in one.gallery if query.kind == "random"] for one in shown]
    assert random[0] == random[1]
    assert (first.points.perplexity, first.points.seed, first.points.of) == (10, 0, 32)


def test_the_confusion_is_that_of_the_scores(runs, shown):
    found, scores = shown[0].confusion, runs[0].scores()
    assert found.accuracy == pytest.approx(scores["accuracy"])
    assert sum(map(sum, found.counts)) == found.queries == 32
    assert sum(found.counts[i][i] for i in range(len(NASTY))) / 32 == pytest.approx(scores["accuracy"])
    assert found.voters == "training images"
    assert set(found.classes) == set(NASTY)


def test_a_second_look_computes_nothing(runs, shown, monkeypatch):
    def never(*_, **__):
        raise AssertionError("embedded again")

    monkeypatch.setattr(showing, "embed", never)
    assert showcase_of(runs[0], FEW) == shown[0]
    with pytest.raises(AssertionError, match="embedded again"):
        showcase_of(runs[0], replace(FEW, queries=2))


@pytest.mark.parametrize("change", ["weights", "settings", "cut short", "no json"])
def test_it_is_computed_again_when_something_changed(runs, shown, monkeypatch, tmp_path, change):
    import shutil

    shutil.copytree(runs[0].folder, tmp_path / "run")
    run = Run(tmp_path / "run")
    assert showcase_of(run, FEW) == shown[0]
    if change == "weights":
        rewrite(run, run.best_file, runs[1].best_file.read_bytes())
    elif change == "settings":
        text = run.settings_file.read_text()
        assert "seed: 0" in text
        rewrite(run, run.settings_file, text.replace("seed: 0", "seed: 1"))
    else:
        file = run.folder / FILE
        file.write_text(file.read_text()[:900] if change == "cut short" else '{"key": 3}')
    calls = []
    monkeypatch.setattr(showing, "embed", lambda *args, **more: calls.append(1) or embed(*args, **more))
    found = showcase_of(run, FEW)
    assert calls
    assert (found.gallery == shown[0].gallery) == (change != "weights")
    assert json.loads((run.folder / FILE).read_text())["key"]["choices"]["queries"] == 3


def test_runs_of_one_dataset_read_its_images_once(runs, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(showing, "parts_of", lambda run, report: calls.append(run) or parts_of(run, report=report))
    album, stages = Album(), []
    for run in runs:
        showcase_of(run, replace(FEW, points=20), album=album, tell=lambda stage, share: stages.append((stage, share)))
    assert len(calls) == 1
    shares = [share for _, share in stages]
    assert {"reading", "embedding", "neighbors", "t-SNE", "images"} == {stage for stage, _ in stages}
    assert all(0 <= share <= 1 for share in shares)


def test_without_weights_there_is_a_sentence(runs, tmp_path):
    run = Run(tmp_path / "new")
    run.begin(runs[0].settings())
    with pytest.raises(Mistake, match=r"has no best\.safetensors yet"):
        showcase_of(run, FEW)


def test_queries_are_chosen_by_value_then_place_then_lot():
    values = np.array([0.5, 1.0, np.nan, 0.0, 1.0, 0.0, 0.5])
    places = np.array([1.0, 1.0, np.nan, 0.5, 1.0, 0.2, 0.1])
    found = choose_queries(values, places, 3, seed=0)
    assert tuple(found) == KINDS
    assert found["worst"] == [5, 3, 6]
    assert set(found["best"][:2]) == {1, 4}
    assert found["best"][2] == 0
    assert 2 not in {number for numbers in found.values() for number in numbers}
    assert len({tuple(choose_queries(values, places, 2, seed=seed)["best"]) for seed in range(20)}) == 2  # ties by lot


def test_the_classes_with_most_errors_are_shown_and_the_rest_is_counted():
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 30, 2000))
    wrong = torch.from_numpy(rng.random(2000)) < labels / 60
    voted = torch.where(wrong, torch.from_numpy(rng.integers(0, 30, 2000)), labels)
    found = confusion_of(class_report(labels, voted), [f"class {i}" for i in range(30)], 5, 5, "images")
    pairs = list(zip(labels.tolist(), voted.tolist(), strict=True))
    errors = {c: sum((t == c) != (v == c) for t, v in pairs) for c in range(30)}
    most = sorted(sorted(errors, key=lambda c: (-errors[c], c))[:5])
    assert found.classes == [f"class {c}" for c in most]
    for place, true in enumerate(most):
        row = [sum((t, v) == (true, other) for t, v in pairs) for other in most]
        assert found.counts[place] == [*row, sum(t == true for t, _ in pairs) - sum(row)]
    assert (found.of, found.queries) == (30, 2000)


def test_points_are_a_fixed_draw_and_the_same_plane_each_time():
    rows = np.random.default_rng(0).normal(size=(50, 6))
    labels = np.arange(50) % 5
    numbers = sample(50, 30, 0)
    assert numbers.tolist() == sorted(set(numbers.tolist()))
    assert numbers.tolist() != sample(50, 30, 1).tolist()
    first, again = (points_of(rows, labels, [True] * 50, numbers, 5.0, 0) for _ in range(2))
    assert first == again
    assert first.labels == labels[numbers].tolist()
    assert np.isfinite(first.x).all()


@pytest.mark.parametrize("rows", [np.ones((40, 4)), np.random.default_rng(0).normal(size=(6, 4))])
def test_there_is_no_plane_of_a_point_or_of_very_few(rows):
    assert points_of(rows, np.zeros(len(rows), int), [True] * len(rows), np.arange(len(rows)), 5.0, 0) is None


def test_large_images_are_shrunk_and_wide_ones_keep_their_shape():
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 100, 200), np.uint8))
    images = ArrayImages(pixels)
    assert opened(thumbnail(images, 0, 64)).shape == (32, 64, 3)
    sheet = sheet_of(images, [0, 1, 0], 32)
    assert (sheet.side, sheet.columns, sheet.rows) == (32, 2, 2)
    assert opened(sheet.image).shape == (64, 64, 3)


def test_a_dataset_with_a_gallery_is_searched_there():
    rng = np.random.default_rng(0)
    rows = {
        name: torch.from_numpy(rng.normal(size=(count, 5))).float() for name, count in (("test", 12), ("gallery", 20))
    }

    def split(count):
        pixels = torch.from_numpy(rng.integers(0, 256, (count, 1, 8, 8), np.uint8))
        return Split(ArrayImages(pixels), np.arange(count, dtype=np.int64) % 3)

    dataset = Dataset("shop", ZERO_SHOT, split(6), split(12), ("a", "b", "c"), gallery=split(20))
    settings = resolve_settings(quick_settings("digits"), size=8, resize=8, channels=1)
    parts = Parts(dataset, dataset.train, None, Preprocessing(8, 8, 1), settings, ())
    found = make_showcase(rows, parts, replace(FEW, points=12), Stages(None))
    unit = {name: torch.nn.functional.normalize(value.double()) for name, value in rows.items()}
    for query in found.gallery:
        best = (unit["gallery"] @ unit["test"][query.number]).sort(descending=True)
        assert [one.label for one in query.neighbors] == ["abc"[int(row) % 3] for row in best.indices[:8]]
    nearest = (unit["test"] @ unit["gallery"].T).argmax(1).numpy()
    assert found.points.right == (nearest % 3 == np.arange(12) % 3).tolist()
    assert found.confusion.voters == "gallery images"
