"""One process against N ranks: do the weights get the gradient of the whole batch?

    relative difference = largest |gradient of ranks - gradient of one process| / largest |gradient of one process|

of the embedder's weights and of the loss's own, over all ranks and both steps of `doctor_steps.py`, in float64. Up to
1e-8 is rounding; a missing factor, another order of rows or rows that were not gathered are orders of magnitude more.
The control, rows that are not gathered, is measured beside it: a check that cannot fail would show no difference there.

A loss with a root at 0 (of a distance, say) magnifies rounding where two rows are equal. Whether a loss does is found
on one process, by moving the weights by 1e-15; if so, its batch has no equal rows. The tolerance stays as it is.
"""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from shadowmetric.app.doctor.ranks.processes import FORMS, Work, run_ranks
from shadowmetric.app.doctor.ranks.steps import Taken, shares, take_steps
from shadowmetric.app.doctor.ranks.subject import ROWS, Subject, describe_error, folder_on_path
from shadowmetric.batches.gathered_loss import HasSums
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report
from shadowmetric.runtime.unfinished import temporary_folder

TOLERANCE = 1e-8
CALM = 1e-10  # what rounding may do to the gradient of one process
MOVED = 1e-15  # a few roundings
TRIALS = 4
MOST_RANKS = 8
GROUP_SECONDS = 120.0  # that a rank waits for another
CONTROL = "apart"


class Reference(NamedTuple):
    """What one process gives with the whole batch."""

    taken: Taken
    equal_rows: bool  # whether its batch has some
    rounding: float  # relative difference if the weights are moved by a few roundings
    shared: bool  # whether ranks share the work over pairs


@dataclass(frozen=True)
class Check:
    """One loss in one form, on N ranks beside one process. Differences are the largest of all ranks."""

    loss: str
    memory: int
    form: str
    value: float  # of one process
    value_difference: float  # relative
    absolute: float  # of gradients
    relative: float
    collectives: int  # of a step
    same_state: bool | None  # whether all ranks remember the same; None if nothing is remembered
    verdict: str  # ok, different, no gradient, control; failed: the control could not be computed

    @property
    def is_ok(self) -> bool:
        """Return whether nothing is wrong."""
        return self.verdict in ("ok", "control", "failed")


