"""Archives, honest and hostile: what comes out, what is refused, and that a refusal leaves nothing behind."""

import gzip
import io
import random
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from shadowmetric.app.data.manage.archive import is_archive, unpack
from shadowmetric.app.data.manage.unpacking import Limits
from shadowmetric.errors import DataMistake

MODES = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.xz": "w:xz"}


def member(name, kind=tarfile.REGTYPE, link="", size=0):
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size = kind, link, size
    return found


def tar(path, *members):
    """Write a tar of (name, content) pairs and of members made by hand."""
    with tarfile.open(path, next(mode for end, mode in MODES.items() if path.name.endswith(end))) as archive:
        for entry in members:
            name, content = entry if isinstance(entry, tuple) else (entry, b"")
            info = name if isinstance(name, tarfile.TarInfo) else member(name, size=len(content))
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path, *members):
    """Write a zip of (name, content, kind of file) entries."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, *kind in members:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (kind[0] if kind else stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)
    return path


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(archive, tmp_path, sentence, **settings):
    """See an archive refused with nothing left behind, inside or outside of its folder."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataMistake, match=sentence):
        unpack(archive, tmp_path / "out", **settings)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("end", MODES)
def test_a_tar_comes_out(tmp_path, end):
    shares = []
    archive = tar(tmp_path / f"a{end}", member("./d", tarfile.DIRTYPE), ("./d/x", b"1" * 70_000), ("y", b"2"))
    report = lambda stage, share: shares.append((stage, share))  # noqa: E731
    assert unpack(archive, tmp_path / "out", report=report) == 2
    assert tree(tmp_path / "out") == {"d/x": b"1" * 70_000, "y": b"2"}
    assert {stage for stage, _ in shares} == {"unpack"}
    assert 0 < max(share for _, share in shares) <= 1


def test_a_zip_comes_out(tmp_path):
    archive = zipped(tmp_path / "a.zip", ("d/", b""), ("d/x", b"1" * 70_000), ("y", b"2", 0))
    assert unpack(archive, tmp_path / "out") == 2
    assert tree(tmp_path / "out") == {"d/x": b"1" * 70_000, "y": b"2"}


def test_links_that_stay_inside_are_made(tmp_path):
    links = member("d/soft", tarfile.SYMTYPE, "../x"), member("hard", tarfile.LNKTYPE, "x")
    unpack(tar(tmp_path / "a.tar", links[0], ("x", b"1"), links[1]), tmp_path / "out")
    assert tree(tmp_path / "out") == {"x": b"1", "hard": b"1", "d/soft": b"1"}
    unpack(zipped(tmp_path / "a.zip", ("s", b"d/x", stat.S_IFLNK), ("d/x", b"2")), tmp_path / "out 2")
    assert (tmp_path / "out 2/s").read_bytes() == b"2"


def test_files_are_plain_whatever_the_archive_says(tmp_path):
    info = member("x", size=1)
    info.mode = 0o6777
    unpack(tar(tmp_path / "a.tar", (info, b"1")), tmp_path / "out")
    assert not (tmp_path / "out/x").stat().st_mode & 0o7111


BAD_NAMES = ["../x", "d/../../x", "/x", "d\\x", "C:x", "c:/x", "..", "d/.."]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("make", [tar, zipped])
def test_names_that_lead_out_are_refused(tmp_path, make, name):
    path = tmp_path / ("a.tar.gz" if make is tar else "a.zip")
    refused(make(path, ("good", b"1"), (name, b"2")), tmp_path, "so nothing of it was unpacked")


def test_a_zero_in_a_name_is_refused(tmp_path):
    archive = zipped(tmp_path / "a.zip", ("goodXbad", b"1"))
    archive.write_bytes(archive.read_bytes().replace(b"goodXbad", b"good\0bad"))
    refused(archive, tmp_path, r"has a member with the name 'good\\x00bad'")


@pytest.mark.parametrize(
    "links",
    [
        [member("s", tarfile.SYMTYPE, "/etc/passwd")],
        [member("s", tarfile.SYMTYPE, "../x")],
        [member("d/s", tarfile.SYMTYPE, "../../x")],
        [member("h", tarfile.LNKTYPE, "../x")],
        [member("h", tarfile.LNKTYPE, "/etc/passwd")],
        [member("h", tarfile.LNKTYPE, "not there")],
        [member("../s", tarfile.SYMTYPE, "x")],
        [member("s", tarfile.SYMTYPE, "d"), ("s/x", b"1")],
        [("s/x", b"1"), member("s", tarfile.SYMTYPE, "d")],
        # Each looks harmless by its name: together they lead to the folder above.
        [member("p/q", tarfile.SYMTYPE, ".."), member("z", tarfile.SYMTYPE, "p/q/..")],
        [member("p/q", tarfile.SYMTYPE, ".."), member("z", tarfile.SYMTYPE, "p/q/.."), ("z/evil", b"1")],
        [
            member("p/q", tarfile.SYMTYPE, ".."),
            member("z", tarfile.SYMTYPE, "p/q/.."),
            member("z/evil/s", tarfile.SYMTYPE, "x"),
        ],
    ],
)
def test_links_that_lead_out_or_over_something_are_refused(tmp_path, links):
    refused(tar(tmp_path / "a.tar", ("good", b"1"), *links), tmp_path, "has (a|the) (link|member)")


