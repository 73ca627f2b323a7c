"""Adding a dataset from archives: what goes where, what is compared, and that nothing is left of a failure."""

import hashlib
import io
import shutil
import tarfile
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest

from shadowmetric.app.data.catalogue import DATASETS
from shadowmetric.app.data.manage.adding import INSIDE, MD5, add_archives, check_space, space_needed
from shadowmetric.app.data.manage.unpacking import Limits
from shadowmetric.app.data.own.folder import read_folder
from shadowmetric.errors import DataMistake

WHOLE = ("a/1.png", "a/2.png", "b/1.png", "b/2.png")


def read(root, allow_partial):
    """Read a folder per class below Toy; four images are all of it."""
    found = read_folder(root / "Toy")
    if len(found.train) + len(found.test) != 4 and not allow_partial:
        raise DataMistake(f"{root / 'Toy'} is not whole.")
    return found


TOY = replace(DATASETS["cub200"], name="toy", folder="Toy", read=read)


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def tree(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def root(tmp_path):
    return tmp_path / "data"


@pytest.mark.parametrize("top", ["", "Toy/", "wrapped/Toy/"])
def test_an_archive_with_or_without_the_dataset_s_folder(tmp_path, root, top):
    archive = zipped(tmp_path / "toy.zip", *(f"{top}{name}" for name in WHOLE), "__MACOSX/x")
    stages = []
    added = add_archives(TOY, [archive], root, report=lambda stage, share: stages.append(stage))
    assert tree(root) == [f"Toy/{name}" for name in WHOLE]
    assert added.counts == {"train": (2, 2), "test": (2, 2)}
    assert added.sums == {"toy.zip": hashlib.sha256(archive.read_bytes()).hexdigest()}
    assert "No split is given" in added.notes[0]
    assert set(stages) == {"checksum", "unpack"}


def test_loose_images_get_a_folder_by_the_archive_s_name_and_other_files_are_copied(tmp_path, root):
    archives = [zipped(tmp_path / f"{name}.zip", "1.png", "2.JPG") for name in "ab"]
    (tmp_path / "labels.csv").write_text("x")
    add_archives(TOY, [*archives, tmp_path / "labels.csv"], root)
    assert tree(root / "Toy") == ["a/1.png", "a/2.JPG", "b/1.png", "b/2.JPG", "labels.csv"]


def test_a_lone_file_may_have_its_own_place(tmp_path, root, monkeypatch):
    monkeypatch.setitem(INSIDE, ("toy", "list.txt"), "Eval")
    (tmp_path / "list.txt").write_text("x")
    add_archives(TOY, [tmp_path / "list.txt", zipped(tmp_path / "a.zip", *WHOLE)], root)
    assert "Eval/list.txt" in tree(root / "Toy")


def nothing_is_added(archives, root, sentence, error=DataMistake, **settings):
    with pytest.raises(error, match=sentence):
        add_archives(settings.pop("reader", TOY), archives, root, **settings)
    assert not root.exists()


def test_what_its_reader_refuses_is_not_added(tmp_path, root):
    archive = zipped(tmp_path / "toy.zip", *WHOLE[:3])
    nothing_is_added([archive], root, f"nothing was added: {root}/Toy is not whole")
    assert add_archives(TOY, [archive], root, allow_partial=True).counts["train"] == (2, 2)


def test_what_is_hostile_is_not_added(tmp_path, root):
    with tarfile.open(tmp_path / "toy.tgz", "w:gz") as archive:
        for name in (*WHOLE, "../evil"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    nothing_is_added([tmp_path / "toy.tgz"], root, "leads out of its folder")
    assert not (tmp_path / "evil").exists()
    nothing_is_added([zipped(tmp_path / "a.zip", *WHOLE)], root, "more than 3 members", limits=Limits(members=3))


@pytest.mark.parametrize("stop", ["checksum", "unpack"])
def test_an_interruption_leaves_nothing_behind(tmp_path, root, stop):
    def report(stage, share):
        if stage == stop:
            raise KeyboardInterrupt("half-way")

    nothing_is_added([zipped(tmp_path / "a.zip", *WHOLE)], root, "half-way", KeyboardInterrupt, report=report)


def test_an_official_name_needs_the_official_sum(tmp_path, root, monkeypatch):
    archive = zipped(tmp_path / "toy.zip", *WHOLE)
    monkeypatch.setitem(MD5, ("toy", "toy.zip"), "0" * 32)
    nothing_is_added([archive], root, f"the official archive {'0' * 32}; get it again")
    monkeypatch.setitem(MD5, ("toy", "toy.zip"), hashlib.md5(archive.read_bytes()).hexdigest())
    add_archives(TOY, [archive], root)


def test_what_is_there_already_or_twice_or_not_there(tmp_path, root):
    archive = zipped(tmp_path / "toy.zip", *WHOLE)
    nothing_is_added([archive, archive], root, "toy.zip has a, which an archive before it has too")
    nothing_is_added([tmp_path / "gone.zip"], root, "gone.zip is not there; name the archive's file")
    nothing_is_added([tmp_path], root, "is a folder; name the archive's file")
    add_archives(TOY, [archive], root)
    with pytest.raises(DataMistake, match="is there already"):
        add_archives(TOY, [archive], root)


def test_the_disk_must_have_room(tmp_path, root, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    archive = zipped(tmp_path / "toy.zip", *WHOLE)
    assert space_needed(archive) == sum(len(name) for name in WHOLE)
    nothing_is_added([archive], root, "GB free and")
    check_space(root, 10)
    with pytest.raises(DataMistake, match="make room or choose another --data-root"):
        check_space(root, 11)


def test_the_sums_are_torchvision_s():
    from torchvision import datasets

    sums = {(ours, file): md5 for ours, theirs in (("mnist", datasets.MNIST), ("fashion_mnist", datasets.FashionMNIST))
            for file, md5 in theirs.resources}  # fmt: skip
    for ours, theirs in (("cifar10", datasets.CIFAR10), ("cifar100", datasets.CIFAR100)):
        sums[ours, theirs.filename] = theirs.tgz_md5
    assert sums == MD5
    assert all(file in DATASETS[name].archives for name, file in (*MD5, *INSIDE))
