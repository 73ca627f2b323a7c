"""Images to rows: in order, a batch at a time, never far ahead of the model, the broken ones named."""

import hashlib
import threading

import numpy as np
import pytest
from image_folders import FakeModel, pixels, write_folder, write_image

from shadowmetric.app.serving.indexing import embedding
from shadowmetric.app.serving.indexing.embedding import digests_of, embed_images, in_threads
from shadowmetric.app.serving.indexing.listing import Listed, list_images
from shadowmetric.runtime.images import Shape


def made(model, folder, **more):
    return list(embed_images(model, folder, list_images(folder).images, **more))


def flat(batches):
    return [one for some in batches for one in some]


@pytest.mark.parametrize("batch", [1, 2, 5, 12, 13, 100])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_equal_a_plain_loop(tmp_path, batch, threads):
    listing, model = list_images(write_folder(tmp_path)), FakeModel()
    batches = made(model, tmp_path, batch=batch, threads=threads)
    assert [len(some) for some in batches] == [batch] * (12 // batch) + ([12 % batch] if 12 % batch else [])
    assert model.embedded == 12
    for one, listed in zip(flat(batches), listing.images, strict=True):
        seed = 100 * "abc".index(listed.path[0]) + int(listed.path[4])
        row = FakeModel().embed(pixels(seed)[None, None])[0]
        assert one.listed == listed
        assert np.allclose(one.row, row, atol=1e-6)
        assert one.digest == hashlib.sha256((tmp_path / listed.path).read_bytes()).digest()


def test_no_images_make_no_batches(tmp_path):
    assert list(embed_images(FakeModel(), tmp_path, [])) == []
    assert list(digests_of(tmp_path, [])) == []


def test_broken_images_are_named_and_left_out(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "ant" / "1.png").write_bytes(b"text")
    (tmp_path / "bee" / "2.png").write_bytes((tmp_path / "bee" / "2.png").read_bytes()[:-40])
    (tmp_path / "cat" / "3.png").write_bytes(b"")
    broken = []
    batches = made(FakeModel(), tmp_path, batch=4, broken=broken)
    assert [len(some) for some in batches] == [4, 4, 1]
    assert [sentence.split(" ")[0] for sentence in broken] == ["ant/1.png", "bee/2.png", "cat/3.png"]
    assert all("cannot be read as an image (" in sentence for sentence in broken)
    assert len(flat(made(FakeModel(), tmp_path))) == 9


def test_a_strip_that_is_too_narrow_is_named(tmp_path):
    write_image(tmp_path / "strip.png", 0, 1, 20_000)
    broken = []
    assert made(FakeModel(shape=Shape(96, 96, 1)), tmp_path, broken=broken) == []
    assert broken[0].startswith("strip.png")
    assert "too narrow" in broken[0]


def test_files_that_vanish_are_named(tmp_path):
    write_folder(tmp_path)
    images = [*list_images(tmp_path).images, Listed("zebra/gone.png", "zebra")]
    broken, other = [], []
    assert len(list(digests_of(tmp_path, images, broken=broken))) == 12
    assert broken == ["zebra/gone.png cannot be read (No such file or directory)."]
    assert len(flat(embed_images(FakeModel(), tmp_path, images, broken=other))) == 12
    assert [sentence.split(" ")[0] for sentence in other] == ["zebra/gone.png"]


def test_a_file_of_too_many_bytes_is_not_read(tmp_path, monkeypatch):
    write_folder(tmp_path, ("ant",), 2)
    (tmp_path / "ant" / "0.png").write_bytes(b"x" * 1001)
    monkeypatch.setattr(embedding, "MOST_BYTES", 1000)
    broken = []
    assert len(flat(made(FakeModel(), tmp_path, broken=broken))) == 1
    assert broken == ["ant/0.png has 1,001 bytes; the most is 1,000."]


def test_digests_are_those_of_the_files(tmp_path):
    listing = list_images(write_folder(tmp_path))
    found = list(digests_of(tmp_path, listing.images, threads=2))
    assert found == [(one, hashlib.sha256((tmp_path / one.path).read_bytes()).digest()) for one in listing.images]


def test_threads_keep_the_order_and_are_not_far_ahead():
    started, lock = [], threading.Lock()

    def make(item):
        with lock:
            started.append(item)
        return item * item

    seen = in_threads(make, iter(range(1000)), 4, ahead=10)
    for taken in range(50):
        assert next(seen) == taken * taken
        assert max(started) <= taken + 10
    seen.close()
    assert len(started) < 100
    assert list(in_threads(make, range(5), None, ahead=100)) == [0, 1, 4, 9, 16]


def test_what_a_thread_raises_is_raised():
    def make(item):
        if item == 3:
            raise MemoryError("too much")
        return item

    with pytest.raises(MemoryError, match="too much"):
        list(in_threads(make, range(9), 2, ahead=4))