@pytest.mark.parametrize(("target", "size"), [(b"../x", 0), (b"/x", 0), (b"x" * 5000, 0)])
def test_links_in_a_zip_that_lead_out_are_refused(tmp_path, target, size):
    refused(zipped(tmp_path / "a.zip", ("s", target, stat.S_IFLNK)), tmp_path, "has the (link|member) 's'")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(tmp_path, kind):
    refused(tar(tmp_path / "a.tar", ("x", b"1"), member("d", kind)), tmp_path, "'d', which is no file, folder or link")


def test_a_device_in_a_zip_is_refused(tmp_path):
    refused(zipped(tmp_path / "a.zip", ("d", b"", stat.S_IFCHR)), tmp_path, "which is no file, folder or link")


@pytest.mark.parametrize("make", [tar, zipped])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_is_refused(tmp_path, make):
    path = tmp_path / ("a.tar" if make is tar else "a.zip")
    refused(make(path, ("x", b"1"), ("x", b"2")), tmp_path, "has the member 'x' twice")


SMALL = Limits(growth=100, free_bytes=1000)


@pytest.mark.parametrize("end", [".tar.gz", ".tar.xz", ".zip"])
def test_a_bomb_is_refused(tmp_path, end):
    make = zipped if end == ".zip" else tar
    bomb = make(tmp_path / f"a{end}", ("x", bytes(20 * 2**20)))
    refused(bomb, tmp_path, "100-fold", limits=SMALL)


def test_a_bomb_behind_the_end_of_a_tar_is_refused(tmp_path):
    content = tar(tmp_path / "a.tar", ("x", b"1")).read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(content + bytes(20 * 2**20)))
    refused(tmp_path / "b.tar.gz", tmp_path, "100-fold", limits=SMALL)


def test_a_bomb_among_photos_is_refused(tmp_path):
    photos = random.Random(0).randbytes(300_000)
    bomb = zipped(tmp_path / "a.zip", ("photos", photos), ("x", bytes(5 * 2**20)))
    refused(bomb, tmp_path, "has the member 'x', which grows more than 100-fold", limits=SMALL)


def test_photos_are_no_bomb(tmp_path):
    content = random.Random(0).randbytes(200_000)
    for number, make in enumerate((tar, zipped)):
        path = tmp_path / ("a.tar.gz" if make is tar else "a.zip")
        assert unpack(make(path, ("x", content)), tmp_path / f"{number}", limits=Limits(growth=2, free_bytes=0)) == 1


@pytest.mark.parametrize("make", [tar, zipped])
def test_limits_of_members_and_bytes(tmp_path, make):
    path = make(tmp_path / ("a.tar" if make is tar else "a.zip"), *((f"{n}", b"12345") for n in range(4)))
    refused(path, tmp_path, "has more than 3 members", limits=Limits(members=3))
    refused(path, tmp_path, "unpacks to more than 19 bytes", limits=Limits(total_bytes=19))
    assert unpack(path, tmp_path / "out", limits=Limits(members=4, total_bytes=10**5)) == 4


def test_a_copy_by_hard_links_counts(tmp_path):
    links = [member(f"{n}", tarfile.LNKTYPE, "x") for n in range(9)]
    path = tar(tmp_path / "a.tar.gz", ("x", b"1" * 100), *links)
    refused(path, tmp_path, "500 bytes", limits=Limits(total_bytes=500))
    refused(path, tmp_path, "2-fold", limits=Limits(growth=2, free_bytes=0))


def test_a_password_is_refused(tmp_path):
    content = bytearray(zipped(tmp_path / "a.zip", ("x", b"1")).read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(content)
    refused(tmp_path / "a.zip", tmp_path, "under a password")


@pytest.mark.parametrize("end", [*MODES, ".zip"])
def test_what_is_cut_short_or_damaged_is_refused(tmp_path, end):
    make = zipped if end == ".zip" else tar
    files = [(f"{n}", random.Random(n).randbytes(5000)) for n in range(20)]
    path = make(tmp_path / f"a{end}", *files)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(path, tmp_path, "is damaged or cut short")
    path.write_bytes(b"nothing of the kind")
    refused(path, tmp_path, "is damaged or cut short")
    if end != ".tar":  # which has no checksum of its contents
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
        refused(path, tmp_path, "is damaged or cut short")


def test_a_name_in_a_zip_that_is_no_utf_8_though_it_says_so_is_damage(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("\u00fc.jpg", b"x")
    stored = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(stored.replace("\u00fc".encode(), b"\xff\xfe"))
    with pytest.raises(DataMistake, match="damaged or cut short"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_a_header_that_is_damaged_does_not_end_a_tar_quietly(tmp_path):
    path = tar(tmp_path / "a.tar", ("x", b"1"), ("y", b"2"), ("z", b"3"))
    content = bytearray(path.read_bytes())
    content[1024:1030] = b"damage"
    path.write_bytes(content)
    refused(path, tmp_path, "something other than zeros follows the last member")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
def test_an_interruption_leaves_nothing_behind(tmp_path, error):
    archive = tar(tmp_path / "a.tar", ("x", b"1"), ("y", b"2"))

    def report(stage, share):
        if (tmp_path / "out/x").exists():
            raise error("disk full")

    with pytest.raises(DataMistake if error is OSError else error, match="disk full"):
        unpack(archive, tmp_path / "out", report=report)
    assert [*tmp_path.iterdir()] == [archive]


def test_what_is_an_archive():
    assert all(is_archive(Path(name)) for name in ("a.tar", "A.TGZ", "a.b.tar.gz", "a.tar.xz", "a.zip"))
    assert not any(is_archive(Path(name)) for name in ("a.gz", "a.csv", "zip", "a.mat"))
