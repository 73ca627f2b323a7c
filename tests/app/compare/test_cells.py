"""Several processes share a plan: nobody trains a cell that another holds, and what a dead one leaves is taken over."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from shadowmetric.app.compare import cells
from shadowmetric.app.compare.cells import Cell, run_cell, run_cells
from shadowmetric.app.training import loop
from shadowmetric.app.training.checkpoint import check_saved
from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.runs.lock import RunLock
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.setup import set_up
from shadowmetric.errors import Stopped

QUICK = TrainSettings(
    data="digits", device="cpu", epochs=1, batches=2, batch=20, per_class=2, most_per_class=12, validation=0.3
)


def hold(cell, held):
    """Hold a cell's lock until killed."""
    with cell.lock:
        held.set()
        time.sleep(600)


class Logged(Cell):
    """A cell whose trainings leave a line each, whichever process trains it."""

    def __reduce__(self):
        return logged, (self.folder, self.settings)


def logged(folder, settings):
    """Return such a cell, in a process that writes down what it trains."""
    loop.set_up = set_up_and_log
    return Logged(folder, settings)


def set_up_and_log(settings, run, *given, **more):
    with (run.folder.parent / "trained.txt").open("a") as file:
        file.write(f"{run.folder.name}\n")
    time.sleep(2)  # so that the other process comes by while this one trains
    return set_up(settings, run, *given, **more)


def run_all(wanted, together, answers):
    """Run cells as a command of its own would, when the other one is ready too."""
    cells.RETRY = 0.5
    together.wait(1200)
    answers.put(run_cells(wanted, 1))


def test_two_processes_on_one_plan_train_each_cell_once(tmp_path):
    wanted = [Logged(tmp_path / f"shadow-{seed}", replace(QUICK, seed=seed)) for seed in (0, 1)]
    context = multiprocessing.get_context("spawn")
    together, answers = context.Barrier(2), context.Queue()
    both = [context.Process(target=run_all, args=(wanted, together, answers)) for _ in range(2)]
    for one in both:
        one.start()
    found = [answers.get(timeout=1200) for _ in both]
    for one in both:
        one.join()
    assert found == [{}, {}]
    assert sorted((tmp_path / "trained.txt").read_text().split()) == ["shadow-0", "shadow-1"]
    for cell in wanted:
        assert cell.run.scores() is not None  # both answered after waiting for what the other trained
        assert len(cell.run.journal()) == 1


def test_a_cell_that_another_machine_began_goes_on_with_the_places_of_this_one(tmp_path, monkeypatch):
    weights = tmp_path / "here" / "lite0.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"")
    began = replace(QUICK, data_root=Path("/there/data"), weights="/there/lite0.safetensors", margin=0.3)
    seen = []

    def stop_at_once(settings, *given, **more):
        seen.append(settings)
        raise Stopped("seen")

    monkeypatch.setattr(loop, "set_up", stop_at_once)
    here = {"data_root": tmp_path / "here", "weights": str(weights)}
    cell = Cell(tmp_path / "shadow-0", replace(QUICK, **here))
    cell.run.begin(began)
    assert run_cell(cell, Stop()) == "seen"
    assert seen == [replace(began, **here)]
    run_cell(replace(cell, settings=replace(cell.settings, weights="pretrained")), Stop())
    assert seen[1].weights == began.weights  # never others than it began with


def test_a_cell_that_another_process_holds_is_waited_for_and_not_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RETRY", 0.5)
    cell = Cell(tmp_path / "bed" / "shadow-0", QUICK, "bed")
    told = []

    def finish_elsewhere():
        while not told:  # the first answer of the worker, which was refused
            time.sleep(0.1)
        time.sleep(2)
        cell.run.make_folder()
        cell.run.write_scores({"recall_at_1": 0.5})
        lock.release()

    lock = cell.lock
    lock = type(lock)(lock.lock_file, thread_local=False)
    lock.acquire()
    other = threading.Thread(target=finish_elsewhere)
    other.start()
    failures = run_cells([cell], 1, lambda names, share: told.append(share))
    other.join()
    assert failures == {}
    assert cell.run.scores() == {"recall_at_1": 0.5}
    assert not cell.run.settings_file.exists()  # nothing was trained here


def test_the_cell_of_a_process_that_was_killed_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RETRY", 0.5)
    cell = Cell(tmp_path / "shadow-0", QUICK)
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    other = context.Process(target=hold, args=(cell, held))
    other.start()
    assert held.wait(1200)
    killer = threading.Timer(4, lambda: os.kill(other.pid or 0, signal.SIGKILL))
    killer.start()
    failures = run_cells([cell], 1)
    killer.join()
    other.join()
    assert failures == {}
    scores = cell.run.scores()
    assert scores is not None
    assert 0 <= scores["recall_at_1"] <= 1


LONG = replace(QUICK, epochs=40, patience=0, save_every=0.0)  # nobody waits for its end
STARTED = """
import sys
from pathlib import Path
from shadowmetric.app.compare.cells import Cell, run_cells
from shadowmetric.app.training.runs.settings import TrainSettings
if __name__ == "__main__":
    run_cells([Cell(Path(sys.argv[1]), TrainSettings(**eval(sys.argv[2])))], 1)
"""


def wait_until_begun(cell):
    while not cell.run.state_file.exists():
        time.sleep(0.05)


def check_saved_and_free(cell):
    assert cell.run.scores() is None
    check_saved(cell.run)
    assert len(cell.run.journal()) < LONG.epochs
    with cell.lock.acquire(timeout=0), RunLock(cell.run).lock.acquire(timeout=0):
        pass


@pytest.mark.parametrize("word", [False, True])
def test_a_worker_ends_at_a_word_and_at_the_end_of_its_pipe(tmp_path, word):
    ours, theirs = multiprocessing.Pipe()
    cell = Cell(tmp_path / "shadow-0", LONG)
    worker = threading.Thread(target=cells.work, args=(theirs, 1))
    worker.start()
    ours.send(cell)
    wait_until_begun(cell)
    if word:
        ours.send(None)
        assert ours.recv() == "stopped"
    else:
        ours.close()
    worker.join()
    check_saved_and_free(cell)


def test_a_worker_does_not_outlive_whoever_started_it(tmp_path):
    cell = Cell(tmp_path / "shadow-0", LONG)
    words = [sys.executable, "-c", STARTED, str(cell.folder), repr(asdict(LONG))]
    starter = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_until_begun(cell)
    starter.kill()
    _, said = starter.communicate()  # ends when nobody has this pipe any more: the worker neither
    assert said == ""
    check_saved_and_free(cell)


def test_a_cell_given_to_a_worker_that_has_died_is_a_failure_and_no_error():
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    worker = cells.Worker.__new__(cells.Worker)
    worker.pipe, worker.is_to_end = ours, False
    worker.process = SimpleNamespace(join=lambda: None, exitcode=-9)
    worker.give(Cell(Path("nowhere"), QUICK))
    assert worker.answer() == "its process ended with code -9"
    worker.end()


def test_names_tell_beds_apart(tmp_path):
    assert Cell(tmp_path / "one" / "shadow-0", QUICK, "one").name == "one/shadow-0"
    assert Cell(tmp_path / "one" / "shadow-0", QUICK).name == "shadow-0"
