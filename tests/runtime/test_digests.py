"""A record of digests: what is refused, what a kill between any two steps leaves, readers beside a writer."""

import os
import threading

import pytest

from shadowmetric.errors import Mistake
from shadowmetric.runtime import digests as module
from shadowmetric.runtime.digests import Digests


def write(folder, text, name="a.txt"):
    (folder / name).parent.mkdir(exist_ok=True)
    Digests(folder).write(folder / name, lambda place: place.write_text(text))


def test_a_file_that_was_changed_exchanged_or_never_written_is_refused(tmp_path):
    digests = Digests(tmp_path, "make it anew")
    write(tmp_path, "one")
    write(tmp_path, "two", "below/b.txt")
    assert digests.read(tmp_path / "a.txt") == b"one"
    assert digests.check(tmp_path / "below" / "b.txt") == digests.record()["below/b.txt"][0]
    (tmp_path / "a.txt").write_text("onf")
    with pytest.raises(Mistake, match=r"a\.txt is not as it was written; make it anew\."):
        digests.read(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("two")
    with pytest.raises(Mistake, match="is not as it was written"):
        digests.check(tmp_path / "a.txt")
    (tmp_path / "c.txt").write_text("c")
    with pytest.raises(Mistake, match=r"c\.txt is not in digests\.json beside it"):
        digests.read(tmp_path / "c.txt")
    with pytest.raises(FileNotFoundError):
        digests.read(tmp_path / "d.txt")


def test_a_folder_without_a_record_is_of_an_earlier_version(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    assert not Digests(tmp_path).has_record()
    assert Digests(tmp_path).read(tmp_path / "a.txt") == b"old"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"sha256": {}}', '{"sha256": {"a": "b"}, "of_these": ""}', "[" * 9000, "9" * 5000, "\xff"]
)
def test_a_damaged_record_is_refused_by_name(tmp_path, text):
    write(tmp_path, "one")
    (tmp_path / "digests.json").write_text(text, encoding="latin-1")
    with pytest.raises(Mistake, match=r"digests\.json is damaged"):
        Digests(tmp_path).read(tmp_path / "a.txt")


class Killed(BaseException):
    """Ends a write as a kill does."""


def test_a_kill_between_any_two_steps_leaves_a_file_that_is_read(tmp_path, monkeypatch):
    steps = 0
    replace = os.replace

    def counted(*given):
        nonlocal steps
        steps += 1
        if steps == fatal:
            raise Killed
        replace(*given)
        if steps == fatal - 0.5:
            raise Killed

    monkeypatch.setattr(os, "replace", counted)
    fatal = 0
    write(tmp_path, "0")
    assert steps == 3  # the record, the file, the record
    for number, fatal in enumerate((1, 1.5, 2, 2.5, 3, 3.5, 2, 2.5, 1.5), start=1):  # one after another: no repair
        steps = 0
        with pytest.raises(Killed):
            write(tmp_path, str(number))
        found = Digests(tmp_path).read(tmp_path / "a.txt")
        assert int(found) in range(number + 1)
        if fatal > 2:
            assert int(found) == number
    steps, fatal = 0, 0
    write(tmp_path, "last")
    assert len(Digests(tmp_path).record()["a.txt"]) == 1


def test_a_reader_beside_a_writer_is_never_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)
    write(tmp_path, "0")
    done, seen = threading.Event(), []

    def read():
        while not done.is_set():
            try:
                seen.append(int(Digests(tmp_path).read(tmp_path / "a.txt")))
            except Mistake as refusal:
                seen.append(str(refusal))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 200):
        write(tmp_path, str(number))
    done.set()
    reader.join()
    assert all(isinstance(one, int) for one in seen), seen
    assert seen == sorted(seen)


def test_what_is_written_is_what_is_hashed(tmp_path):
    write(tmp_path, "one")
    assert module.sha256_of(tmp_path / "a.txt") == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
