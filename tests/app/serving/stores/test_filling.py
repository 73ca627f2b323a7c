"""Filling a store: the same as an index file, nothing twice, nothing lost; one set of tests for all stores."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.galleries.gallery import Gallery, open_gallery
from shadowmetric.app.serving.indexing.embedding import embed_images
from shadowmetric.app.serving.indexing.listing import Listing, list_images
from shadowmetric.app.serving.stores import filling
from shadowmetric.app.serving.stores.filling import Filled, fill_store, open_store
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import About, key_of
from shadowmetric.runtime.images import Shape
from shadowmetric.runtime.index_file import Contents, write_index

pytest_plugins = ["postgres_server"]
DIM, SIDE = 16, 8
WRITES = ("begin", "put", "relabel", "remove")


class FakeModel:
    """A fixed projection of pixels that counts what it embeds, and may end after some images."""

    def __init__(self, fingerprint="one", after=None, end=None):
        self.about = About(DIM, fingerprint, Shape(SIDE, SIDE, 3), ("nowhere",), "", {"loss": "shadow"})
        self.weights = np.random.default_rng(0).normal(size=(3 * SIDE * SIDE, DIM)).astype(np.float32)
        self.embedded, self.after, self.end = 0, after, end

    def embed(self, squares):
        if self.after is not None and self.embedded + len(squares) > self.after:
            self.end()
        self.embedded += len(squares)
        rows = (squares.reshape(len(squares), -1).astype(np.float32) - 127) @ self.weights
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def write_image(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, format="PNG")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "images"
    for number in range(20):
        write_image(folder / ("ape", "bee", "cat")[number % 3] / f"{number}.png", number)
    write_image(folder / "alone.png", 100)
    return folder


@pytest.fixture(params=["qdrant", "postgres"])
def place(request, tmp_path):
    if request.param == "qdrant":
        return f"qdrant://{tmp_path}/store/birds"
    return request.getfixturevalue("postgres_table")


@pytest.fixture
def written(monkeypatch):
    """Return a list of what is written from now on: which way, and how many."""
    from shadowmetric.app.serving.stores.postgres import PostgresGallery
    from shadowmetric.app.serving.stores.qdrant import QdrantGallery

    calls = []

    def listen(store, name):
        plain = getattr(store, name)

        def heard(self, given):
            calls.append((name, 1 if name == "begin" else len(given)))
            return plain(self, given)

        monkeypatch.setattr(store, name, heard)

    for store in (PostgresGallery, QdrantGallery):
        for name in WRITES:
            listen(store, name)
    return calls


def fill(place, folder, model=None, **settings):
    return fill_store(model or FakeModel(), list_images(folder), place, **settings)


def paths_in(place):
    store = open_store(place)
    keys = set(store.keys())
    assert len(keys) == len(store)
    store.close()
    gallery = open_gallery(place)
    paths = {gallery.entry(key).path for key in keys}
    gallery.close()
    return paths


def file_gallery(folder, path):
    model, listing = FakeModel(), list_images(folder)
    made = [one for some in embed_images(model, listing.root, listing.images) for one in some]
    classes = tuple(sorted({one.listed.label for one in made if one.listed.label is not None}))
    labels = [-1 if one.listed.label is None else classes.index(one.listed.label) for one in made]
    contents = Contents(
        np.stack([one.row for one in made]).astype(np.float16),
        np.array(labels, np.int32),
        np.stack([np.frombuffer(one.digest, np.uint8) for one in made]),
        [one.listed.path for one in made],
        classes,
    )
    write_index(path, model.about, contents)
    return FileGallery(path)


def queries(count=5):
    rows = np.random.default_rng(7).normal(size=(count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def same_hits(found, wanted):
    assert [[hit.entry for hit in hits] for hits in found] == [[hit.entry for hit in hits] for hits in wanted]
    assert found == wanted  # cosines too, to the last bit


def test_a_store_answers_as_a_file_does(place, folder, tmp_path):
    for number in range(3):
        write_image(folder / "cat" / f"twin {number}.png", 200)  # equally similar
    assert fill(place, folder, batch=4) == Filled(added=24)
    plain, gallery = file_gallery(folder, tmp_path / "index"), open_gallery(place)
    assert isinstance(gallery, Gallery)
    assert len(gallery) == len(plain) == 24
    assert gallery.classes() == plain.classes() == {"ape": 7, "bee": 7, "cat": 9}
    assert list(gallery.classes()) == list(plain.classes())
    assert gallery.about.root == str(folder.resolve())
    assert gallery.about.plain() | {"root": ""} == FakeModel().about.plain()
    for path in plain.contents.paths:
        key = key_of(path)
        assert gallery.entry(key) == plain.entry(key)
        np.testing.assert_array_equal(gallery.row(key), plain.row(key))
        assert gallery.row(key).dtype == np.float32
    for k in (1, 3, 24, 1000):
        same_hits(gallery.nearest(queries(), k), plain.nearest(queries(), k))
        same_hits(gallery.nearest(queries(), k, "cat"), plain.nearest(queries(), k, "cat"))
    assert gallery.nearest(queries(0), 3) == []
    for key in ("0" * 32, key_of("alone.png").upper()[:31] + "A", "not a key", "", "' OR true; --", "\0"):
        assert gallery.entry(key) is gallery.row(key) is None
    for refused in (lambda it: it.nearest(queries(), 3, "bea"), lambda it: it.nearest(queries(), 0)):
        with pytest.raises(Mistake) as said:
            refused(gallery)
        with pytest.raises(Mistake) as wanted:
            refused(plain)
        assert str(said.value) == str(wanted.value)
    with pytest.raises(ValueError, match="give \\(queries, 16\\)"):
        gallery.nearest(queries()[:, :3], 3)
    gallery.close()


def test_threads_ask_at_once(place, folder):
    fill(place, folder)
    gallery = open_gallery(place)
    wanted, found = gallery.nearest(queries(), 3), []

    def ask():
        for _ in range(5):
            found.append(gallery.nearest(queries(), 3))
            assert gallery.entry(key_of("alone.png")).path == "alone.png"
            assert sum(gallery.classes().values()) == 20

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 40
    gallery.close()


def test_a_second_call_embeds_nothing_and_writes_nothing(place, folder, written):
    fill(place, folder, batch=4)
    assert written[0] == ("begin", 1)
    assert [call for call in written[1:] if call[0] != "put"] == []
    assert max(count for _, count in written) <= 4
    written.clear()
    model = FakeModel()
    assert fill(place, folder, model) == Filled(unchanged=21)
    assert model.embedded == 0
    assert written == []


def test_images_are_looked_up_when_they_are_wanted(place, folder, monkeypatch):
    monkeypatch.setattr(filling, "LOOKED_UP", 2)
    looked_up, plain = [], filling.Filling.look_up
    monkeypatch.setattr(filling.Filling, "look_up", lambda it, some: looked_up.extend(some) or plain(it, some))

    class Watching(FakeModel):
        def embed(self, squares):
            assert len(looked_up) <= self.embedded + 8  # two batches ahead, and those that are looked up together
            return super().embed(squares)

    assert fill(place, folder, Watching(), batch=2) == Filled(added=21)
    assert len(looked_up) == 21


def test_work_that_was_cut_off_goes_on_where_it_was(place, folder):
    def cut():
        raise KeyboardInterrupt

    first = FakeModel(after=10, end=cut)
    with pytest.raises(KeyboardInterrupt):
        fill(place, folder, first, batch=4)
    assert first.embedded == len(paths_in(place)) == 8
    second = FakeModel()
    assert fill(place, folder, second, batch=4) == Filled(added=13, unchanged=8)
    assert second.embedded == 13
    assert len(paths_in(place)) == 21


def test_a_killed_process_loses_nothing_that_it_wrote(place, folder):
    here = Path(__file__)
    work = (
        "import sys; sys.path[:0] = sys.argv[1:3]; import test_filling as it; "
        "it.fill(sys.argv[3], it.Path(sys.argv[4]), it.FakeModel(after=10, end=it.kill_me), batch=4)"
    )
    words = [sys.executable, "-c", work, str(here.parent), str(here.parents[1]), place, str(folder)]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(paths_in(place)) == 8
    model = FakeModel()
    assert fill(place, folder, model) == Filled(added=13, unchanged=8)
    assert model.embedded == 13


def kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


def test_only_what_changed_is_embedded_again(place, folder, tmp_path):
    fill(place, folder)
    (folder / "ape" / "0.png").unlink()
    write_image(folder / "bee" / "1.png", 300)
    write_image(folder / "dog" / "new.png", 301)
    model = FakeModel()
    assert fill(place, folder, model) == Filled(added=1, changed=1, removed=1, unchanged=19)
    assert model.embedded == 2
    plain, gallery = file_gallery(folder, tmp_path / "index"), open_gallery(place)
    same_hits(gallery.nearest(queries(), 21), plain.nearest(queries(), 21))
    gallery.close()


def test_a_new_class_needs_no_embedding(place, folder, tmp_path, written):
    table = tmp_path / "table.csv"
    paths = [listed.path for listed in list_images(folder).images]

    def write(labels):
        lines = [f"images/{path},{label}" for path, label in zip(paths, labels, strict=True)]
        table.write_text("\n".join(["path,label", *lines]))

    write(["old"] * 20 + [""])
    assert fill(place, table) == Filled(added=21)
    write(["", *["old"] * 17, "new", "newer", "new"])
    written.clear()
    model = FakeModel()
    assert fill(place, table, model) == Filled(changed=4, unchanged=17)
    assert model.embedded == 0
    assert written == [("relabel", 4)]
    gallery = open_gallery(place)
    assert gallery.classes() == {"new": 2, "newer": 1, "old": 17}
    assert gallery.entry(key_of(f"images/{paths[0]}")).label is None
    gallery.close()
    assert fill(place, table) == Filled(unchanged=21)


def test_a_renamed_file_keeps_its_row(place, folder):
    fill(place, folder)
    gallery = open_gallery(place)
    row = gallery.row(key_of("ape/0.png"))
    gallery.close()
    (folder / "ape" / "0.png").rename(folder / "bee" / "other.png")
    model = FakeModel()
    assert fill(place, folder, model) == Filled(added=1, removed=1, unchanged=20)
    assert model.embedded == 0
    gallery = open_gallery(place)
    np.testing.assert_array_equal(gallery.row(key_of("bee/other.png")), row)
    assert gallery.entry(key_of("bee/other.png")).label == "bee"
    gallery.close()


def test_rows_of_another_model_are_refused(place, folder, written):
    fill(place, folder)
    written.clear()
    with pytest.raises(Mistake, match=r"holds rows of another model; name another .*, or remove it\.$"):
        fill(place, folder, FakeModel("two"))
    other = FakeModel()
    other.about = replace(other.about, shape=Shape(SIDE, SIDE + 1, 3))  # the same weights on other pixels
    with pytest.raises(Mistake, match="holds rows of another model"):
        fill(place, folder, other)
    assert written == []
    assert len(paths_in(place)) == 21


def test_a_folder_that_moved_is_told_without_embedding(place, folder):
    fill(place, folder)
    folder.rename(folder.parent / "moved")
    model = FakeModel()
    note = f"The store was of {folder}; now it is of {folder.parent / 'moved'}."
    assert fill(place, folder.parent / "moved", model) == Filled(unchanged=21, notes=[note])
    assert model.embedded == 0
    gallery = open_gallery(place)
    assert gallery.about.root == str(folder.parent / "moved")
    gallery.close()


def test_another_folder_in_the_same_store_is_told(place, folder, tmp_path):
    fill(place, folder)
    write_image(tmp_path / "other" / "x.png", 500)
    note = f"The store was of {folder}; now it is of {tmp_path / 'other'}."
    assert fill(place, tmp_path / "other") == Filled(added=1, removed=21, notes=[note])
    assert fill(place, tmp_path / "other") == Filled(unchanged=1)


def test_nothing_is_removed_before_everything_is_written(place, folder):
    fill(place, folder)
    before = paths_in(place)
    for number in range(20):
        old = folder / ("ape", "bee", "cat")[number % 3] / f"{number}.png"
        old.unlink()
        write_image(folder / "new" / f"{number}.png", 400 + number)

    def cut():
        raise RuntimeError("cut")

    with pytest.raises(RuntimeError, match="cut"):
        fill(place, folder, FakeModel(after=16, end=cut), batch=8)
    assert paths_in(place) > before
    assert fill(place, folder) == Filled(added=4, removed=20, unchanged=17)


def test_many_are_removed_some_at_a_time(place, folder, written, monkeypatch):
    fill(place, folder)
    monkeypatch.setattr(filling, "LOOKED_UP", 4)
    for number in range(19):
        (folder / ("ape", "bee", "cat")[number % 3] / f"{number}.png").unlink()
    written.clear()
    assert fill(place, folder) == Filled(removed=19, unchanged=2)
    assert max(count for _, count in written) <= 4
    assert paths_in(place) == {"alone.png", "bee/19.png"}


def test_broken_images_are_named_and_do_not_stay(place, folder):
    fill(place, folder)
    (folder / "ape" / "0.png").write_bytes(b"no image any more")
    (folder / "bee" / "never.png").write_bytes(b"")
    for _ in range(2):
        filled = fill(place, folder)
        assert sorted(sentence.split()[0] for sentence in filled.broken) == ["ape/0.png", "bee/never.png"]
        assert (filled.added, filled.changed, filled.unchanged) == (0, 0, 20)
        assert "ape/0.png" not in paths_in(place)
        assert len(paths_in(place)) == 20


NONE = r"^none of the 21 images can be read; the first: \S+\.png .*[^.]; nothing was removed\.$"


def test_a_folder_of_broken_images_is_refused_and_nothing_is_removed(place, folder, written):
    fill(place, folder)
    before, moved = paths_in(place), folder.rename(folder.parent / "moved")
    for listed in list_images(moved).images:
        (moved / listed.path).write_bytes(b"broken")
    written.clear()
    with pytest.raises(Mistake, match=NONE):
        fill(place, moved)
    assert written == []
    assert paths_in(place) == before
    gallery = open_gallery(place)
    assert gallery.about.root == str(folder)
    gallery.close()


def test_a_listing_without_images_removes_nothing(place, folder):
    fill(place, folder)
    with pytest.raises(Mistake, match=r"^none of the 0 images can be read; nothing was removed\.$"):
        fill_store(FakeModel(), Listing(folder, [], []), place)
    assert len(paths_in(place)) == 21


def test_a_new_store_of_broken_images_is_empty(place, folder):
    for listed in list_images(folder).images:
        (folder / listed.path).write_bytes(b"broken")
    with pytest.raises(Mistake, match=NONE):
        fill(place, folder)
    gallery = open_gallery(place)
    assert len(gallery) == 0
    assert gallery.classes() == {}
    assert gallery.nearest(queries(), 3) == [[]] * 5
    gallery.close()


STRANGE = [
    b"caf\xe9/latin.png",
    "größe/鳥 🐦.png".encode(),
    b"back\\slash/\\u0000 \\udc80.png",
    b"quo'te\"; DROP TABLE x; --/%s %(k)s {table}.png",
    b"new\nline/tab\t.png",
    b"<script>/\x01\x7f\x80.png",
]


def test_strange_names_come_back_as_they_were(place, tmp_path):
    folder = tmp_path / "strange"
    paths = {os.fsdecode(path) for path in STRANGE}
    for number, path in enumerate(sorted(paths)):
        write_image(folder / path, number)
    assert fill(place, folder) == Filled(added=len(paths))
    assert fill(place, folder) == Filled(unchanged=len(paths))
    assert paths_in(place) == paths
    gallery = open_gallery(place)
    assert set(gallery.classes()) == {path.split("/")[0] for path in paths}
    for path in paths:
        label = path.split("/")[0]
        assert [hit.entry for hit in gallery.nearest(queries(1), 5, label)[0]] == [(key_of(path), path, label)]
    gallery.close()


def test_progress_is_told(place, folder):
    told = []
    fill(place, folder, tell=lambda stage, share: told.append((stage, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert {stage for stage, _ in told} >= {"embedding"}


def test_an_index_that_nobody_knows_is_refused(place, folder):
    with pytest.raises(Mistake, match="'ivf' is no kind of index; there is hnsw"):
        fill(place, folder, index="ivf")
