"""A dataset is put in its place as a whole or not at all."""

import pytest

from shadowmetric.app.data.datasets.downloads import download_with_torchvision
from shadowmetric.app.data.manage.placing import stage_data_root
from shadowmetric.errors import DataMistake
from shadowmetric.runtime.unfinished import MACHINE


def make(fresh, folder="a/b"):
    (fresh / folder).mkdir(parents=True)
    (fresh / folder / "file").write_text("x")
    (fresh / "left over").mkdir()


def test_the_folder_is_moved_and_nothing_else(tmp_path):
    root = tmp_path / "new" / "root"
    with stage_data_root(root, "a/b") as fresh:
        make(fresh)
        assert fresh.parent == root
        assert not (root / "a").exists()
    assert [path.relative_to(root).as_posix() for path in sorted(root.rglob("*"))] == ["a", "a/b", "a/b/file"]


def test_what_a_killed_command_left_is_removed_by_the_next_and_not_what_is_under_way(tmp_path):
    left = tmp_path / f".new.{MACHINE}{'0' * 10}"
    make(left)
    with stage_data_root(tmp_path, "a/b") as fresh:
        assert not left.exists()
        make(fresh)
        with stage_data_root(tmp_path, "c") as other:
            make(other, "c")
        assert (fresh / "a/b/file").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, DataMistake])
def test_an_error_leaves_nothing_behind(tmp_path, error):
    def interrupted(root):
        with stage_data_root(root, "a/b") as fresh:
            make(fresh)
            raise error("half-way")

    (tmp_path / "old").mkdir()
    for root in (tmp_path / "old", tmp_path / "new"):
        with pytest.raises(error, match="half-way"):
            interrupted(root)
    assert [*tmp_path.rglob("*")] == [tmp_path / "old"]


def test_what_is_there_is_not_touched(tmp_path):
    make(tmp_path)
    with pytest.raises(DataMistake, match="is there already"), stage_data_root(tmp_path, "a/b"):
        pytest.fail("it began")
    assert (tmp_path / "a/b/file").read_text() == "x"


def test_a_root_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(DataMistake, match="could not be made: File exists; look"),
        stage_data_root(tmp_path / "file", "a"),
    ):
        pytest.fail("it began")


class Toy:
    """Stands for a dataset of torchvision."""

    def __init__(self, root, download):
        assert download
        make(root, "Toy/raw")
        if self.broken:
            raise RuntimeError("no\nconnection.")


@pytest.mark.parametrize("broken", [False, True])
def test_a_download_comes_whole_or_not_at_all(tmp_path, monkeypatch, broken):
    import torchvision.datasets

    monkeypatch.setattr(torchvision.datasets, "MNIST", type("MNIST", (Toy,), {"broken": broken}))
    if broken:
        with pytest.raises(DataMistake, match=r"MNIST could not be downloaded \(no connection\); try again"):
            download_with_torchvision("MNIST", "Toy/raw", tmp_path)
        assert [*tmp_path.iterdir()] == []
    else:
        download_with_torchvision("MNIST", "Toy/raw", tmp_path)
        assert (tmp_path / "Toy/raw/file").exists()
