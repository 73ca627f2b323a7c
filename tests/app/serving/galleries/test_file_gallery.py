"""Search in a file equals sorting all products, with ties by path; the rest of what a gallery answers."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_folders import FakeModel, contents_of, indexed, unit, write_folder

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.galleries.gallery import Gallery, open_gallery
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import key_of
from shadowmetric.runtime.index_file import read_index, write_index

ABOUT = FakeModel().about


def gallery_of(folder, rows, labels=None):
    file = folder / "x.shadowmx"
    write_index(file, replace(ABOUT, dim=rows.shape[1]), contents_of(rows, labels))
    return FileGallery(file)


def plain_loop(rows, query, k, allowed):
    """Return the row numbers of the k largest products, equal ones by number; products are exact in float64."""
    products = [(-float(np.dot(query.astype(float), rows[number].astype(float))), number) for number in allowed]
    return [(number, -negative) for negative, number in sorted(products)[:k]]


@st.composite
def searches(draw):
    """Rows of few small fractions, so that products are exact and many are equal."""
    count, dim = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    fractions = st.sampled_from([-0.5, -0.25, 0.0, 0.25, 0.5])
    row = st.lists(fractions, min_size=dim, max_size=dim)
    rows = np.array(draw(st.lists(row, min_size=count, max_size=count)), np.float16)
    queries = np.array(draw(st.lists(row, min_size=1, max_size=4)), np.float32)
    labels = np.array(draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count)), np.int32)
    return rows, queries, labels, draw(st.integers(1, 50))


@given(searches())
def test_the_nearest_are_those_of_a_plain_loop(tmp_path_factory, made):
    rows, queries, labels, k = made
    gallery = gallery_of(tmp_path_factory.mktemp("gallery"), rows, labels)
    for label in (None, *sorted({"xyz"[number] for number in labels if number >= 0})):
        allowed = [n for n in range(len(rows)) if label is None or labels[n] == "xyz".index(label)]
        found = gallery.nearest(queries, k, label)
        assert len(found) == len(queries)
        for query, hits in zip(queries, found, strict=True):
            wanted = plain_loop(rows, query, k, allowed)
            assert [hit.entry.path for hit in hits] == [f"{number:05}.png" for number, _ in wanted]
            assert [hit.similarity for hit in hits] == [min(value, 1.0) for _, value in wanted]
            assert all(label is None or hit.entry.label == label for hit in hits)


def test_many_rows_over_several_blocks_equal_numpy(tmp_path):
    random = np.random.default_rng(0)
    rows = unit(random.normal(size=(40_000, 8)))
    rows[20_000:20_100] = rows[100:200]  # equal rows in other blocks
    gallery, queries = gallery_of(tmp_path, rows), rows[100:110].astype(np.float32)
    products = queries.astype(float) @ rows.astype(float).T
    for query, hits in zip(products, gallery.nearest(queries, 25), strict=True):
        order = np.argsort(-query, kind="stable")[:25]
        assert np.allclose([hit.similarity for hit in hits], np.minimum(query[order], 1), atol=1e-6)
        assert [hit.entry.path for hit in hits[:2]] == [f"{number:05}.png" for number in order[:2]]


def test_similarities_are_never_above_one(tmp_path):
    rows = np.full((3, 4), 0.5, np.float16)
    rows[1] += np.float16(0.001)  # rounding makes rows a little longer than 1
    hits = gallery_of(tmp_path, rows).nearest(np.full((1, 4), 0.5, np.float32), 3)[0]
    assert [hit.similarity for hit in hits][:1] == [1.0]
    assert all(hit.similarity <= 1 for hit in hits)


def test_one_row_is_found(tmp_path):
    gallery = gallery_of(tmp_path, unit([[1, 2, 3]]))
    assert [len(hits) for hits in gallery.nearest(np.eye(3, dtype=np.float32), 10)] == [1, 1, 1]


@pytest.mark.parametrize("k", [0, -1])
def test_no_neighbors_are_refused(tmp_path, k):
    with pytest.raises(Mistake, match="ask for 1 or more"):
        gallery_of(tmp_path, unit(np.eye(3))).nearest(np.eye(3, dtype=np.float32), k)


@pytest.mark.parametrize(
    "rows", [np.zeros((1, 4), np.float32), np.zeros(3, np.float32), np.zeros((1, 1, 3), np.float32)]
)
def test_queries_of_another_length_are_refused(tmp_path, rows):
    with pytest.raises(ValueError, match=r"give \(queries, 3\) as the index has"):
        gallery_of(tmp_path, unit(np.eye(3))).nearest(rows, 1)


def test_no_queries_have_no_answers(tmp_path):
    assert gallery_of(tmp_path, unit(np.eye(3))).nearest(np.zeros((0, 3), np.float32), 1) == []


def test_an_unknown_class_suggests_near_ones(tmp_path):
    indexed(FakeModel(), write_folder(tmp_path / "p", ("sparrow", "swallow", "zebra", "ant")), tmp_path / "x")
    gallery = FileGallery(tmp_path / "x")
    with pytest.raises(Mistake, match=r"no image has the class 'sparow'; there are 4, such as sparrow"):
        gallery.nearest(np.zeros((1, ABOUT.dim), np.float32), 1, "sparow")
    with pytest.raises(Mistake, match="there are 4, such as ant, sparrow, swallow"):
        gallery.nearest(np.zeros((1, ABOUT.dim), np.float32), 1, "%%%")
    with pytest.raises(Mistake, match="no image has the class ''"):
        gallery.nearest(np.zeros((1, ABOUT.dim), np.float32), 1, "")


def test_a_gallery_without_classes_says_so(tmp_path):
    write_index(tmp_path / "x", replace(ABOUT, dim=3), contents_of(unit(np.eye(3)), classes=()))
    gallery = FileGallery(tmp_path / "x")
    assert gallery.classes() == {}
    with pytest.raises(Mistake, match="no image has the class 'a'; there are 0"):
        gallery.nearest(np.eye(3, dtype=np.float32), 1, "a")


def test_a_class_without_images_has_no_neighbors(tmp_path):
    gallery = gallery_of(tmp_path, unit(np.eye(3)), np.zeros(3, np.int32))
    assert gallery.classes() == {"x": 3, "y": 0, "z": 0}
    assert gallery.nearest(np.eye(3, dtype=np.float32), 2, "y") == [[], [], []]


def test_an_index_without_images_has_no_neighbors(tmp_path):
    assert gallery_of(tmp_path, np.zeros((0, 3), np.float16)).nearest(np.eye(3, dtype=np.float32), 2) == [[], [], []]


def test_keys_lead_to_images_and_rows(tmp_path):
    gallery = gallery_of(tmp_path, unit(np.random.default_rng(0).normal(size=(9, 3))), np.arange(9) % 4 - 1)
    for number in range(9):
        key = key_of(f"{number:05}.png")
        entry, row = gallery.entry(key), gallery.row(key)
        assert entry is not None
        assert row is not None
        assert entry == gallery.contents.entry(number)
        assert entry.label == (None, "x", "y", "z")[number % 4]
        assert row.dtype == np.float32
        assert np.array_equal(row, gallery.contents.rows[number].astype(np.float32))
    assert gallery.entry("0" * 32) is None
    assert gallery.row("../../etc/passwd") is None
    assert len(gallery) == 9
    assert gallery.classes() == {"x": 2, "y": 2, "z": 2}


def test_classes_of_removed_images_are_gone(tmp_path):
    photos, out = write_folder(tmp_path / "p"), tmp_path / "x"
    indexed(FakeModel(), photos, out)
    assert FileGallery(out).classes() == {"ant": 4, "bee": 4, "cat": 4}
    for file in (photos / "bee").iterdir():
        file.unlink()
    indexed(FakeModel(), photos, out)
    assert FileGallery(out).classes() == {"ant": 4, "cat": 4}


def test_several_threads_search_at_once(tmp_path):
    rows = unit(np.random.default_rng(0).normal(size=(500, 6)))
    gallery, queries = gallery_of(tmp_path, rows, np.arange(500) % 3), rows[:40].astype(np.float32)
    wanted = [gallery.nearest(queries[n : n + 1], 7, label) for n in range(40) for label in (None, "x")]
    found, wrong = {}, []

    def work(start):
        try:
            for place in range(start, 80, 4):
                row = queries[place // 2 : place // 2 + 1]
                found[place] = gallery.nearest(row, 7, (None, "x")[place % 2])
                assert gallery.entry(key_of("00007.png")) is not None
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [found[place] for place in range(80)] == wanted


def test_places_choose_the_gallery(tmp_path):
    indexed(FakeModel(), write_folder(tmp_path / "p"), tmp_path / "x.anything")
    gallery = open_gallery(str(tmp_path / "x.anything"))
    assert isinstance(gallery, FileGallery)
    assert isinstance(gallery, Gallery)
    gallery.close()
    for place in ("http://host/x", "mysql://host/x", "file:///x"):
        with pytest.raises(Mistake, match="is no place of an index; name a file, or an address"):
            open_gallery(place)
    with pytest.raises(Mistake, match="is not there"):
        open_gallery(str(tmp_path / "none"))


def test_searching_does_not_change_the_file(tmp_path):
    indexed(FakeModel(), write_folder(tmp_path / "p"), tmp_path / "x")
    before, gallery = (tmp_path / "x").read_bytes(), FileGallery(tmp_path / "x")
    gallery.nearest(np.asarray(gallery.contents.rows, np.float32), 12)
    assert (tmp_path / "x").read_bytes() == before
    assert len(read_index(tmp_path / "x")[1]) == 12
