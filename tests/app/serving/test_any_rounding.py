"""Whoever searches finds the same images in the same order with the same cosines, however products are rounded."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_folders import FakeModel, contents_of
from made_rows import KINDS, batches, made_rows
from random_rounding import random_rounding

from shadowmetric.app.serving.galleries import file_gallery
from shadowmetric.app.serving.galleries.approximate import build_faiss_index
from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.stores import proposed
from shadowmetric.app.serving.stores.proposed import Proposed, reach_of_halves, search_store
from shadowmetric.ops import top_k as blocks
from shadowmetric.runtime import search as device_search
from shadowmetric.runtime.entries import Entry, key_of
from shadowmetric.runtime.exact_cosines import cosine, exact_cosines, on_grid, reach
from shadowmetric.runtime.index_file import write_index

CLASSES = np.array([0, 1, 2, -1])


def gallery_of(folder, rows, kind=None):
    rows = rows.astype(np.float16)
    contents = contents_of(rows, CLASSES[np.arange(len(rows)) % 4])
    if kind is not None:
        stored, words = build_faiss_index(rows, kind)
        contents = replace(contents, approximate=stored, approximate_words=words)
    write_index(folder / "x", replace(FakeModel().about, dim=rows.shape[1]), contents)
    return FileGallery(folder / "x")


def asked_of(rows, seed, count=3):
    """Return queries: rows, zeros, and something beside a row."""
    draw = np.random.default_rng(seed)
    found = rows[draw.integers(0, len(rows), count)] + 0.1 * draw.normal(size=(count, rows.shape[1]))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    found[0] = rows[seed % len(rows)]
    return found.astype(np.float32)


def plain(gallery, queries, k, label=None):
    """Sort fractions: nothing is rounded but the queries, to multiples of 2^-24."""
    allowed = [n for n in range(len(gallery)) if label is None or gallery.contents.entry(n).label == label]
    found = []
    for query in queries.tolist():
        query = [Fraction(round(Fraction(x) * 2**24), 2**24) for x in query]
        cosines = {
            n: sum(x * Fraction(y) for x, y in zip(query, gallery.contents.rows[n].tolist(), strict=True))
            for n in allowed
        }
        best = sorted(allowed, key=lambda n: (-cosines[n], n))[:k]
        found.append([(gallery.contents.paths[n], min(float(cosines[n]), 1.0)) for n in best])
    return found


def short(found):
    return [[(hit.entry.path, hit.similarity) for hit in hits] for hits in found]


searches = (batches(), st.integers(1, 30), st.integers(0, 99), st.sampled_from([None, "x"]), st.integers(1, 40))


@given(*searches)
def test_files_and_devices_find_what_sorted_fractions_say(tmp_path_factory, rows, k, seed, label, block):
    gallery, queries = gallery_of(tmp_path_factory.mktemp("x"), rows), asked_of(rows, seed)
    wanted = plain(gallery, queries, k, label)
    rounding = random_rounding(seed, ulps=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_gallery, "FEW", 1)  # else so few rows would all be measured
        patch.setattr(blocks, "WIDTH", block)
        patch.setattr(device_search, "BLOCK_NUMBERS", block * rows.shape[1])
        patch.setattr(device_search, "products", lambda left, right: rounding.product(left, right.T))
        with rounding:
            assert short(gallery.nearest(queries, k, label)) == wanted
        assert short(device_search.nearest(gallery.contents, queries, k, label)) == wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 8])
def test_many_rows_are_the_same_for_any_number_of_queries(tmp_path, kind, count):
    rows = made_rows(kind, 3000, 48, 0)
    gallery, queries = gallery_of(tmp_path, rows), asked_of(rows, 1, count)
    wanted = [gallery.nearest(query[None], 10)[0] for query in queries]
    assert gallery.nearest(queries, 10) == wanted
    assert device_search.nearest(gallery.contents, queries, 10) == wanted
    for seed in range(3):
        with random_rounding(seed) as rounding:
            assert gallery.nearest(queries, 10) == wanted
        assert rounding.entries or not queries.any()


def test_three_copies_come_in_order_wherever_they_stand(tmp_path):
    rows = made_rows("random", 5000, 64, 0)
    rows[[4, 2500, 4999]] = rows[4]
    gallery = gallery_of(tmp_path, rows)
    for seed in range(20):
        with random_rounding(seed):
            [hits] = gallery.nearest(rows[4:5].astype(np.float32), 3)
        assert [hit.entry.path for hit in hits] == ["00004.png", "02500.png", "04999.png"]
        assert len({hit.similarity for hit in hits}) == 1


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
@pytest.mark.parametrize("made", ["duplicates", "random", "collapsed"])
def test_what_faiss_proposes_is_measured_and_ordered_again(tmp_path, kind, made):
    pytest.importorskip("faiss", reason="faiss is not installed")
    rows = made_rows(made, 400, 16, 0)
    gallery = gallery_of(tmp_path, rows, kind)
    queries = asked_of(rows, 3, 20)
    for query, hits in zip(queries, gallery.nearest(queries, 12), strict=True):
        numbers = [int(hit.entry.path[:5]) for hit in hits]
        cosines = exact_cosines(gallery.contents.rows[numbers], on_grid(query[None])[0])
        assert [hit.similarity for hit in hits] == [min(value, 1.0) for value in cosines.tolist()]
        assert sorted(zip(-cosines, numbers, strict=True)) == list(zip(-cosines, numbers, strict=True))


class RoughStore:
    """Finds by products that are wrong by as much as may be, and has rows of others."""

    def __init__(self, rows, near, seed, others):
        self.rows, self.near, self.draw = rows.astype(np.float16), near, np.random.default_rng(seed)
        self.others = set(range(0, len(rows), 7)) if others else set()
        self.limits = []

    def ask(self, queries, limit):
        self.limits.append(limit)
        found = []
        for query in queries:
            wrong = self.draw.uniform(-1, 1, len(self.rows)) * self.near / 2
            products = exact_cosines(self.rows, query) + wrong
            order = np.argsort(-products)[:limit]
            found.append([Proposed(self.entry(n), self.rows[n].tolist(), float(products[n])) for n in order])
        return found

    def entry(self, number):
        path = f"{number:05}.png"
        return None if number in self.others else Entry(key_of(path), path, None)


@given(batches(), st.integers(1, 30), st.integers(0, 99), st.booleans(), st.sampled_from([reach, reach_of_halves]))
def test_a_store_that_rounds_otherwise_is_ranked_as_a_file(rows, k, seed, others, reach_of):
    queries = asked_of(rows, seed)
    near = float(reach_of(on_grid(queries)).min())
    store = RoughStore(rows, near, seed, others)
    found = search_store(queries, k, reach_of, store.ask)
    for query, hits in zip(on_grid(queries), found, strict=True):
        cosines = exact_cosines(store.rows, query)
        allowed = [n for n in range(len(rows)) if n not in store.others]
        best = sorted(allowed, key=lambda n: (-cosines[n], n))[:k]
        assert [hit.entry.path for hit in hits] == [f"{n:05}.png" for n in best]
        assert [hit.similarity for hit in hits] == [min(cosines[n], 1.0) for n in best]


def test_a_store_is_not_asked_for_ever(monkeypatch):
    monkeypatch.setattr(proposed, "MOST", 100)
    rows = made_rows("collapsed", 5000, 8, 0)
    store = RoughStore(rows, 1e-6, 0, others=False)
    [hits] = search_store(rows[:1].astype(np.float32), 5, reach, store.ask)
    assert len(hits) == 5
    assert store.limits == [13, 52, 208]


def test_an_answer_that_is_clear_is_asked_for_once():
    rows = made_rows("random", 500, 64, 0)
    store = RoughStore(rows, 1e-7, 0, others=False)
    search_store(rows[:4].astype(np.float32), 5, reach, store.ask)
    assert store.limits == [13]


@given(batches(most_rows=10), st.integers(0, 99))
def test_the_cosine_of_two_rows_is_one_number(rows, seed):
    first, second = rows[0].astype(np.float32), rows[-1].astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(first))
    assert cosine(first, second) == cosine(second, first) == cosine(first[order], second[order])
    assert abs(cosine(first, second) - float(np.clip(first.astype(float) @ second.astype(float), -1, 1))) < 1e-6


def test_reach_covers_any_order_of_sums():
    """Sums in float32, one term after the other in hostile orders, stay within half of it."""
    for seed in range(20):
        rows = made_rows("random", 2, 300, seed)
        stored, query = rows[:1].astype(np.float16), on_grid(rows[1:])
        exact = exact_cosines(stored, query[0])[0]
        terms = stored[0].astype(np.float32) * query[0]
        for order in (np.argsort(terms), np.argsort(-terms), np.argsort(np.abs(terms)), np.argsort(-np.abs(terms))):
            total = np.float32(0)
            for term in terms[order]:
                total += term
            assert abs(float(total) - exact) <= reach(query)[0] / 2
