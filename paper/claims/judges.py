"""How a claim of the paper is judged by records: verdicts follow intervals, and nothing is judged that learned nothing.

A gain over another loss, by the seeds' differences and their 95 % interval (Student's t):

    holds               the interval lies above 0, and reaches the gain that the paper states
    holds only if ...   it lies above 0 and below that gain: something, but less
    does not hold       it lies below the stated gain, and does not lie above 0
    not testable here   it holds both 0 and the stated gain; or there are fewer than two seeds, or no trainings; or
                        one of the two is not above every floor (untrained embedder, raw pixels, pooled features), so
                        that there is nothing to compare

Verdicts follow the plain intervals. The differences go with the verdict, so that a page can correct them for their
number (Holm), and say which are shown to be no more than half a point (two one-sided tests).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from paper.beside import (
    Difference,
    base_note,
    differing,
    format_difference,
    gradient_ratio,
    interval,
    seed_differences,
)
from paper.quoted import quoted_value
from paper.record import Record

HOLDS, ONLY_IF, FAILS, UNTESTABLE = "holds", "holds only if", "does not hold", "not testable here"
IDENTITIES = "`pytest tests/losses/test_identities.py`"
FLOOR_WORDS = {"untrained": "the untrained embedder", "raw_pixels": "raw pixels", "features": "the pooled features"}
MOST_CENSORED = 0.25  # of runs whose plateau is their last epoch
Records = Mapping[str, Record]


class Verdict(NamedTuple):
    """What became of a claim."""

    verdict: str  # one of the four, ONLY_IF with its condition
    evidence: str
    command: str
    number: str = ""  # the one that decides
    differences: Mapping[str, Sequence[float]] = MappingProxyType({})  # by bed, one a seed
    figure: str = ""


Judge = Callable[[Records], Verdict]


def decide_without_record(verdict: str, number: str, evidence: str, command: str = IDENTITIES) -> Judge:
    """Return a verdict that needs no record."""
    return lambda records: Verdict(verdict, evidence, command, number)


def missing(what: str = "No finished trainings in `paper/records/`.", number: str = "no trainings yet") -> Verdict:
    """Return the verdict where nothing was measured."""
    return Verdict(UNTESTABLE, what, "", number)


def not_trained(bed: str) -> Verdict:
    """Return the verdict where trainings are still to be done, with what does them."""
    study, _, data = bed.partition("-")
    command = f"`python -m paper.heads protocol --only {data}`" if study == "head" else "`python -m paper standard`"
    return missing(f"No finished trainings in `paper/records/`; {command} does them.")


def not_here(command: str) -> Judge:
    """Return the verdict of what needs photographs that cannot be had here."""
    return lambda records: missing(f"No photographs here; `{command}` is the command.", "no photographs")


def command_of(record: Record) -> str:
    """Return the command of a record."""
    return f"`{record.facts['command']}`"


def label(bed: str, record: Record) -> str:
    """Return what a bed is called: heads may be stood in for by trainings of whole networks."""
    return bed if "held" in record.facts else bed.removeprefix("head-")


def beats_floors(record: Record, figure: str, *losses: str) -> bool:
    """Return whether these losses' figures are above those of every floor that the record has."""
    return not find_unlearned(record, figure, *losses)


def find_unlearned(record: Record, figure: str, *losses: str) -> dict[str, list[str]]:
    """Return by floor which of some losses are not above it."""
    below = {}
    for floor in FLOOR_WORDS:
        leads = {loss: lead(record, figure, loss, floor) for loss in losses}
        below[floor] = [loss for loss, one in leads.items() if one is not None and one.sign <= 0]
    return {floor: some for floor, some in below.items() if some}


def lead(record: Record, figure: str, loss: str, floor: str) -> Difference | None:
    """Return a loss's figure less a floor's, seed by seed; a floor without seeds has one value for all."""
    mine, theirs = record.values(loss, figure), record.values(floor, figure)
    if len(theirs) == 1:
        theirs = dict.fromkeys(mine, next(iter(theirs.values())))
    both = sorted(mine.keys() & theirs.keys())
    return interval([mine[seed] - theirs[seed] for seed in both]) if both else None


