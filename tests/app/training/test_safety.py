"""A run never ends well where it did not: damaged files, a folder that is gone, two trainers at once, a full disk."""

import json
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from filelock import FileLock

from shadowmetric.app.training import loop
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.lock import RunLock
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.show import Silent
from shadowmetric.errors import Interrupted, Mistake, Stopped

SMALL = {"device": "cpu", "epochs": 2, "batches": 3, "batch": 8, "per_class": 2, "dim": 4, "patience": 0}
HOLD = """
import sys, time
from pathlib import Path
from shadowmetric.app.training.runs.lock import RunLock
from shadowmetric.app.training.runs.run import Run
lock = RunLock(Run(Path(sys.argv[1])))
lock.take()
print("held", flush=True)
time.sleep(600)
"""


class Acting(Silent):
    """Does something after a batch of an epoch."""

    def __init__(self, at, act):
        self.at, self.act = at, act

    def wants(self):
        return True

    def moment(self, moment):
        if (moment.epoch, moment.batch) == self.at:
            self.act()


@pytest.fixture(scope="module", autouse=True)
def one_thread_for_all():
    """Compute with one thread, fixtures of this module included: sums in another order have other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "a.npz"
    np.savez(file, images=np.random.default_rng(0).integers(0, 256, (40, 8, 8), np.uint8), labels=np.arange(40) % 4)
    return TrainSettings(data=f"npz:{file}", validation=0.3, save_every=0.0, **SMALL)


@pytest.fixture(scope="module")
def stopped(settings, tmp_path_factory):
    """Return a run that was stopped in its second epoch."""
    folder = tmp_path_factory.mktemp("runs") / "stopped"
    with pytest.raises(Interrupted):
        train(settings, folder, show=Acting((2, 2), lambda: signal.raise_signal(signal.SIGTERM)))
    return folder


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(settings, folder)
    return Run(folder)


def same(run, whole):
    assert run.best_file.read_bytes() == whole.best_file.read_bytes()
    assert {**run.scores(), "train_seconds": 0} == {**whole.scores(), "train_seconds": 0}


@contextmanager
def largest_file(size):
    """Let no file grow beyond so many bytes: what a full disk is to a writer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[0][1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[0])
        signal.signal(signal.SIGXFSZ, before[1])


@pytest.mark.parametrize("name", ["last/state.pt", "settings.yaml", "best.safetensors", "digests.json"])
def test_a_resume_refuses_every_damaged_file_by_name(stopped, tmp_path, name, monkeypatch):
    monkeypatch.setattr(loop, "set_up", lambda *given, **more: pytest.fail(f"a damaged {name} was accepted"))
    shutil.copytree(stopped, tmp_path / "run")
    file = tmp_path / "run" / name
    stored = file.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(50):
        damaged = bytearray(stored)
        damaged[random.integers(len(stored))] ^= 1 << random.integers(7)  # settings stay ASCII
        if name == "digests.json" and json.loads(stored) == loaded(damaged):
            continue  # a space became another white space
        file.write_bytes(damaged)
        with pytest.raises(Mistake, match=r"is not as it was written|is not in digests\.json|digests\.json is damaged"):
            train(TrainSettings(), tmp_path / "run", resume=True)
    for damaged in (b"", stored[:-2], stored + b"\n"):
        file.write_bytes(damaged)
        if name != "digests.json" or damaged != stored + b"\n":
            with pytest.raises(Mistake, match=file.name):
                train(TrainSettings(), tmp_path / "run", resume=True)


