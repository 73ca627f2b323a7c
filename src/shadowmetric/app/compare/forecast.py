"""What a comparison will take, before it begins: a plan of its first training, and the steps of the other losses.

    time = sum over losses and seeds of (reading + epochs x (steps + judging) + test split) / trainings at a time

Each loss's step is timed where a step is short; where it is long, the network decides, and all are taken to cost what
the first does. Processes that train side by side share a machine's memory and caches: that is in no figure here.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.training.planning.advice import advise
from shadowmetric.app.training.planning.costs import in_memory, seconds_of_step, undisturbed
from shadowmetric.app.training.planning.dry_run import ready
from shadowmetric.app.training.planning.forecast import Forecast, forecast
from shadowmetric.app.training.runs.origin import cores
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.setup import Training, assemble
from shadowmetric.app.training.show import Silent, duration
from shadowmetric.batches.budget import format_bytes
from shadowmetric.progress import Report
from shadowmetric.runtime.counting import count

SHORT = 0.5  # seconds of a step, below which every loss is timed
START = 6.0  # seconds in which a process starts and loads its libraries


@dataclass(frozen=True)
class ComparisonForecast:
    """What a comparison will take."""

    first: Forecast  # of the first loss
    each: dict[str, float]  # seconds of a training, by loss
    seeds: int
    jobs: int

    @property
    def trainings(self) -> int:
        """Return how many trainings there are."""
        return len(self.each) * self.seeds

    def seconds(self) -> float:
        """Return the time of all, so many at a time."""
        at_once = min(self.jobs, self.trainings)
        return START + max(self.seeds * sum(self.each.values()) / at_once, max(self.each.values()))

    def sentences(self) -> tuple[str, ...]:
        """Say the plan, a line for each thing."""
        at_once = min(self.jobs, self.trainings)
        memory = self.first.memory
        lines = [line for line in self.first.sentences() if line.split()[0] not in ("loss", "memory", "time")]
        slowest = max(self.each, key=lambda name: self.each[name])
        words = {
            "losses": f"{', '.join(self.each)}",
            "runs": f"{len(self.each)} × {count(self.seeds, 'seed')}, {at_once} at a time",
            "memory": "not known here" if memory is None else f"{format_bytes(memory * at_once)} at the peak",
            "time": f"about {duration(self.seconds())} on {self.first.device}; the longest training, {slowest}, "
            f"{duration(self.each[slowest])}",
        }
        return (*lines, *(f"  {name:<9}{text}" for name, text in words.items()))

    def advice(self, given: TrainSettings, command: str) -> list[str]:
        """Return what would take minutes, if this takes hours."""
        share = self.seconds() / self.first.seconds()
        return advise(self.first, given, command, share)

    def plain(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        known = {"trainings": self.trainings, "jobs": self.jobs, "seconds_by_loss": self.each}
        return self.first.plain() | known | {"expected_seconds": self.seconds()}


def forecast_comparison(plan: Plan, jobs: int, report: Report | None = None) -> ComparisonForecast:
    """Return what a comparison will take; nothing of it is begun."""
    plan.check()
    if report is not None:
        report("planning: timing a few steps", 0.0)
    with threads_of(max(1, cores() // jobs)):
        training = ready(plan.cells()[0].settings, Silent(), report)
        first = forecast(training)
        each = {}
        for name in plan.methods():
            step = first.costs.step if first.costs.step > SHORT else step_of(training, name)
            each[name] = replace(first, costs=replace(first.costs, step=step)).seconds()
    return ComparisonForecast(first, each, plan.seeds, jobs)


def step_of(training: Training, loss: str) -> float:
    """Return the seconds of a step with another loss."""
    parts = replace(training.parts, settings=replace(training.settings, loss=loss))
    other = assemble(parts, training.run, training.show, training.accelerator)
    with undisturbed(other):
        numbers = next(iter(other.sampler))
        return seconds_of_step(other, in_memory(parts.train, numbers), 0)[0]


@contextlib.contextmanager
def threads_of(number: int) -> Iterator[None]:
    """Compute with so many threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
