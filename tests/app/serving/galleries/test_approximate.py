"""Approximate search: nearly what exact search finds, with its cosines; hostile bytes of faiss are refused."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from image_folders import FakeModel, contents_of, indexed, unit, write_folder

from shadowmetric.app.serving.galleries.approximate import KINDS, NEAREST, TARGET, build_faiss_index, check_kind
from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.errors import Mistake
from shadowmetric.runtime.index_file import read_index, write_index

pytest.importorskip("faiss", reason="faiss is not installed")
ABOUT = FakeModel().about


def clustered(count, dim=16, seed=0):
    """Return rows around twenty centers, as those of images are, some of them twice."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(20, dim))[random.integers(0, 20, count)] + 0.4 * random.normal(size=(count, dim))
    rows[: count // 10] = rows[count // 2 : count // 2 + count // 10]
    return unit(rows)


def gallery_of(folder, rows, kind, labels=None):
    stored, words = build_faiss_index(rows, kind)
    contents = replace(contents_of(rows, labels), approximate=stored, approximate_words=words)
    write_index(folder / "x", replace(ABOUT, dim=rows.shape[1]), contents)
    return FileGallery(folder / "x")


def test_it_searches_where_faiss_was_made_to_take_tensors_and_no_parameters(tmp_path):
    """As the import of pytorch-metric-learning's trainers does it, for the whole process."""
    import faiss.contrib.torch_utils  # noqa: F401

    gallery = gallery_of(tmp_path, clustered(300), "hnsw")
    assert len(gallery.nearest(clustered(300)[:2].astype(np.float32), 5)[0]) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_of_the_exact_nearest_are_found(tmp_path, kind):
    rows = clustered(3000)
    gallery = gallery_of(tmp_path, rows, kind)
    queries = np.random.default_rng(1).normal(size=(50, 16)) + 3 * rows[::60].astype(float)
    queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
    exact, good = gallery.exact(queries, 10)[0], 0
    for row, hits in zip(exact, gallery.nearest(queries, 10), strict=True):
        assert len(hits) == 10
        assert len({hit.entry.path for hit in hits}) == 10
        similarities = [hit.similarity for hit in hits]
        assert similarities == sorted(similarities, reverse=True)
        good += sum(similarity >= row[-1] - 1e-3 for similarity in similarities)
    assert good >= 0.8 * 500


@pytest.mark.parametrize("kind", KINDS)
def test_cosines_are_those_of_exact_search(tmp_path, kind):
    rows = clustered(800)
    gallery, queries = gallery_of(tmp_path, rows, kind), rows[:20].astype(np.float32)
    for query, hits in zip(queries, gallery.nearest(queries, 5), strict=True):
        for hit in hits:
            row = rows[int(hit.entry.path[:5])].astype(float)
            assert hit.similarity == pytest.approx(min(float(query @ row), 1.0), abs=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_is_searched_exactly(tmp_path, kind):
    rows, labels = clustered(900), np.arange(900) % 3
    gallery, queries = gallery_of(tmp_path, rows, kind, labels), rows[:5].astype(np.float32)
    for query, hits in zip(queries, gallery.nearest(queries, 900, "y"), strict=True):
        assert len(hits) == 300
        assert {hit.entry.label for hit in hits} == {"y"}
        best = max(float(query @ row.astype(np.float32)) for row in rows[1::3])
        assert hits[0].similarity == pytest.approx(min(best, 1.0), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 9, 70])
def test_few_rows_are_all_found(tmp_path, kind, count):
    gallery = gallery_of(tmp_path, clustered(count, 4), kind)
    found = gallery.nearest(np.eye(4, dtype=np.float32), count + 5)
    assert all(0.9 * count <= len(hits) <= count for hits in found)  # hnsw may not reach some of many
    assert len({hit.entry.path for hit in found[0]}) == len(found[0])


@pytest.mark.parametrize("kind", KINDS)
def test_asking_for_more_than_there_is_costs_no_memory(tmp_path, kind):
    gallery = gallery_of(tmp_path, clustered(20, 4), kind)
    for k in (10**12, 2**63 - 1, 2**63, 10**30):
        assert len(gallery.nearest(np.eye(4, dtype=np.float32), k)[0]) == 20


def test_the_words_say_what_was_reached():
    words = build_faiss_index(clustered(2000), "ivf")[1]
    share = float(words.removeprefix("ivf: finds ").split(" ")[0])
    assert 100 * TARGET <= share <= 100
    assert f"of the exact {NEAREST} nearest" in words


def test_the_same_rows_give_the_same_words():
    rows = clustered(500)
    assert build_faiss_index(rows, "ivf")[1] == build_faiss_index(rows, "ivf")[1]


def test_indexing_makes_it_and_renews_it(tmp_path):
    photos, out = write_folder(tmp_path / "p"), tmp_path / "x"
    done = indexed(FakeModel(), photos, out, approximate="hnsw")
    assert done.approximate.startswith("hnsw: finds ")
    assert read_index(out)[1].approximate_words == done.approximate
    assert len(FileGallery(out).nearest(np.eye(6, dtype=np.float32), 12)[0]) == 12
    model = FakeModel()
    assert indexed(model, photos, out, approximate="ivf").approximate.startswith("ivf: finds ")
    assert model.embedded == 0
    assert indexed(model, photos, out).approximate.startswith("ivf: finds "), "as it was"
    assert indexed(model, photos, out, approximate="none").approximate == ""
    assert read_index(out)[1].approximate is None


@pytest.mark.parametrize("kind", ["", "flat", "HNSW", "hnsw,ivf"])
def test_other_kinds_are_refused_before_the_work(tmp_path, kind):
    with pytest.raises(Mistake, match="choose one of hnsw, ivf"):
        check_kind(kind)
    model = FakeModel()
    with pytest.raises(Mistake, match="choose one of hnsw, ivf"):
        indexed(model, write_folder(tmp_path / "p"), tmp_path / "x", approximate=kind)
    assert model.embedded == 0
    assert not (tmp_path / "x").exists()


def test_a_missing_faiss_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(Mistake, match=r"faiss is not installed; run `pip install 'shadowmetric\[approximate\]'`"):
        check_kind("hnsw")


@pytest.mark.parametrize("stored", [b"", b"nonsense", b"IxF2" + bytes(40), bytes(300)])
def test_bytes_that_faiss_cannot_read_are_refused(tmp_path, stored):
    contents = replace(contents_of(clustered(20, 4)), approximate=np.frombuffer(stored, np.uint8))
    write_index(tmp_path / "x", replace(ABOUT, dim=4), contents)
    with pytest.raises(Mistake, match=r"has an approximate part that faiss .* cannot read"):
        FileGallery(tmp_path / "x")


@pytest.mark.parametrize(("count", "dim"), [(50, 4), (5, 4), (20, 3), (20, 8)])
@pytest.mark.parametrize("kind", KINDS)
def test_what_faiss_has_of_other_rows_is_refused(tmp_path, kind, count, dim):
    other = build_faiss_index(clustered(count, dim), kind)[0]
    write_index(tmp_path / "x", replace(ABOUT, dim=4), replace(contents_of(clustered(20, 4)), approximate=other))
    with pytest.raises(Mistake, match="approximate part"):
        FileGallery(tmp_path / "x")


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_asks_for_many_gets_as_many_and_nearly_the_right_ones(tmp_path, kind):
    rows = clustered(3000, 8)
    stored, _ = build_faiss_index(rows, kind)
    write_index(tmp_path / "x", replace(ABOUT, dim=8), replace(contents_of(rows), approximate=stored))
    gallery, queries = FileGallery(tmp_path / "x"), np.asarray(rows[::300], np.float32)
    for k in (10, 300, 2900):
        found, exact = gallery.nearest(queries, k), gallery.exact(queries, k)[0]
        assert [len(hits) for hits in found] == [k] * len(queries)
        cosines = np.array([[hit.similarity for hit in hits] for hits in found])
        assert (cosines >= exact[:, -1:] - 1e-3).mean() > 0.9


def test_cosines_of_ivf_are_those_of_exact_search(tmp_path):
    rows = clustered(400, 8)
    write_index(
        tmp_path / "x", replace(ABOUT, dim=8), replace(contents_of(rows), approximate=build_faiss_index(rows, "ivf")[0])
    )
    gallery, queries = FileGallery(tmp_path / "x"), np.asarray(rows[:20], np.float32)
    nearest = [hits[0].similarity for hits in gallery.nearest(queries, 1)]
    assert nearest == pytest.approx(gallery.exact(queries, 1)[0][:, 0].clip(max=1).tolist(), abs=1e-5)
