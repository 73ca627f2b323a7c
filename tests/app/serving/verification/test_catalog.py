"""Thresholds for what is not in the catalog: against a plain loop, kept in the run, and true of real images."""

import json

import numpy as np
import pytest
import torch
from exported_runs import quick_run, write_digits
from image_folders import FakeModel, ran, write_run

from shadowmetric.app import serving
from shadowmetric.app.serving.model import RunModel
from shadowmetric.app.serving.verification import catalog
from shadowmetric.app.serving.verification.calibration import EmbeddedTest
from shadowmetric.app.serving.verification.catalog import FILE, catalog_threshold, threshold_of
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake
from shadowmetric.evaluation.open_set import nearest_cosines
from shadowmetric.runtime.index_file import read_index


def embedded(classes=6, count=7, spread=0.3, seed=0):
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), count)
    rows = np.where(random.random((len(labels), 16)) < spread, 1, random.choice([-1, 1], (classes, 16))[labels])
    return EmbeddedTest(torch.from_numpy(rows).float(), torch.from_numpy(labels), "folder:some/photos")


def table_by_loops(test):
    """Return for a threshold what its row must say: odd classes check, even ones choose."""
    rows = torch.nn.functional.normalize(test.rows.double()).tolist()
    labels, facts = test.labels.tolist(), []
    for i, a in enumerate(rows):
        values = [(sum(p * q for p, q in zip(a, x, strict=True)), labels[j]) for j, x in enumerate(rows) if j != i]
        facts.append(
            (labels[i] % 2 == 0, max(v for v, label in values if label != labels[i]), max(values))
        )  # (chooses, nearest of others, (nearest, its class))

    def row(threshold):
        absent = [other for chooses, other, _ in facts if chooses]
        checked = [other for chooses, other, _ in facts if not chooses]
        present = [(near, own == labels[i]) for i, (chooses, _, (near, own)) in enumerate(facts) if not chooses]
        return (
            np.mean([value >= threshold for value in absent]),
            np.mean([value >= threshold for value in checked]),
            np.mean([value < threshold for value, _ in present]),
            np.mean([value >= threshold and own for value, own in present]),
        )

    return row


@pytest.mark.parametrize("seed", range(3))
def test_every_row_says_what_a_loop_counts(seed):
    test = embedded(seed=seed)
    table, row = threshold_of(test, nearest_cosines(test.rows, test.labels)), table_by_loops(test)
    assert len(table.thresholds) >= 4
    for facts in zip(
        table.thresholds, table.passed, table.unknown_accepts, table.known_rejects, table.right, strict=True
    ):
        assert facts[1:] == pytest.approx(row(facts[0]))
    assert table.passed[-1] == 1.0
    chooses = test.labels % 2 == 0
    rows = torch.nn.functional.normalize(test.rows.double())
    nearest = (rows @ rows.T).fill_diagonal_(-1).amax(1)[chooses]
    gaps = [
        abs(share - float((nearest < one).double().mean()))
        for one, share in zip(table.thresholds, table.passed, strict=True)
    ]
    assert table.balanced == gaps.index(min(gaps))
    assert table.images == "42 test images of 6 classes of folder:photos"


def test_it_is_measured_once_and_kept_until_the_weights_change(tmp_path, monkeypatch):
    run = Run(write_run(tmp_path / "run"))
    model = RunModel(run.folder)
    first = catalog_threshold(run, model)
    monkeypatch.setattr(catalog, "embed_test_images", lambda *_: pytest.fail("measured again"))
    assert catalog_threshold(run, model) == first
    with pytest.raises(pytest.fail.Exception):
        catalog_threshold(run, FakeModel())
    kept = json.loads((run.folder / FILE).read_text())
    kept["threshold"]["thresholds"][0] += 0.01
    (run.folder / FILE).write_text(json.dumps(kept))
    with pytest.raises(Mistake, match=r"catalog.json cannot be used \(it is not as it was written\); remove it"):
        catalog_threshold(run, model)


