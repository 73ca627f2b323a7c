"""How far a mean over queries could be off: percentile bootstrap intervals (Efron 1979).

Draw as many queries as there are, with replacement, and compute the measure again; do so `resamples` times. The
interval holds the middle `level` of the results: from the (1 - level) / 2 to the (1 + level) / 2 quantile.

What it means: if other queries had been drawn from the same source in the same way, intervals made like this would
hold the measure's true value in about `level` of the cases. It says nothing about another training seed. And it is
on the narrow side: queries are drawn one by one as if they were independent, but queries of one class share their
gallery items, and succeed and fail together. One query, or equal values, give an interval of width 0.

Nothing but the seed decides the draw: one generator on the CPU, one query after the other, resample after resample.
Sums are sums of whole numbers (values in units of less than a millionth of a millionth of the largest), which are
exact: neither the scratch, nor the device, nor the number of threads changes a digit.

Memory: about `scratch_bytes`, and a few numbers for each query, class and resample. Time: one random number and one
look-up for each query of each resample.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_scratch
from shadowmetric.evaluation.classification import check_predictions, class_report

SCRATCH_BYTES = 16 * 2**20
BYTES_PER_DRAW = 32  # a query's number, what is looked up for it, and as much again for counts


@dataclass(frozen=True)
class Interval:
    """A measure and the interval around it; all NaN if there was no query to measure."""

    mean: float  # the measure of the queries as they are
    low: float
    high: float
    level: float
    resamples: int
    queries: int  # that were measured; lone queries are left out


def bootstrap_interval(
    values: Tensor,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    scratch_bytes: int = SCRATCH_BYTES,
) -> Interval:
    """Return the mean of the values (queries,), and its interval; NaN values (lone queries) are left out."""
    check_resampling(level, resamples, seed, scratch_bytes)
    values = check_values(values)
    values = values[~values.isnan()]
    queries = len(values)
    if queries == 0:
        return Interval(math.nan, math.nan, math.nan, level, resamples, 0)
    origin = min(max(0.0, float(values.min())), float(values.max()))  # the point of the values' range nearest to 0
    units, unit = whole_units(values - origin, float((values - origin).abs().max()), queries)
    blocks = resample(lambda drawn: look_up(units, drawn).sum(dim=1), queries, resamples, seed, scratch_bytes)
    means = origin + join_parts(blocks, resamples).double() / queries * unit
    return _interval(origin + int(units.sum()) / queries * unit, means, level, queries)


def macro_f1_interval(
    labels: Tensor,
    predictions: Tensor,
    known: Tensor | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    scratch_bytes: int = SCRATCH_BYTES,
) -> Interval:
    """Return macro-F1 as in `class_report`, and its interval.

    Every resample is a report of its own: a rare class that it misses is no part of its mean. Where classes have only
    a few queries, resamples score lower than the queries themselves, since F1 is no mean over queries, and the
    interval may then lie below the measure. Trust it where classes have some tens of queries.
    """
    check_resampling(level, resamples, seed, scratch_bytes)
    labels, predictions, known = check_predictions(labels, predictions, known)
    queries = len(labels)
    if queries == 0:
        return Interval(math.nan, math.nan, math.nan, level, resamples, 0)
    cells = _cells(labels, predictions, known)
    blocks = resample(lambda drawn: _cell_counts(cells, drawn), queries, resamples, seed, scratch_bytes)
    scores = join_parts((_macro_f1(cells, counts) for counts in blocks), resamples)
    return _interval(class_report(labels, predictions, known).macro_f1, scores, level, queries)


def resample(
    count: Callable[[Tensor], Tensor], queries: int, resamples: int, seed: int, scratch_bytes: int
) -> Iterator[Tensor]:
    """Yield for some resamples at a time the sum of count(query numbers (resamples, drawn)) over their draws.

    `count` must return whole numbers, a row for each resample. The numbers drawn do not depend on the scratch.
    """
    generator = torch.Generator().manual_seed(seed)
    draws = max(1, scratch_bytes // BYTES_PER_DRAW)
    rows, columns = max(1, draws // queries), min(draws, queries)
    for first in range(0, resamples, rows):
        shapes = [(min(rows, resamples - first), min(columns, queries - begin)) for begin in range(0, queries, columns)]
        counts = count(torch.randint(queries, shapes[0], generator=generator))
        for shape in shapes[1:]:
            counts += count(torch.randint(queries, shape, generator=generator))
        yield counts


def join_parts(blocks: Iterator[Tensor], resamples: int) -> Tensor:
    """Return one value for each resample; written into one tensor, since parts kept one by one would pin the heap."""
    first = next(blocks)
    values = first.new_empty(resamples)
    values[: len(first)] = first
    done = len(first)
    for block in blocks:
        values[done : done + len(block)] = block
        done += len(block)
    return values


def look_up(values: Tensor, numbers: Tensor) -> Tensor:
    """Return values[numbers]; indexing does the same more slowly."""
    return torch.index_select(values, 0, numbers.flatten()).view(numbers.shape)


def whole_units(values: Tensor, largest: float, terms: int) -> tuple[Tensor, float]:
    """Return the values as whole multiples of a unit, and the unit: a power of 2 so large that sums of `terms` fit.

    largest: no value is larger, or smaller than -largest.
    """
    exponent = max(math.frexp(largest)[1], -900)  # 2**exponent is above the largest
    unit = math.ldexp(1.0, exponent - 62 + terms.bit_length())
    return (values / unit).round().long(), unit


def check_values(values: Tensor, name: str = "values") -> Tensor:
    """Return the values as float64 on the CPU, or refuse what is not one finite number or NaN for each query."""
    if not isinstance(values, Tensor) or values.ndim != 1 or values.is_complex():
        what = f"{values.dtype} of shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"{name} is {what}; it must be a tensor of one number for each query.")
    values = values.detach().cpu().double()
    if values.isinf().any():
        raise ValueError(f"{name} is infinite for query {int(values.isinf().nonzero()[0])}; values must be finite.")
    return values


def check_resampling(level: float, resamples: int, seed: int, scratch_bytes: int) -> None:
    """Refuse settings that no interval can be made with."""
    if isinstance(level, bool) or not isinstance(level, float) or not 0 < level < 1:
        raise ValueError(f"level is {level!r}; it must be between 0 and 1, such as 0.95.")
    check_count(resamples, "resamples")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed!r}; it must be a whole number from 0 to 2**63 - 1.")
    check_scratch(scratch_bytes)


def check_count(value: int, name: str) -> None:
    """Refuse what is no whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number above 0, such as 1000.")


