"""`python -m benchmarks NAME`: each name is a folder here, and its `command.py` parses, measures and prints.

losses        beside the peers and one bare matrix product: time, peak memory, kept bytes
evaluation    beside faiss and scikit-learn
memory        bytes as promised beside bytes as taken
training      `train` beside a bare loop
step          a training step in micro-batches beside plain ones
scale         a step on many ranks, computed and measured
search        searching an index beside plain faiss
paths         kernels, host waits and time of a step
from-scratch  small embedders beside plain scripts, at equal time
fuzz          damaged files of every format, and what commands make of them
planning      what runs plan beside what they take
"""

from collections.abc import Sequence
from pathlib import Path

from cyclopts import App

from benchmarks.evaluation.command import evaluation
from benchmarks.from_scratch.command import from_scratch
from benchmarks.fuzz.command import fuzz
from benchmarks.losses.command import losses
from benchmarks.memory.command import memory
from benchmarks.paths.command import paths
from benchmarks.planning.command import planning
from benchmarks.scale.command import scale
from benchmarks.search.command import search
from benchmarks.step.command import step
from benchmarks.training.command import training
from shadowmetric.app import cli
from shadowmetric.app.cli.config import check_whole_numbers, config_reader

COMMANDS = (losses, evaluation, memory, training, step, scale, search, paths, from_scratch, fuzz, planning)


def main(tokens: Sequence[str] | None = None) -> None:
    """Run a benchmark with these words, or those of the command line."""
    cli.main(tokens, command_line)


def command_line(config: Path | None = None, *, first_help: bool = False) -> App:
    """Return the cyclopts application; config is a file of options."""
    app = App(
        name="python -m benchmarks",
        help="Time and memory beside the peers, and beside one bare matrix product.",
        suppress_keyboard_interrupt=False,
        config=[*([] if config is None else [config_reader(config)]), check_whole_numbers],
    )
    for number, command in enumerate(COMMANDS):
        app.command(command, sort_key=number)
    return app
