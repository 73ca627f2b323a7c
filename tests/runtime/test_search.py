"""Search by numpy: the same as the gallery's by torch, and as plain sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.runtime import search as searching
from shadowmetric.runtime.entries import About
from shadowmetric.runtime.errors import Mistake
from shadowmetric.runtime.images import Shape
from shadowmetric.runtime.index_file import Contents, read_index, write_index
from shadowmetric.runtime.search import nearest

CLASSES = ("ape", "bee", "cat")


def contents_of(rows, labels=None):
    """Return an index; numbers are eighths, so that products are exact and equal ones are really equal."""
    rows = np.asarray(rows, np.float16)
    labels = np.arange(len(rows)) % 4 - 1 if labels is None else np.asarray(labels)
    paths = [f"{number:04}.png" for number in range(len(rows))]
    return Contents(rows, labels.astype(np.int32), np.zeros((len(rows), 32), np.uint8), paths, CLASSES)


def plain(contents, rows, k, label=None):
    """Sort everything."""
    found = []
    for row in rows:
        cosine = contents.rows.astype(np.float32) @ row
        some = [n for n in range(len(contents)) if label is None or contents.entry(n).label == label]
        best = sorted(some, key=lambda n: (-cosine[n], n))[:k]
        found.append([(contents.paths[n], min(float(cosine[n]), 1.0)) for n in best])
    return found


def short(found):
    return [[(hit.entry.path, hit.similarity) for hit in hits] for hits in found]


eighths = st.integers(-8, 8).map(lambda number: number / 8)


@st.composite
def searches(draw):
    dim = draw(st.integers(1, 5))
    row = st.lists(eighths, min_size=dim, max_size=dim)
    rows = draw(st.lists(row, min_size=1, max_size=30))
    rows += [rows[number] for number in draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))]  # duplicates
    queries = np.array(draw(st.lists(row, min_size=1, max_size=4)), np.float32)
    return np.array(rows), queries, draw(st.integers(1, 60)), draw(st.sampled_from([None, *CLASSES]))


@given(searches(), st.integers(1, 40))
def test_it_equals_the_gallery_and_plain_sorting_for_any_block(tmp_path_factory, asked, block):
    rows, queries, k, label = asked
    contents = contents_of(rows)
    file = tmp_path_factory.mktemp("index") / "a.shadowmx"
    write_index(file, About(rows.shape[1], "f", Shape(8, 8, 1), (), ""), contents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "BLOCK_NUMBERS", block * rows.shape[1])
        patch.setattr(searching, "QUERIES", 2)
        ours = nearest(read_index(file)[1], queries, k, label)
    assert short(ours) == plain(contents, queries, k, label)
    if label is None or contents.classes.index(label) in contents.labels:
        assert ours == FileGallery(file).nearest(queries, k, label)


def test_equal_rows_come_in_the_order_of_the_index_across_blocks(monkeypatch):
    monkeypatch.setattr(searching, "BLOCK_NUMBERS", 2)
    contents = contents_of(np.ones((9, 1)))
    [hits] = nearest(contents, np.ones((1, 1), np.float32), 4)
    assert [hit.entry.path for hit in hits] == ["0000.png", "0001.png", "0002.png", "0003.png"]


def test_an_empty_index_has_nothing_and_a_small_one_all_it_has():
    empty = contents_of(np.zeros((0, 3)))
    assert nearest(empty, np.ones((2, 3), np.float32), 5) == [[], []]
    [hits] = nearest(contents_of(np.eye(3)[:1]), np.eye(3, dtype=np.float32)[:1], 10)
    assert short([hits]) == [[("0000.png", 1.0)]]
    assert nearest(contents_of(np.eye(3)), np.empty((0, 3), np.float32), 1) == []


def test_a_class_is_searched_alone_and_an_unknown_one_is_refused():
    contents = contents_of(np.eye(8), labels=[0, 1, 1, -1, 1, 0, -1, 0])
    [hits] = nearest(contents, np.ones((1, 8), np.float32), 8, "bee")
    assert [hit.entry.path for hit in hits] == ["0001.png", "0002.png", "0004.png"]
    assert nearest(contents, np.ones((1, 8), np.float32), 8, "cat") == [[]]
    with pytest.raises(Mistake, match="no image has the class 'bea'; there are 3, such as bee"):
        nearest(contents, np.ones((1, 8), np.float32), 8, "bea")


def test_queries_of_another_length_and_no_neighbors_are_refused():
    with pytest.raises(ValueError, match=r"give \(queries, 3\)"):
        nearest(contents_of(np.eye(3)), np.ones((1, 4), np.float32), 1)
    with pytest.raises(Mistake, match="0 neighbors were asked for"):
        nearest(contents_of(np.eye(3)), np.ones((1, 3), np.float32), 0)


def test_memory_does_not_grow_with_the_index():
    import tracemalloc

    def peak(count):
        contents, query = contents_of(np.zeros((count, 64))), np.ones((1, 64), np.float32)
        tracemalloc.start()
        searching.best_of(contents.rows, query, 10, None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak(200_000) < 1.2 * peak(40_000)
