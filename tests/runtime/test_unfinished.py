"""What a kill leaves of something unfinished is removed by the next maker of it; nothing of one at work is."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from shadowmetric.runtime import unfinished
from shadowmetric.runtime.files import write_text, write_whole
from shadowmetric.runtime.unfinished import ABANDONED, MACHINE, folder_beside, temporary_folder

HOLD = """
import sys, time
from pathlib import Path
from shadowmetric.runtime.unfinished import folder_beside
with folder_beside(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print(folder.name, flush=True)
    time.sleep(600)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def left_behind(folder, name, age=0.0):
    """Make what a kill leaves."""
    left = folder / name
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "half").write_text("half")
    for path in (left / "deep" / "half", left / "deep", left):
        os.utime(path, (time.time() - age,) * 2)
    return left


def test_it_is_there_for_its_maker_and_gone_afterwards(tmp_path):
    with folder_beside(tmp_path / "deep" / "thing") as folder:
        assert folder.parent == tmp_path / "deep"
        assert re.fullmatch(rf"\.thing\.{MACHINE}[0-9a-f]{{10}}", folder.name)
        (folder / "half").write_text("half")
    assert names(tmp_path / "deep") == []


def test_what_a_killed_process_left_is_removed_by_the_next_one_and_no_earlier(tmp_path):
    maker = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "thing")], stdout=subprocess.PIPE, text=True)
    left = tmp_path / maker.stdout.readline().strip()
    write_text(tmp_path / "thing", "whole")
    assert (left / "half").exists()  # its maker lives
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    write_text(tmp_path / "other", "whole")
    assert (left / "half").exists()  # the leftover of another thing
    write_text(tmp_path / "thing", "again")
    assert names(tmp_path) == ["other", "thing"]


def test_nothing_but_leftovers_of_this_very_name_is_removed(tmp_path):
    digits = f"{MACHINE}{'0' * 10}"
    others = [f".other.{digits}", f"thing.{digits}", f".thing.{digits}0", f".thing.{'g' * 16}", ".thing.x.lock"]
    for name in others:
        left_behind(tmp_path, name)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / f".thing.{MACHINE}{'1' * 10}").symlink_to(tmp_path / "elsewhere")
    (tmp_path / f".thing.{MACHINE}{'2' * 10}").write_text("a file, which we never make so")
    before = names(tmp_path)
    write_text(tmp_path / "thing", "whole")
    assert names(tmp_path) == sorted([*before, "thing"])
    assert (tmp_path / "elsewhere" / "kept").exists()


@pytest.mark.parametrize(("age", "stays"), [(ABANDONED - 60, True), (ABANDONED + 60, False)])
def test_what_another_machine_left_is_removed_when_it_is_old(tmp_path, age, stays):
    other = "0" * 6 if MACHINE != "0" * 6 else "1" * 6
    left = left_behind(tmp_path, f".thing.{other}{'0' * 10}", age)
    write_text(tmp_path / "thing", "whole")
    assert left.exists() == stays


@pytest.mark.parametrize(("age", "stays"), [(ABANDONED - 60, True), (ABANDONED + 60, False)])
def test_where_there_are_no_locks_age_decides(tmp_path, monkeypatch, age, stays):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    left = left_behind(tmp_path, f".thing.{MACHINE}{'0' * 10}", age)
    write_text(tmp_path / "thing", "whole")
    assert left.exists() == stays
    assert (tmp_path / "thing").read_text() == "whole"


def test_one_change_deep_inside_is_a_sign_of_life(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    left = left_behind(tmp_path, f".thing.{MACHINE}{'0' * 10}", ABANDONED + 60)
    os.utime(left / "deep" / "half")
    write_text(tmp_path / "thing", "whole")
    assert left.exists()


def test_somebody_who_clears_away_between_making_and_locking_disturbs_nobody(tmp_path, monkeypatch):
    take, taken = unfinished.take_lock, []

    def cleared(folder):
        if not taken:
            shutil.rmtree(folder)
        taken.append(folder)
        return take(folder)

    monkeypatch.setattr(unfinished, "take_lock", cleared)
    with folder_beside(tmp_path / "thing") as folder:
        assert len(taken) == 2
        assert folder == taken[1]
        assert folder.is_dir()


def test_many_writers_of_one_file_leave_one_of_their_texts_and_nothing_else(tmp_path):
    errors = []

    def write(number):
        try:
            for _ in range(20):
                write_text(tmp_path / "thing", f"{number}" * 1000)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names(tmp_path) == ["thing"]
    assert len(set((tmp_path / "thing").read_text())) == 1


def test_a_writer_that_replaces_its_file_instead_of_filling_it_is_as_good(tmp_path):
    def write(place):
        (place.parent / "library's own").write_text("whole")
        (place.parent / "library's own").replace(place)
        (place.parent / "dropping").touch()
        write_text(tmp_path / "thing", "another")  # would remove what nobody holds

    write_whole(tmp_path / "thing", write)
    assert (tmp_path / "thing").read_text() == "whole"
    assert names(tmp_path) == ["thing"]


def test_temporary_folders_of_killed_commands_go_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(unfinished.tempfile, "tempdir", str(tmp_path))
    left = left_behind(tmp_path, f".shadowmetric.{MACHINE}{'0' * 10}")
    with temporary_folder() as folder, temporary_folder() as second:
        assert folder.parent == second.parent == tmp_path
        assert folder.stat().st_mode & 0o77 == 0
        assert not left.exists()
        assert folder.exists()
    assert names(tmp_path) == []
