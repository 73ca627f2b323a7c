"""Indexing again embeds only new bytes; what a kill or Ctrl-C leaves is whole, and used; nothing foreign is lost."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from image_folders import DIM, FakeModel, indexed, small_index, write_folder, write_image
from PIL import Image

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.indexing import build as indexing
from shadowmetric.app.serving.indexing.build import Known, build_index
from shadowmetric.app.serving.indexing.listing import list_images
from shadowmetric.errors import Mistake
from shadowmetric.runtime.images import Shape
from shadowmetric.runtime.index_file import read_index, write_index
from shadowmetric.runtime.unfinished import ABANDONED

COUNTS = ("images", "added", "changed", "removed", "unchanged", "embedded")


@pytest.fixture
def photos(tmp_path):
    return write_folder(tmp_path / "photos")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "x.shadowmx"


def counts(done):
    return tuple(getattr(done, name) for name in COUNTS)


def check(out, folder, model=None):
    """Hold an index to a plain loop over the files of its folder."""
    about, found = read_index(out)
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.png"))
    assert list(found.paths) == files
    model = model or FakeModel()
    for number, path in enumerate(files):
        with Image.open(folder / path) as image:
            row = model.embed(np.asarray(image)[None, None])[0]
        assert np.allclose(found.rows[number], row, atol=1e-3), path
        label = path.split("/")[0] if "/" in path else None
        assert found.entry(number).label == label
    assert about.root == str(folder)


def left_over(out):
    """Return the names beside an index that no user put there, but for the lock."""
    return sorted(set(os.listdir(out.parent)) - {out.name, f".{out.name}.lock", "photos"})


def test_a_new_index_has_every_image(photos, out):
    done = indexed(FakeModel(), photos, out)
    assert counts(done) == (12, 12, 0, 0, 0, 12)
    assert (done.broken, done.notes, done.approximate) == ([], [], "")
    check(out, photos)
    assert left_over(out) == []


def test_nothing_is_embedded_again(photos, out):
    indexed(FakeModel(), photos, out)
    before, model = out.read_bytes(), FakeModel()
    assert counts(indexed(model, photos, out)) == (12, 0, 0, 0, 12, 0)
    assert model.embedded == 0
    assert out.read_bytes() == before


def test_only_what_is_new_is_embedded(photos, out):
    indexed(FakeModel(), photos, out)
    write_image(photos / "ant" / "new.png", 900)  # added
    write_image(photos / "bee" / "0.png", 901)  # changed
    (photos / "cat" / "3.png").unlink()  # removed
    (photos / "cat" / "2.png").rename(photos / "cat" / "renamed.png")
    model = FakeModel()
    assert counts(indexed(model, photos, out)) == (12, 2, 1, 2, 9, 2)
    assert model.embedded == 2
    check(out, photos)


def test_an_image_that_moves_to_another_class_keeps_its_row(photos, out):
    indexed(FakeModel(), photos, out)
    row = FileGallery(out).row(read_index(out)[1].entry(0).key)
    (photos / "ant" / "0.png").rename(photos / "zebra.png")
    model = FakeModel()
    assert counts(indexed(model, photos, out)) == (12, 1, 0, 1, 11, 0)
    assert model.embedded == 0
    found = read_index(out)[1]
    assert np.array_equal(found.rows[11], row)
    assert found.entry(11)[1:] == ("zebra.png", None)
    check(out, photos)


def test_a_new_class_in_a_table_needs_no_embedding(photos, out):
    table = photos / "t.csv"
    table.write_text("path,label\nant/0.png,a\nbee/0.png,b\n")
    indexed(FakeModel(), table, out)
    table.write_text("path,label\nant/0.png,other\nbee/0.png,\n")
    model = FakeModel()
    assert indexed(model, table, out).embedded == model.embedded == 0
    found = read_index(out)[1]
    assert [found.entry(number).label for number in range(2)] == ["other", None]
    assert found.classes == ("other",)


def test_copies_are_embedded_once(photos, out):
    for name in ("ant/copy.png", "cat/copy.png", "zoo/copy.png"):
        (photos / name).parent.mkdir(exist_ok=True)
        shutil.copy(photos / "bee" / "1.png", photos / name)
    model = FakeModel()
    done = indexed(model, photos, out)
    assert (done.images, done.embedded, model.embedded) == (15, 12, 12)
    check(out, photos)


def test_a_copy_whose_twin_vanishes_meanwhile_is_indexed(photos, out):
    shutil.copy(photos / "ant" / "0.png", photos / "ant" / "zz.png")

    def tell(stage, share):
        if stage == "comparing files" and share == 1.0:
            (photos / "ant" / "0.png").unlink()

    done = build_index(FakeModel(), list_images(photos), out, tell=tell)
    assert done.images == 12
    assert "ant/zz.png" in read_index(out)[1].paths
    assert [line for line in done.broken if "ant/0.png" in line] == done.broken != []


def test_swapped_names_are_two_changes_and_no_embedding(photos, out):
    indexed(FakeModel(), photos, out)
    first, second = photos / "ant" / "0.png", photos / "bee" / "0.png"
    first.rename(photos / "t.png"), second.rename(first), (photos / "t.png").rename(second)
    assert counts(indexed(FakeModel(), photos, out)) == (12, 0, 2, 0, 10, 0)
    check(out, photos)


def test_many_images_outgrow_the_first_room():
    known = Known(DIM)
    digests, rows = [number.to_bytes(32) for number in range(2500)], np.random.default_rng(0).normal(size=(2500, DIM))
    for start in range(0, 2500, 700):
        known.learn(digests[start : start + 700], rows[start : start + 700])
    known.learn(digests[:3], rows[:3])
    assert np.array_equal(known.rows_of(digests[::-1]), rows[::-1].astype(np.float16))
    assert len(known.number) == 2500
    assert digests[2499] in known
    assert bytes(31) + b"!" not in Known(DIM)


def test_broken_images_are_left_out_and_tried_again(photos, out):
    (photos / "ant" / "0.png").write_bytes(b"text")
    shutil.copy(photos / "ant" / "0.png", photos / "bee" / "copy.png")
    done = indexed(FakeModel(), photos, out)
    assert counts(done) == (11, 11, 0, 0, 0, 11)
    assert [sentence.split(" ")[0] for sentence in done.broken] == ["ant/0.png", "bee/copy.png"]
    assert len(indexed(FakeModel(), photos, out).broken) == 2
    write_image(photos / "ant" / "0.png", 0)
    (photos / "bee" / "copy.png").unlink()
    assert counts(indexed(FakeModel(), photos, out)) == (12, 1, 0, 0, 11, 1)
    check(out, photos)


def test_an_image_that_breaks_leaves_the_index(photos, out):
    indexed(FakeModel(), photos, out)
    (photos / "ant" / "0.png").write_bytes(b"text")
    done = indexed(FakeModel(), photos, out)
    assert counts(done) == (11, 0, 0, 1, 11, 0)
    assert len(done.broken) == 1


def test_no_good_image_is_a_refusal_that_leaves_the_old_index(photos, out):
    indexed(FakeModel(), photos, out)
    before = out.read_bytes()
    for file in photos.rglob("*.png"):
        file.write_bytes(file.name.encode())
    with pytest.raises(Mistake, match=r"none of the 12 images can be read; the first: ant/0\.png cannot"):
        indexed(FakeModel(), photos, out)
    assert out.read_bytes() == before


def test_another_model_embeds_all_and_says_so(photos, out):
    indexed(FakeModel(), photos, out)
    model = FakeModel(1)
    done = indexed(model, photos, out)
    assert (done.embedded, model.embedded, done.unchanged) == (12, 12, 12)
    assert done.notes == ["The index was of another model: every image is embedded again."]
    check(out, photos, FakeModel(1))


@pytest.mark.parametrize("other", [{"dim": 5}, {"shape": Shape(6, 8, 1)}, {"shape": Shape(8, 8, 3)}])
def test_another_shape_or_length_of_rows_is_another_model(photos, out, other):
    indexed(FakeModel(), photos, out)
    model = FakeModel(**other)
    assert indexed(model, photos, out).embedded == model.embedded == 12
    assert read_index(out)[0].dim == model.about.dim


def test_another_folder_is_said(photos, out, tmp_path):
    indexed(FakeModel(), photos, out)
    photos.rename(tmp_path / "moved")
    done = indexed(FakeModel(), tmp_path / "moved", out)
    assert done.embedded == 0
    assert done.notes == [f"The index was of {photos}; now it is of {tmp_path / 'moved'}."]


@pytest.mark.parametrize("foreign", [b"", b"a letter to my aunt", b"shadowmx", b"PK\3\4" + bytes(100)])
def test_a_foreign_file_is_refused_and_kept(photos, out, foreign):
    out.write_bytes(foreign)
    model = FakeModel()
    with pytest.raises(Mistake, match=r"is no index|is cut short"):
        indexed(model, photos, out)
    assert out.read_bytes() == foreign
    assert model.embedded == 0
    assert left_over(out) == []


def test_a_damaged_index_is_refused_and_kept(photos, out):
    indexed(FakeModel(), photos, out)
    damaged = bytearray(out.read_bytes())
    damaged[-200] ^= 1
    out.write_bytes(damaged)
    with pytest.raises(Mistake, match="is damaged"):
        indexed(FakeModel(), photos, out)
    assert out.read_bytes() == bytes(damaged)


def test_the_index_may_be_in_a_new_folder(photos, tmp_path):
    out = tmp_path / "deep" / "er" / "x.shadowmx"
    indexed(FakeModel(), photos, out)
    check(out, photos)


def test_places_of_the_model_are_relative_first(photos, tmp_path):
    out = tmp_path / "indexes" / "x.shadowmx"
    indexed(FakeModel(place=tmp_path / "runs" / "run"), photos, out)
    assert read_index(out)[0].model == ("../runs/run", str(tmp_path / "runs" / "run"))


def test_it_tells_how_far_it_is(photos, out):
    told = []
    indexed(FakeModel(), photos, out, batch=5, tell=lambda stage, share: told.append((stage, round(share, 3))))
    assert told[:12] == [("comparing files", round(number / 12, 3)) for number in range(1, 13)]
    assert told[12:] == [("embedding", 0.417), ("embedding", 0.833), ("embedding", 1.0)]


@pytest.mark.parametrize("batches", [1, 2])
def test_ctrl_c_keeps_what_is_embedded(photos, out, batches):
    with pytest.raises(KeyboardInterrupt):
        indexed(FakeModel(fail_at=batches), photos, out, batch=4)
    assert not out.exists()
    assert len(read_index(out.with_name(f".{out.name}.part"))[1]) == 4 * batches
    model = FakeModel()
    assert counts(indexed(model, photos, out, batch=4)) == (12, 12, 0, 0, 0, 12 - 4 * batches)
    assert model.embedded == 12 - 4 * batches
    check(out, photos)
    assert left_over(out) == []


def test_ctrl_c_at_once_leaves_nothing(photos, out):
    with pytest.raises(KeyboardInterrupt):
        indexed(FakeModel(fail_at=0), photos, out)
    assert left_over(out) == []


def test_ctrl_c_twice_keeps_what_both_embedded(photos, out):
    embedded = 0
    for _ in range(2):
        model = FakeModel(fail_at=1)
        with pytest.raises(KeyboardInterrupt):
            indexed(model, photos, out, batch=4)
        embedded += model.embedded
    assert embedded == 8
    model = FakeModel()
    indexed(model, photos, out, batch=4)
    assert model.embedded == 4
    check(out, photos)


def test_ctrl_c_in_a_renewal_leaves_the_old_index(photos, out):
    indexed(FakeModel(), photos, out)
    before = out.read_bytes()
    write_folder(photos, ("dog", "elk"))
    for number, file in enumerate(sorted((photos / "dog").iterdir()) + sorted((photos / "elk").iterdir())):
        write_image(file, 500 + number)
    with pytest.raises(KeyboardInterrupt):
        indexed(FakeModel(fail_at=1), photos, out, batch=3)
    assert out.read_bytes() == before
    model = FakeModel()
    assert counts(indexed(model, photos, out)) == (20, 8, 0, 0, 12, 5)
    check(out, photos)


def test_what_another_model_left_is_not_used(photos, out):
    with pytest.raises(KeyboardInterrupt):
        indexed(FakeModel(1, fail_at=2), photos, out, batch=4)
    model = FakeModel()
    assert indexed(model, photos, out).embedded == model.embedded == 12
    check(out, photos)


@pytest.mark.parametrize("left", [b"", b"nonsense", b"shadowmx" + bytes(60)])
def test_a_damaged_part_is_not_used(photos, out, left):
    part = out.with_name(f".{out.name}.part")
    part.write_bytes(left)
    model = FakeModel()
    assert indexed(model, photos, out).embedded == model.embedded == 12
    assert left_over(out) == []


def test_rows_of_a_part_are_believed(photos, out):
    """The part is read at all: rows that nobody embeds come back."""
    indexed(FakeModel(), photos, out)
    about, found = read_index(out)
    made_up = np.full_like(np.asarray(found.rows), 0.25)
    write_index(out.with_name(f".{out.name}.part"), about, replace(found, rows=made_up))
    out.unlink()
    assert indexed(FakeModel(), photos, out).embedded == 0
    assert (read_index(out)[1].rows == 0.25).all()


def test_the_part_is_written_now_and_then(photos, out, monkeypatch):
    monkeypatch.setattr(indexing, "PART_EVERY", -1.0)
    seen = []

    class Looking(FakeModel):
        def embed(self, squares):
            part = out.with_name(f".{out.name}.part")
            seen.append(len(read_index(part)[1]) if part.exists() else 0)
            return super().embed(squares)

    indexed(Looking(), photos, out, batch=4)
    assert seen == [0, 4, 8]
    assert left_over(out) == []


def test_a_file_that_changes_while_it_is_indexed_has_the_row_of_what_was_read(photos, out):
    class Late(FakeModel):
        def embed(self, squares):
            if not self.batches:
                write_image(photos / "cat" / "3.png", 999)  # its digest was taken before
            return super().embed(squares)

    indexed(Late(), photos, out, batch=1)
    done = indexed(FakeModel(), photos, out)
    assert done.embedded + done.unchanged == 12
    check(out, photos)


def test_a_disk_that_is_full_leaves_the_old_index(photos, out, monkeypatch):
    indexed(FakeModel(), photos, out)
    before = out.read_bytes()
    write_image(photos / "ant" / "0.png", 950)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(indexing, "write_index", full)
        with pytest.raises(OSError, match="No space"):
            indexed(FakeModel(), photos, out)
    assert out.read_bytes() == before
    indexed(FakeModel(), photos, out)
    check(out, photos)


def test_the_lock_is_given_back_whatever_happens(photos, out):
    with pytest.raises(KeyboardInterrupt) as held:  # and its frames with it
        indexed(FakeModel(fail_at=0), photos, out)
    assert indexed(FakeModel(), photos, out).embedded == 12
    assert held.value is not None


def test_an_index_of_two_processes_is_refused(photos, out):
    with FileLock(out.with_name(f".{out.name}.lock")):
        model = FakeModel()
        with pytest.raises(Mistake, match=r"another process is indexing into .*; wait for it, or name another --out"):
            indexed(model, photos, out)
        assert model.embedded == 0
        indexed(model, photos, out.with_name("y.shadowmx"))
    assert indexed(FakeModel(), photos, out).embedded == 12


CHILD = """
import sys, time
from pathlib import Path
from image_folders import FakeModel, indexed
from shadowmetric.app.serving.indexing import build as indexing

