"""A process leaves its group before Python ends: a thread that outlives Python may abort it.

python test_ranks.py FOLDER        ends a process in each of several ways, and prints whether it was in a group then
"""

import atexit
import os
import subprocess
import sys

import torch.distributed as dist

from shadowmetric.ops.ranks import leave_group, leave_group_at_exit

HOW = {
    "asked at the start": lambda: leave_group_at_exit(),
    "asked twice, and left already": lambda: (leave_group_at_exit(), leave_group_at_exit(), leave_group()),
    "left": lambda: leave_group(),
    "not asked": lambda: None,
    "asked, and an error": lambda: (leave_group_at_exit(), 1 / 0),  # other ranks may wait for this one
}


def test_a_process_leaves_its_group_before_python_ends(tmp_path):
    done = subprocess.run([sys.executable, __file__, tmp_path], capture_output=True, text=True, check=True)
    in_a_group = dict(line.split(": ") for line in done.stdout.splitlines())
    assert in_a_group == {
        "asked at the start": "False 0",
        "asked twice, and left already": "False 0",
        "left": "False 0",
        "not asked": "True 0",
        "asked, and an error": "True 1",
    }


def test_without_a_group_there_is_nothing_to_leave():
    leave_group()


def end(how: str, folder: str, result: int) -> None:
    """Be in a group, and end in this way; what is registered first comes last."""
    atexit.register(lambda: os.write(result, str(dist.is_initialized()).encode()))
    dist.init_process_group("gloo", init_method=f"file://{folder}/{how}", rank=0, world_size=1)
    dist.barrier()
    HOW[how]()


if __name__ == "__main__":
    for how in HOW:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            end(how, sys.argv[1], writing)
            break
        os.close(writing)
        with os.fdopen(reading) as said:
            state = said.read()
        print(f"{how}: {state} {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)
