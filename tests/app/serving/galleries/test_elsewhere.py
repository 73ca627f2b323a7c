"""Images shown from another folder than the index says."""

import shutil

import numpy as np
import pytest
from image_folders import DIM, FakeModel, indexed, write_folder

from shadowmetric.app.serving.galleries.elsewhere import open_with_images
from shadowmetric.app.serving.galleries.gallery import Gallery
from shadowmetric.app.serving.searching.shown import small_image
from shadowmetric.errors import Mistake


def test_images_that_moved_are_shown_from_their_new_folder(tmp_path):
    photos, out = write_folder(tmp_path / "photos"), tmp_path / "x.shadowmx"
    indexed(FakeModel(), photos, out)
    moved = shutil.move(photos, tmp_path / "moved")
    before, after = open_with_images(str(out), None), open_with_images(str(out), tmp_path / "moved")
    assert isinstance(after, Gallery)
    assert after.about.root == str(moved)
    query = np.eye(1, DIM, dtype=np.float32)
    (hits,) = after.nearest(query, 3)
    assert hits == before.nearest(query, 3)[0]
    key = hits[0].entry.key
    assert (after.entry(key), len(after), after.classes()) == (before.entry(key), len(before), before.classes())
    assert (after.row(key) == before.row(key)).all()
    assert small_image(before.about.root, hits[0].entry.path, 8) is None
    assert small_image(after.about.root, hits[0].entry.path, 8) is not None
    after.close()


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    indexed(FakeModel(), write_folder(tmp_path / "photos"), tmp_path / "x.shadowmx")
    with pytest.raises(Mistake, match="is no folder; name the one that was indexed"):
        open_with_images(str(tmp_path / "x.shadowmx"), tmp_path / "none")