@pytest.mark.parametrize(("labels", "why"), [([0] * 6, "one class"), ([0, 0, 0, 1, 2, 2], "too few classes")])
def test_too_little_to_measure_is_a_sentence(tmp_path, monkeypatch, labels, why):
    test = EmbeddedTest(torch.randn(6, 4), torch.tensor(labels), "x")
    monkeypatch.setattr(catalog, "embed_test_images", lambda *_: test)
    notes = []
    assert catalog_threshold(Run(tmp_path), FakeModel(), notes=notes) is None
    assert why in notes[0]


def test_digits_that_are_not_in_the_index_are_told_from_those_that_are(tmp_path):
    run = quick_run(tmp_path / "run", epochs=4, batches=30)
    photos = write_digits(tmp_path / "photos", count=12)
    (tmp_path / "absent").mkdir()
    queries = {True: [], False: []}
    for folder in sorted(photos.iterdir()):
        if folder.name in ("digit 0", "digit 6"):
            folder.rename(tmp_path / "absent" / folder.name)
            queries[False] += (tmp_path / "absent" / folder.name).glob("*.png")
        else:
            for file in sorted(folder.glob("*.png"))[8:]:
                queries[True].append(file.rename(tmp_path / f"{folder.name}-{file.name}"))
    index = tmp_path / "x.shadowmx"
    serving.index(run.folder, photos, index)
    accepted = {
        known: np.mean(
            [answer.decision.in_catalog for answer in serving.search(index, some, 3, unknown_accept_rate=0.1)]
        )
        for known, some in queries.items()
    }
    assert accepted[False] < 0.3  # measured: 0.00 and 0.81
    assert accepted[True] > 0.6
    beside = {
        known: np.mean(
            [serving.verify_in_folder(run.folder, file, photos, 0.1).decision.in_catalog for file in sorted(some)[::3]]
        )
        for known, some in queries.items()
    }
    assert beside[False] < 0.3
    assert beside[True] > 0.6
    (near,) = serving.search(index, [queries[True][0]], 10)
    answer = serving.verify_in_folder(run.folder, queries[True][0], photos)
    assert answer.classes[0].label == near.classes[0].label  # an index holds float16
    assert answer.images == sum(1 for _ in photos.rglob("*.png"))
    answers = serving.search(index, queries[True], 1)
    assert len(answers[0].hits) == 1
    named = [answer.classes[0].label == answer.query.name.split("-")[0] for answer in answers]
    assert np.mean(named) > 0.75


def test_the_index_has_the_threshold_and_search_says_what_it_decides(tmp_path, capsys):
    run, photos = write_run(tmp_path / "run"), write_digits(tmp_path / "photos")
    index = str(tmp_path / "x.shadowmx")
    assert "catalog" not in ran(capsys, "index", str(run), str(photos), "--out", index).out
    assert read_index(tmp_path / "x.shadowmx")[0].catalog is not None
    image = str(photos / "digit 3" / "0.png")
    everything = ("--unknown-accept-rate", "1")  # the network was never trained
    answer = json.loads(ran(capsys, "search", index, image, "--json", *everything).out)[0]
    assert answer["in_catalog"] is True
    assert answer["classes"][0]["label"] == "digit 3"
    assert "digit 3: " in ran(capsys, "search", index, image, *everything).out
    said = ran(capsys, "search", index, image, "--unknown-accept-rate", "0", code=2)
    assert "can show 0.00" in said.err
    ran(capsys, "index", str(run), str(photos), "--out", index, "--no-threshold")
    assert read_index(tmp_path / "x.shadowmx")[0].catalog is None
    said = ran(capsys, "search", index, image, "--unknown-accept-rate", "0.1", code=2)
    assert "the index has no threshold" in said.err


def test_a_run_without_its_images_makes_an_index_without_a_threshold(tmp_path, monkeypatch):
    run, photos = write_run(tmp_path / "run"), write_digits(tmp_path / "photos")
    monkeypatch.setattr(
        catalog, "embed_test_images", lambda *_: (_ for _ in ()).throw(Mistake("the images are gone; bring them."))
    )
    made = serving.index(run, photos, tmp_path / "x.shadowmx")
    assert made.notes == ["No image will be said not to be in the catalog: the images are gone; bring them."]
    assert serving.search(tmp_path / "x.shadowmx", [photos / "digit 3" / "0.png"])[0].decision is None
