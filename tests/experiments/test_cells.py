"""Several processes share a plan: nobody trains a cell that another holds, and what a dead one leaves is taken over."""

import multiprocessing
import os
import signal
import threading
import time

from shadowmetric.experiments import cells
from shadowmetric.experiments.cells import Cell, run_cells
from shadowmetric.training.settings import TrainSettings

QUICK = TrainSettings(device="cpu", epochs=1, batches=2, batch=20, per_class=2, most_per_class=12, validation=0.3)


def hold(cell, held):
    """Hold a cell's lock until killed."""
    with cell.lock:
        held.set()
        time.sleep(600)


def test_a_cell_that_another_process_holds_is_waited_for_and_not_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RETRY", 0.5)
    cell = Cell(tmp_path / "bed" / "shadow-0", QUICK, "bed")
    told = []

    def finish_elsewhere():
        while not told:  # the first answer of the worker, which was refused
            time.sleep(0.1)
        time.sleep(2)
        cell.run.write_scores({"recall_at_1": 0.5})
        lock.release()

    lock = cell.lock
    lock = type(lock)(lock.lock_file, thread_local=False)
    lock.acquire()
    other = threading.Thread(target=finish_elsewhere)
    other.start()
    failures = run_cells([cell], 1, lambda share, names: told.append(share))
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
    assert held.wait(120)
    killer = threading.Timer(4, lambda: os.kill(other.pid or 0, signal.SIGKILL))
    killer.start()
    failures = run_cells([cell], 1)
    killer.join()
    other.join()
    assert failures == {}
    scores = cell.run.scores()
    assert scores is not None
    assert 0 <= scores["recall_at_1"] <= 1


def test_names_tell_beds_apart(tmp_path):
    assert Cell(tmp_path / "one" / "shadow-0", QUICK, "one").name == "one/shadow-0"
    assert Cell(tmp_path / "one" / "shadow-0", QUICK).name == "shadow-0"
