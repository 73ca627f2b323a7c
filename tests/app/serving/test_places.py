"""Places that will not do, refused before the work; and what is left of the trial: nothing."""

import pytest

from shadowmetric.app.serving.places import check_run, check_writable
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake


def test_a_folder_that_can_be_written_to_or_made_is_left_as_it_is(tmp_path):
    check_writable(tmp_path, "")
    check_writable(tmp_path / "new" / "folder", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/below", "/proc", "/proc/new"])
def test_a_folder_that_cannot_is_named_with_the_remedy(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(Mistake, match=rf"^the folder {tmp_path / place} cannot be written to \(.+\); name another\.$"):
        check_writable(tmp_path / place, "name another")


def test_a_file_is_no_run(tmp_path):
    file = tmp_path / "x.npz"
    file.touch()
    with pytest.raises(Mistake, match=r"is a file; give the folder of a run, which .* wrote, or so\.$"):
        check_run(file, ", or so")
    with pytest.raises(Mistake, match=r"is a file; a run is a folder, which `shadowmetric train` wrote\.$"):
        Run(file).settings()
    check_run(tmp_path)