def loaded(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_a_state_without_digests_is_refused(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "run")
    (tmp_path / "run" / "digests.json").unlink()
    with pytest.raises(Mistake, match=r"cannot be trusted: digests\.json is not in"):
        train(TrainSettings(), tmp_path / "run", resume=True)


def test_best_weights_that_are_gone_are_missed_at_once(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "run")
    (tmp_path / "run" / "best.safetensors").unlink()
    with pytest.raises(Mistake, match=r"best\.safetensors is not there"):
        train(TrainSettings(), tmp_path / "run", resume=True)


def test_weights_that_were_damaged_while_the_last_epochs_ran_are_not_scored(settings, tmp_path):
    best = tmp_path / "run" / "best.safetensors"

    def damage():
        best.write_bytes(best.read_bytes()[:-1] + b"x")

    one_epoch_more = Acting((2, 3), damage)
    with pytest.MonkeyPatch.context() as patch:  # the second epoch is no better
        patch.setattr("shadowmetric.app.training.epoch.judge_epoch", judged_by(iter([0.5, 0.4])))
        with pytest.raises(Mistake, match=r"best\.safetensors is not as it was written"):
            train(settings, tmp_path / "run", show=one_epoch_more)


def judged_by(recalls):
    rest = {"map_at_r": 0.1, "silhouette": 0.0, "effective_rank": 9.0}
    return lambda *given: {"recall_at_1": next(recalls), **rest}


@pytest.mark.parametrize("at", [(1, 2), (2, 3)])
@pytest.mark.parametrize("again", [False, True], ids=["gone", "another in its place"])
def test_a_folder_that_is_removed_ends_the_run(settings, tmp_path, at, again):
    folder = tmp_path / "run"

    def remove():
        shutil.rmtree(folder)
        if again:
            Run(folder).begin(settings)
            (folder / ".lock").touch()

    with pytest.raises(Stopped, match=f"{folder} was removed"):
        train(settings, folder, show=Acting(at, remove))
    assert folder.exists() == again
    assert not (folder / "last").exists()
    assert not (folder / "scores.json").exists()


def test_a_folder_that_is_renamed_ends_the_run_and_it_goes_on_from_there(settings, stopped, whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    with pytest.raises(Stopped, match="was removed or renamed"):
        train(settings, folder, resume=True, show=Acting((2, 3), lambda: folder.rename(tmp_path / "moved")))
    train(settings, tmp_path / "moved", resume=True)
    same(Run(tmp_path / "moved"), whole)


def test_one_of_two_trainers_is_refused(settings, stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "run")
    with FileLock(tmp_path / "run" / ".lock"), pytest.raises(Mistake, match="another process trains the run in"):
        train(settings, tmp_path / "run", resume=True)
    folder, seen = tmp_path / "new", []

    def another():  # while this one trains
        for resume in (False, True):
            with pytest.raises(Mistake, match=r"another process trains|holds a run already") as refused:
                train(settings, folder, resume=resume)
            seen.append(str(refused.value))

    train(settings, folder, show=Acting((1, 3), another))
    assert len(seen) == 2
    with FileLock(folder / ".lock", timeout=0):
        pass  # it was given back


def test_of_two_that_begin_at_once_one_gets_the_folder(settings, tmp_path):
    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run" / ".lock"), pytest.raises(Mistake, match="another process trains the run in"):
        train(settings, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_a_kill_gives_the_lock_back(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    lock = RunLock(Run(tmp_path))
    with pytest.raises(Mistake, match="another process"):
        lock.take()
    holder.kill()
    holder.communicate()
    lock.take()
    lock.give_back()


@pytest.mark.parametrize(
    ("at", "size", "name"),
    [
        ((2, 1), 100_000, "last/state.pt"),
        ((2, 3), 1000, "last/state.pt"),
        ((1, 1), 0, "last/state.pt"),
    ],
)
def test_a_full_disk_is_one_sentence_and_the_run_goes_on(settings, whole, tmp_path, at, size, name):
    folder, full = tmp_path / "run", None

    def fill():
        nonlocal full
        full = largest_file(size)
        full.__enter__()

    try:
        with pytest.raises(Stopped, match=f"{folder}/{name} cannot be written .File too large.*make room and go on"):
            train(settings, folder, show=Acting(at, fill))
    finally:
        full.__exit__(None, None, None)
    assert not [path for path in folder.rglob(".*") if path.name != ".lock"]
    train(settings, folder, resume=True)
    same(Run(folder), whole)


def test_a_disk_that_is_full_when_the_best_weights_come(settings, whole, tmp_path, monkeypatch):
    folder, judgment = tmp_path / "run", "shadowmetric.app.training.epoch.judge_epoch"
    from shadowmetric.app.training.epoch import judge_epoch as judge

    full = largest_file(2000)

    def judged(*given):
        figures = judge(*given)
        full.__enter__()
        return figures

    with monkeypatch.context() as patch:
        patch.setattr(judgment, judged)
        try:
            with pytest.raises(Stopped, match=r"best\.safetensors cannot be written .File too large"):
                train(settings, folder)
        finally:
            full.__exit__(None, None, None)
    train(settings, folder, resume=True)
    same(Run(folder), whole)


def test_a_new_run_on_a_full_disk_names_its_first_file(settings, tmp_path):
    from shadowmetric.app.training import setup

    begin = Run.begin
    with pytest.MonkeyPatch.context() as patch:

        def begun(run, given):
            with largest_file(10):
                begin(run, given)

        patch.setattr(setup.Run, "begin", begun)
        with pytest.raises(Stopped, match=r"run/replay\.txt cannot be written .File too large"):
            train(settings, tmp_path / "run")
    train(settings, tmp_path / "run")  # what is left of it is in nobody's way