indexing.PART_EVERY = -1.0

class Slow(FakeModel):
    def embed(self, squares):
        if self.batches == 2:
            print("busy", flush=True)
            time.sleep(600)
        return super().embed(squares)

indexed(Slow(), Path(sys.argv[1]), Path(sys.argv[2]), batch=2)
"""


def test_a_kill_leaves_the_old_index_and_the_next_call_goes_on(photos, out):
    few = out.with_name("few")
    write_folder(few, ("ant",))
    indexed(FakeModel(), few, out)
    before = out.read_bytes()
    here = Path(__file__).parents[1]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, photos, out],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(here), *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"busy\n"
        with pytest.raises(Mistake, match="another process is indexing"):
            indexed(FakeModel(), photos, out)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert out.read_bytes() == before
    assert len(read_index(out)[1]) == 4
    model = FakeModel()
    done = indexed(model, photos, out)
    assert (done.images, done.embedded, model.embedded) == (12, 4, 4)  # 4 of the old index, 4 of the part
    check(out, photos)


def test_old_pieces_of_a_killed_writer_are_removed(photos, out):
    left = out.with_name(f".{out.name}.0123456789abcdef")
    left.mkdir()
    (left / "new-x.shadowmx").write_bytes(b"half an index")
    days_ago = time.time() - 2 * ABANDONED  # of another machine, whose locks are not seen
    for place in (left / "new-x.shadowmx", left):
        os.utime(place, (days_ago, days_ago))
    indexed(FakeModel(), photos, out)
    assert not left.exists()


def test_a_small_index_made_by_hand_is_renewed(photos, out):
    small_index(out)
    done = indexed(FakeModel(), photos, out)
    assert (done.removed, done.added) == (5, 12)
    check(out, photos)
