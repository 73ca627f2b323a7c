"""Searching with images: each finds itself, batches do not matter, broken ones are refused or named."""

import pytest
from image_folders import FakeModel, indexed, write_folder, write_image

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.searching import search as searching
from shadowmetric.app.serving.searching.search import Answer, search
from shadowmetric.errors import BrokenImage, Mistake


@pytest.fixture
def photos(tmp_path):
    return write_folder(tmp_path / "photos")


@pytest.fixture
def gallery(tmp_path, photos):
    indexed(FakeModel(), photos, tmp_path / "x")
    return FileGallery(tmp_path / "x")


def test_every_image_finds_itself_first(photos, gallery):
    queries = sorted(photos.rglob("*.png"))
    answers = list(search(gallery, FakeModel(), queries, 3))
    assert [answer.query for answer in answers] == queries
    for answer in answers:
        assert len(answer.hits) == 3
        assert answer.hits[0].entry.path == str(answer.query.relative_to(photos))
        assert answer.hits[0].similarity == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("batch", [1, 5, 12, 50])
def test_batches_do_not_matter(photos, gallery, monkeypatch, batch):
    queries = sorted(photos.rglob("*.png"))
    wanted = list(search(gallery, FakeModel(), queries))
    monkeypatch.setattr(searching, "BATCH", batch)
    model = FakeModel()
    found = list(search(gallery, model, queries))
    assert [[hit.entry for hit in one.hits] for one in found] == [[hit.entry for hit in one.hits] for one in wanted]
    assert model.batches == -(-12 // batch)


def test_a_class_limits_what_is_found(photos, gallery):
    (answer,) = search(gallery, FakeModel(), [photos / "ant" / "0.png"], 9, label="cat")
    assert [hit.entry.label for hit in answer.hits] == ["cat"] * 4


def test_an_unknown_class_is_refused(photos, gallery):
    with pytest.raises(Mistake, match="no image has the class 'cats'; there are 3, such as cat"):
        list(search(gallery, FakeModel(), [photos / "ant" / "0.png"], label="cats"))


def test_a_broken_query_is_refused(photos, gallery, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"text")
    with pytest.raises(BrokenImage, match=r"bad\.png cannot be read as an image"):
        list(search(gallery, FakeModel(), [photos / "ant" / "0.png", tmp_path / "bad.png"]))


def test_broken_queries_are_named_if_that_is_asked_for(photos, gallery, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"text")
    good, broken = photos / "ant" / "0.png", []
    found = list(search(gallery, FakeModel(), [tmp_path / "none.png", good, tmp_path / "bad.png"], broken=broken))
    assert [answer.query for answer in found] == [good]
    for sentence, name in zip(broken, ("none.png", "bad.png"), strict=True):
        assert sentence.startswith(f"{tmp_path / name} ")  # a folder may have a space


def test_a_batch_of_broken_queries_is_no_batch(gallery, tmp_path):
    model, broken = FakeModel(), []
    assert list(search(gallery, model, [tmp_path / "none.png"] * 40, broken=broken)) == []
    assert (len(broken), model.batches) == (40, 0)
    assert list(search(gallery, model, [])) == []


def test_queries_of_any_size_and_color_are_squared(gallery, tmp_path):
    query = write_image(tmp_path / "wide.png", 5, 40, 23)
    (answer,) = search(gallery, FakeModel(), [query], 1)
    assert isinstance(answer, Answer)
    assert len(answer.hits) == 1