def stated_gain(table: str, dataset: str, figure: str, other: str = "triplet", called: str = "") -> float | None:
    """Return by how much the paper's Shadow is above another loss, in our units: per cent are fractions here."""
    mine, theirs = (quoted_value(table, dataset, loss, called or figure) for loss in ("shadow", other))
    if mine is None or theirs is None:
        return None
    return (mine - theirs) / (1 if figure == "silhouette" else 100)


def judge_difference(estimate: Difference, stated: float | None) -> str:
    """Return the verdict of a difference beside a stated gain; without one, any gain counts."""
    if estimate.low is None or estimate.high is None:
        return UNTESTABLE
    if estimate.low > 0:
        return HOLDS if stated is None or estimate.high >= stated else f"{ONLY_IF} a smaller gain counts"
    if stated is None:
        return FAILS if estimate.high < 0 else UNTESTABLE
    return FAILS if estimate.high < stated else UNTESTABLE


def gain(bed: str, table: str, figure: str, other: str = "triplet") -> Judge:
    """Judge a gain over another loss on one dataset."""

    def judge(records: Records) -> Verdict:
        record = records.get(bed)
        values = [] if record is None else seed_differences(record, figure, "shadow", other)
        if record is None or not values:
            return not_trained(bed)
        estimate, stated = interval(values), stated_gain(table, record.facts["data"], figure, other)
        verdict = judge_difference(estimate, stated) if beats_floors(record, figure, "shadow", other) else UNTESTABLE
        words = gain_words(record, figure, estimate, stated, other)
        number = format_difference(estimate, figure)
        return Verdict(verdict, words, command_of(record), number, {label(bed, record): values}, figure)

    return judge


def gain_words(record: Record, figure: str, estimate: Difference, stated: float | None, other: str) -> str:
    """Say a difference beside the paper's, and what makes it weak."""
    paper = "" if stated is None else f"The paper: {format_difference(Difference(stated, None, None, 1), figure)}. "
    words = (
        f"{paper}Ours: {format_difference(estimate, figure)}, {estimate.seeds} seed{'s' if estimate.seeds != 1 else ''}"
    )
    below = find_unlearned(record, figure, "shadow", other)
    if below:
        parts = (f"{', '.join(losses)} not above {FLOOR_WORDS[floor]}" for floor, losses in below.items())
        words += f". Nothing to compare: {'; '.join(parts)}"
    elif judge_difference(estimate, stated) == UNTESTABLE:
        words += ": undecided, the interval holds 0 and the paper's gain" if estimate.seeds > 1 else ": undecided"
    if other == "multi_similarity" and base_note(record):
        words += ". Multi-Similarity was trained at base 1.0, which its authors' code does not use"
    return words + "."


def over_beds(stated: Mapping[str, float | None], figure: str, words: str, other: str = "triplet") -> Judge:
    """Judge a claim over several beds: it holds if it does on each, and fails if it fails on any."""

    def judge(records: Records) -> Verdict:
        known = {bed: seed_differences(records[bed], figure, "shadow", other) for bed in stated if bed in records}
        values = {bed: some for bed, some in known.items() if some}
        estimates = {bed: interval(some) for bed, some in values.items()}
        usable = {bed: one for bed, one in estimates.items() if beats_floors(records[bed], figure, "shadow", other)}
        if not estimates:
            return missing()
        parts = [
            f"{label(bed, records[bed])} {format_difference(one, figure)}"
            + ("" if bed in usable else " (not above every floor)")
            for bed, one in estimates.items()
        ]
        verdicts = [judge_difference(one, stated[bed]) for bed, one in usable.items()]
        whole = FAILS if FAILS in verdicts else HOLDS if verdicts == [HOLDS] * len(stated) else UNTESTABLE
        counts = f"It fails on {verdicts.count(FAILS)} and holds on {verdicts.count(HOLDS)} of {len(stated)}."
        commands = " and ".join(dict.fromkeys(command_of(records[bed]) for bed in estimates))
        number = f"fails on {verdicts.count(FAILS)}, holds on {verdicts.count(HOLDS)} of {len(stated)}"
        learned = {label(bed, records[bed]): values[bed] for bed in usable}
        return Verdict(whole, f"{words}: {'; '.join(parts)}. {counts}", commands, number, learned, figure)

    return judge


