"""What a step asks of an accelerator, and how long it takes on a CPU, by loss, miner and size.

Kernels and host waits, forward and backward, are counted on the pretended device (`pretended_device.py`): they are what
a GPU would be asked, and no time of a GPU. Times are the CPU's. In each round every contender runs for a few hundredths
of a second, one after another, so that whatever slows the machine slows all; the figure is the best step of all rounds.

    ratio = time of the contender / time of the quicker of the two others (dense, pml)
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from benchmarks.measure import step
from benchmarks.run import PLACE_COLUMNS, Row, place
from shadowmetric.app.doctor.devices.contenders import OURS, PEERS, Contender, Program, contenders
from shadowmetric.app.doctor.devices.counts import Counts, HostRead
from shadowmetric.app.doctor.devices.figures import figures_or_reason
from shadowmetric.app.doctor.devices.loss_steps import Case, split_weights
from shadowmetric.app.doctor.devices.pretended_device import count_step
from shadowmetric.losses.exhaustive import is_exhaustive
from shadowmetric.losses.mined import MinedLoss
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.ways import choose_way

FIGURES = ("kernels", "waits", "largest_bytes", "forward_us", "backward_us", "total_us", "ratio", "reason")
COLUMNS = ("loss", "miner", "batch", "dim", "per_class", "contender", "way", *FIGURES, *PLACE_COLUMNS)
ROUND_SECONDS = 0.03  # that a contender runs in a round
PATIENCE_SECONDS = 10.0  # after which a case gets no further round
MOST_VALUES = 2048  # rows of a step that reads from the device: it is counted with values, in gigabytes beyond


@dataclass
class Best:
    """Seconds of the best step so far."""

    forward: float = float("inf")
    backward: float = float("inf")

    @property
    def total(self) -> float:
        """Return the seconds of the whole step."""
        return self.forward + self.backward

    def lower(self, forward: float, backward: float) -> None:
        """Take a step that was quicker."""
        if forward + backward < self.total:
            self.forward, self.backward = forward, backward


def measure_case(case: Case, rounds: int) -> list[Row]:
    """Return the rows of a case, one for each contender."""
    field = contenders(case)
    counts = {one.name: count_program(case, one) for one in field}
    running = [one for one in field if one.program is not None and "reason" not in counts[one.name]]
    times = time_programs(case, running, rounds) if rounds else {}
    peers = [times[name].total for name in PEERS if name in times]
    rows = []
    for one in field:
        figures: Row = {**counts[one.name]}
        if one.name in times:
            best = times[one.name]
            figures |= {f"{name}_us": getattr(best, name) * 1e6 for name in ("forward", "backward", "total")}
            figures["ratio"] = best.total / min(peers) if peers else None
        named = {"contender": one.name, "way": way_of(case) if one.name == OURS else None}
        rows.append(dict.fromkeys(COLUMNS) | asdict(case) | named | figures | place())
    return rows


def way_of(case: Case) -> str:
    """Return the way that a CPU takes: as `mining/ways` says, or "streamed" where there is nothing to mine."""
    loss = case.build()
    if not isinstance(loss, MinedLoss) or is_exhaustive(loss.miner):
        return "streamed"
    return choose_way(CheckedBatch(*case.inputs()), loss.miner)


def count_program(case: Case, contender: Contender) -> Row:
    """Return kernels, waits and largest tensor of a contender's step, or the reason why there are none.

    Nothing, without a reason, for a large step that reads from the device.
    """
    program = contender.program
    if program is None:
        return {"reason": contender.reason}

    def figures() -> dict[str, Any]:
        try:
            counts = count_at_any_size(program, *case.inputs())
        except HostRead:
            return {}
        return {name: getattr(counts, name) for name in ("kernels", "waits", "largest_bytes")}

    return figures_or_reason(figures, contender.name)


def count_at_any_size(program: Program, embeddings: Tensor, labels: Tensor) -> Counts:
    """Count by shapes alone, or with values if the step reads any; `HostRead` if it does and is large."""
    run, weights = split_weights(program) if isinstance(program, nn.Module) else (program, [])
    try:
        return count_step(run, embeddings, labels, *weights, values=False)
    except HostRead:
        if len(embeddings) > MOST_VALUES:
            raise
        return count_step(run, embeddings, labels, *weights)


def time_programs(case: Case, field: list[Contender], rounds: int) -> dict[str, Best]:
    """Return the best step of each contender over rounds in turn, after one that is not counted."""
    embeddings, labels = case.inputs()
    embeddings.requires_grad_()
    bests = {one.name: Best() for one in field}
    for one in field:
        run_round(one, embeddings, labels, Best())
    start = time.perf_counter()
    for number in range(rounds):
        if number and time.perf_counter() - start > PATIENCE_SECONDS:
            break
        for one in field:
            run_round(one, embeddings, labels, bests[one.name])
    return bests


def run_round(contender: Contender, embeddings: Tensor, labels: Tensor, best: Best) -> None:
    """Run a contender for a moment, at least once."""
    program = contender.program
    assert program is not None
    with pause_collector():
        start = time.perf_counter()
        while True:
            best.lower(*step(lambda: program(embeddings, labels), embeddings))
            if time.perf_counter() - start > ROUND_SECONDS:
                return


@contextmanager
def pause_collector() -> Iterator[None]:
    """Let Python's collector of cycles rest, so that it does not run within a step."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
