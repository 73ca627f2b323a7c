"""A process that has nothing to save ends with the one that started it."""

import subprocess
import sys

CHILD = """
import multiprocessing, os, sys, time
from shadowmetric.app.training.interrupt import end_with_parent

def child():
    end_with_parent()
    print("up", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "up\n"
    parent.kill()
    assert parent.communicate() == ("", "")  # which ends when the child has


def test_without_a_parent_nothing_is_waited_for():
    from shadowmetric.app.training.interrupt import end_with_parent

    end_with_parent()