def convergence(beds: Sequence[str], least: float = 1.5) -> Judge:
    """Judge whether Triplet takes so many times as many epochs to its plateau."""

    def judge(records: Records) -> Verdict:
        ratios, censored, runs = [], 0, 0
        usable = [
            bed for bed in beds if bed in records and beats_floors(records[bed], "recall_at_1", "shadow", "triplet")
        ]
        for bed in usable:
            mine, theirs = (records[bed].values(loss, "convergence_epoch") for loss in ("shadow", "triplet"))
            last = max((*mine.values(), *theirs.values(), *records[bed].values("shadow", "epochs").values()), default=0)
            for seed in mine.keys() & theirs.keys():
                ratios.append(float(np.log(theirs[seed] / mine[seed])))
                censored += (mine[seed] >= last) + (theirs[seed] >= last)
                runs += 2
        if len(ratios) < 2:
            return missing()
        estimate = interval(ratios)
        mean, low, high = (float(np.exp(value or 0.0)) for value in estimate[:3])
        undecided = censored > MOST_CENSORED * runs or low <= 1 < least <= high
        verdict = UNTESTABLE if undecided else HOLDS if low > 1 and high >= least else FAILS
        words = (
            f"Epochs to the plateau, Triplet's over Shadow's: {mean:.2f} ({low:.2f} to {high:.2f}) over {len(ratios)} "
            f"pairs of runs on {len(usable)} datasets. {censored} of {runs} runs still rise when they are judged last. "
            "By algebra the ratio is 1, but for what Adam's coupled weight decay does. The paper's own text says 18 to "
            "30 % fewer epochs for the fine-grained sets."
        )
        commands = " and ".join(dict.fromkeys(command_of(records[bed]) for bed in usable))
        return Verdict(verdict, words, commands, f"{mean:.2f} times ({low:.2f} to {high:.2f})")

    return judge


def gradient_norms(records: Records) -> Verdict:
    """Judge the 2.53 times longer gradients."""
    known = {bed: gradient_ratio(records[bed]) for bed in ("cifar10", "cub200") if bed in records}
    ratios = {bed: ratio for bed, ratio in known.items() if ratio is not None}
    free = gradient_ratio(records["cifar10-free"]) if "cifar10-free" in records else None
    parts = ", ".join(f"{bed} {ratio:.2f}" for bed, ratio in ratios.items())
    words = f" Measured on unit rows, mean over trainings: {parts}." if ratios else ""
    words += "" if free is None else f" On rows of free length: {free:.2f}."
    return Verdict(
        HOLDS if ratios and min(ratios.values()) > 1 else FAILS,
        "For the same unit rows a triplet's gradient is half of Triplet's, by algebra: the ratio is 0.5, and Adam "
        f"divides a factor out, but for its weight decay.{words}",
        " and ".join(dict.fromkeys([IDENTITIES, *(command_of(records[bed]) for bed in ratios)])),
        "0.5 times",
    )


def judge_penalty(records: Records) -> Verdict:
    """Judge what a price on length does to both losses."""
    parts, ratios, commands = [], {}, []
    for rows, first, second in (
        ("unit", "cifar10", "cifar10-penalty"),
        ("free", "cifar10-free", "cifar10-free-penalty"),
    ):
        for loss in ("shadow", "triplet"):
            if first in records and second in records:
                before, after = (records[bed].values(loss, "mean_variance") for bed in (first, second))
                seeds = sorted(before.keys() & after.keys())
                if seeds:
                    means = [float(np.mean([side[seed] for seed in seeds])) for side in (before, after)]
                    ratios[rows, loss] = means[1] / means[0]
                    change = format_difference(differing(records[second], records[first], loss, "accuracy"), "accuracy")
                    parts.append(f"{rows} rows, {loss} {means[0]:.4f} to {means[1]:.4f}, accuracy {change}")
                    commands += [command_of(records[first]), command_of(records[second])]
    if ("unit", "shadow") not in ratios or ("unit", "triplet") not in ratios:
        return missing()
    collapsed = ratios["unit", "triplet"] < 0.5 < ratios["unit", "shadow"]
    return Verdict(
        HOLDS if collapsed else FAILS,
        f"Variance without and with the penalty, on CIFAR-10 (no photographs of CARS196 here): {'; '.join(parts)}.",
        " and ".join(dict.fromkeys(commands)),
        f"variance × {ratios['unit', 'shadow']:.2f} and × {ratios['unit', 'triplet']:.2f}",
    )