def _interval(measure: float, resampled_measures: Tensor, level: float, queries: int) -> Interval:
    ends = resampled_measures.new_tensor([(1 - level) / 2, (1 + level) / 2])
    low, high = torch.quantile(resampled_measures, ends).tolist()
    return Interval(measure, low, high, level, len(resampled_measures), queries)


class _Cells(NamedTuple):
    """The cells of the confusion that occur; a query without a prediction has a cell with its class alone.

    A column past the last cell is always 0. `members` lists the cells of a class, true or predicted, class by class
    (a cell of right predictions twice): their counts sum to support + predicted.
    """

    of_query: Tensor  # (queries,)
    cells: int
    right: Tensor  # (classes,) the cell of the class's right predictions; the last column if there is none
    members: Tensor  # (members,) cells
    ends: Tensor  # (classes,) where the members of a class end


def _cells(labels: Tensor, predictions: Tensor, known: Tensor) -> _Cells:
    names, numbers = torch.unique(torch.cat([labels, predictions[known]]), return_inverse=True)
    classes = len(names)
    true = numbers[: len(labels)]
    predicted = torch.full_like(true, classes)  # none
    predicted[known] = numbers[len(labels) :]
    code, of_query = torch.unique(true * (classes + 1) + predicted, return_inverse=True)
    true, predicted = code // (classes + 1), code % (classes + 1)
    right = torch.full((classes,), len(code))
    right[true[true == predicted]] = (true == predicted).nonzero()[:, 0]
    class_of_member = torch.cat([true, predicted])
    members = torch.argsort(class_of_member, stable=True) % len(code)
    ends = torch.bincount(class_of_member, minlength=classes + 1).cumsum(0)[:classes]
    return _Cells(of_query, len(code), right, members, ends)


def _cell_counts(cells: _Cells, drawn: Tensor) -> Tensor:
    """Return how often each cell was drawn: (resamples, cells + 1)."""
    resamples, width = len(drawn), cells.cells + 1
    place = look_up(cells.of_query, drawn).add_(width * torch.arange(resamples)[:, None])
    return torch.bincount(place.flatten(), minlength=resamples * width).view(resamples, width)


def _macro_f1(cells: _Cells, counts: Tensor) -> Tensor:
    """Return macro-F1 of each row of counts: mean of 2 right / (support + predicted) over the classes that occur."""
    running = torch.nn.functional.pad(torch.index_select(counts, 1, cells.members).cumsum(1)[:, cells.ends - 1], (1, 0))
    occurrences = running.diff(dim=1)  # (resamples, classes)
    f1 = 2 * counts[:, cells.right].double() / occurrences.clamp_min(1)
    units, unit = whole_units(f1, 1.0, len(cells.right))
    return units.sum(dim=1).double() / (occurrences > 0).sum(dim=1) * unit