@dataclass(frozen=True)
class Certificate:
    """All checks, and what to know about them."""

    ranks: int
    shares: tuple[int, ...]
    tolerance: float
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        """Return whether every loss has the gradient of one process."""
        return all(check.is_ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return everything in plain Python."""
        return {**asdict(self), "rows": ROWS, "ok": self.is_ok}


def certificate(
    subjects: Sequence[Subject], ranks: int = 2, *, report: Report | None = None, seconds: float = GROUP_SECONDS
) -> Certificate:
    """Take the steps on one process and on so many ranks; return how far apart they are."""
    if not 1 <= ranks <= MOST_RANKS:
        raise Mistake(f"--ranks is {ranks}; it must be from 1 to {MOST_RANKS}.")
    if not (dist.is_available() and dist.is_gloo_available()):
        raise Mistake("this torch has no gloo, by which ranks talk on a CPU; look at the rest with --quick.")
    references = [reference(subject) for subject in subjects]
    with temporary_folder() as folder:
        work = Work(tuple(subjects), tuple(one.equal_rows for one in references), ranks, str(folder), seconds)
        run_ranks(work, report or (lambda stage, share: None))
        outcomes = [torch.load(folder / f"found-{rank}.pt", weights_only=False) for rank in range(ranks)]
    checks, notes = [], []
    for number, (subject, wanted) in enumerate(zip(subjects, references, strict=True)):
        of_loss = [
            judge_ranks(subject, form, wanted.taken, [rank[number][form] for rank in outcomes])
            for form in FORMS
            if ranks > 1 or form != CONTROL
        ]
        checks += of_loss
        notes += notes_of(subject, wanted, of_loss)
    return Certificate(ranks, tuple(shares(ranks)), TOLERANCE, tuple(checks), tuple(notes))


def reference(subject: Subject) -> Reference:
    """Take the steps on this process, with equal rows in the batch if the loss can bear them."""
    with folder_on_path(), torch.random.fork_rng(), contextlib.redirect_stdout(sys.stderr):
        shared = isinstance(subject.build(), HasSums)
        taken, rounding = on_one(subject, equal_rows=True)
        equal_rows = rounding <= CALM
        if not equal_rows:
            taken, rounding = on_one(subject, equal_rows=False)
    return Reference(taken, equal_rows, rounding, shared)


def on_one(subject: Subject, *, equal_rows: bool) -> tuple[Taken, float]:
    """Return what one process gives, and how far rounding alone moves its gradient."""
    try:
        taken, *moved = (
            take_steps(subject, "whole", equal_rows=equal_rows, moved=MOVED * (seed > 0), seed=seed)
            for seed in range(TRIALS + 1)
        )
    except Exception as error:
        if isinstance(error, Mistake) or not subject.is_own:
            raise
        raise Mistake(
            f"--loss {subject.name} failed with {describe_error(error)}; it is called with (embeddings, labels): "
            f"{ROWS} float64 "
            f"rows of {subject.dim} numbers (--dim), and labels from 0 to 5."
        ) from None
    assert taken is not None
    return taken, max(apart(one.gradient, taken.gradient)[1] for one in moved if one is not None)


def apart(values: Tensor, wanted: Tensor) -> tuple[float, float]:
    """Return the largest difference, and the largest of a step as a share of its largest number."""
    if values.numel() == 0:
        return 0.0, 0.0
    absolute = (values - wanted).abs().flatten(1).amax(1)
    scale = wanted.abs().flatten(1).amax(1)
    relative = torch.where(absolute == 0, 0.0, absolute / scale)
    return float(absolute.max()), float(relative.max())


def judge_ranks(subject: Subject, form: str, wanted: Taken, outcomes: Sequence[Taken | None]) -> Check:
    """Compare all ranks with one process."""
    nan = float("nan")
    there = [one for one in outcomes if one is not None]
    value = float(wanted.values[-1])
    if len(there) < len(outcomes):
        return Check(subject.name, subject.memory, form, value, nan, nan, nan, 0, None, "failed")
    values = torch.tensor([apart(one.values[:, None], wanted.values[:, None]) for one in there])
    gradients = torch.tensor(
        [apart(one.gradient, wanted.gradient) for one in there]
        + [apart(one.loss_gradient, wanted.loss_gradient) for one in there]
    )
    absolute, relative = gradients.amax(0).tolist()  # NaN if there is one
    states = {one.state for one in there}
    same_state = None if states == {""} else len(states) == 1
    value_difference = float(values[:, 1].max())
    if form == CONTROL:
        verdict = "control"
    elif not wanted.gradient.any():
        verdict = "no gradient"
    else:
        is_same = relative <= TOLERANCE and value_difference <= TOLERANCE and same_state is not False
        verdict = "ok" if is_same else "different"
    collectives = max(sum(one.counts.values()) for one in there)
    return Check(
        subject.name,
        subject.memory,
        form,
        value,
        value_difference,
        absolute,
        relative,
        collectives,
        same_state,
        verdict,
    )


def notes_of(subject: Subject, wanted: Reference, checks: Sequence[Check]) -> list[str]:
    """Say what to know about a loss."""
    name, notes = subject.name, []
    if not wanted.taken.gradient.isfinite().all():
        notes.append(f"{name}: one process has NaN or infinity in its gradient already.")
    elif any(check.verdict == "no gradient" for check in checks):
        remedy = "look into the loss" if subject.is_own else "try another --margin or --miner"
        notes.append(f"{name}: one process has no gradient either, so nothing was compared; {remedy}.")
    elif wanted.rounding > TOLERANCE:
        notes.append(
            f"{name}: one process does not repeat its own gradient: if the weights move by {MOVED:.0e} it moves by "
            f"{wanted.rounding:.0e} of itself, so the loss is random, or jumps."
        )
    elif not wanted.equal_rows:
        notes.append(
            f"{name}: no two rows of its batch are equal, since there rounding alone moves its gradient by more than "
            f"{CALM:.0e} of itself, as a root at 0 does."
        )
    if not wanted.shared:
        notes.append(
            f"{name}: it has no `sums` over anchors, so every rank computes the loss of all rows; correct, but the "
            "work over pairs is not shared."
        )
    control = [check for check in checks if check.form == CONTROL]
    if any(check.verdict == "failed" for check in control):
        notes.append(f"{name}: the control could not be computed, since the rows of one rank are too few for it.")
    if any(check.relative <= TOLERANCE for check in control) and wanted.taken.gradient.any():
        notes.append(f"{name}: the control does not differ either, so this loss cannot show what gathering does.")
    return notes
