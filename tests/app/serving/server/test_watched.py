"""An index that is replaced while it is searched."""

import os
import shutil

import pytest

from shadowmetric.app.serving.server import watched
from shadowmetric.app.serving.server.watched import IndexFile
from shadowmetric.runtime.entries import key_of


@pytest.fixture
def place(tmp_path, small_index):
    return shutil.copy(small_index, tmp_path / "served.shadowmx")


@pytest.fixture
def served(made, place):
    found = made.Asked(place, file=IndexFile(place), own=True)
    with found.client:
        yield found


def images_of(asked):
    return asked.client.get("/api/index").json()["images"]


def some_of(images, color):
    root, paths = images
    return root, [path for path in paths if path.startswith(color)]


def replace_with_fewer(made, place, images, **more):
    made.write_small_index(place, *some_of(images, "red"), **more)


def test_a_new_index_is_searched_without_a_restart(served, made, place, images, red, caplog):
    assert images_of(served) == 3 * made.EACH
    replace_with_fewer(made, place, images)
    served.service.watched.look()
    assert images_of(served) == made.EACH
    assert {hit["label"] for hit in served.search(red, k=100).json()["hits"]} == {"red"}
    assert served.client.get(f"/api/images/{key_of('blue/0.png')}").status_code == 404
    assert served.search(red, **{"class": "blue"}).status_code == 404
    assert "the index was replaced: 6 images" in caplog.text


def test_the_file_is_looked_at_while_the_server_runs(made, place, images, monkeypatch):
    monkeypatch.setattr(watched, "EVERY_SECONDS", 0.02)
    served = made.Asked(place, file=IndexFile(place))
    with served.client:
        replace_with_fewer(made, place, images)
        while served.service.watched.now.describe().images != made.EACH:
            pass


def test_an_error_that_nobody_foresaw_does_not_end_the_watching(served, made, place, images, caplog, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(type(served.service.watched.file), "open", lambda *given: 1 / 0)
        replace_with_fewer(made, place, images)
        served.service.watched.look()
    assert "is refused; a copy of the one before is searched on: division by zero" in caplog.text
    assert images_of(served) == 3 * made.EACH
    replace_with_fewer(made, place, images)
    served.service.watched.look()
    assert images_of(served) == made.EACH


@pytest.mark.parametrize("how", ["cut", "words", "gone", "other weights"])
def test_a_new_index_that_is_refused_leaves_the_old_one(served, made, place, images, caplog, how):
    if how == "cut":
        whole = place.read_bytes()
        place.unlink()
        place.write_bytes(whole[:-100])
    elif how == "words":
        os.replace(shutil.copy(__file__, f"{place}.new"), place)
    elif how == "gone":
        place.unlink()
    else:
        replace_with_fewer(made, place, images, model=made.Pixels("0" * 64))
    for _ in range(3):
        served.service.watched.look()
    assert images_of(served) == 3 * made.EACH
    assert caplog.text.count("is refused; a copy of the one before is searched on") == (how != "gone"), "said once"
    replace_with_fewer(made, place, images)
    served.service.watched.look()
    assert images_of(served) == made.EACH


@pytest.mark.parametrize("how", ["cut short", "overwritten", "emptied"])
def test_an_index_that_is_changed_in_place_is_searched_on(served, made, place, images, red, caplog, how):
    before = served.search(red, k=100).json()["hits"]
    if how == "cut short":
        os.truncate(place, 2000)
    elif how == "emptied":
        os.truncate(place, 0)
    else:
        with place.open("r+b") as file:  # as `cp` does
            file.write(bytes(place.stat().st_size))
    assert served.search(red, k=100).json()["hits"] == before
    served.service.watched.look()
    assert served.search(red, k=100).json()["hits"] == before
    assert "is refused; a copy of the one before is searched on" in caplog.text
    other = made.write_small_index(place.with_name("other"), *some_of(images, "red"))
    shutil.copyfile(other, place)
    served.service.watched.look()
    assert images_of(served) == made.EACH
    os.truncate(place, 0)  # the new one is a copy, too
    assert len(served.search(red, k=100).json()["hits"]) == made.EACH


def test_other_weights_bring_their_own_model(served, made, place, images, monkeypatch):
    other = made.Pixels("0" * 64)
    monkeypatch.setattr(watched, "model_of", lambda about, index, instead, threads: other)
    replace_with_fewer(made, place, images, model=other)
    served.service.watched.look()
    assert served.service.watched.now.model is other
    assert images_of(served) == made.EACH


def test_an_unchanged_file_is_not_opened_again(served, monkeypatch):
    monkeypatch.setattr(watched, "open_with_images", lambda place, images, own: 1 / 0)
    before = served.service.watched.now
    served.service.watched.look()
    assert served.service.watched.now is before
