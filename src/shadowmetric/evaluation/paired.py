"""Is one run better than another on the same queries, or is the difference inside the noise?

For each query d = first - second, and two answers about the mean of d, without assuming any distribution:

    interval    percentile bootstrap of the mean of d over queries (see `bootstrap`)
    p-value     if neither run were better, each d might as well have had the other sign: flip signs at random, and
                p = (1 + flips whose |sum of d| is at least the observed one) / (1 + flips), two-sided

Pairs say more than two separate intervals: what is hard for both runs cancels. Only the noise of the queries is judged.
Another training seed moves a run too, often by more: compare several seeds before saying that a method is better.
Queries of one class are not independent, so that both answers are on the confident side.

Sums are sums of whole numbers, and what the rounding of the values' type can explain is no difference, so that ties
are ties. The seed alone decides the draw. Eight queries share one random byte, which selects one of the 256 sums that
their signs can make.

Memory: about `scratch_bytes`, and a few numbers for each query, resample and permutation.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from shadowmetric.evaluation.bootstrap import (
    SCRATCH_BYTES,
    bootstrap_interval,
    check_count,
    check_resampling,
    check_values,
    look_up,
    whole_units,
)

GROUP = 8  # queries that share a random byte
GROUPS_AT_ONCE = 256  # their table of sums is 512 kB; part of what the seed means, so it does not follow the scratch
BYTES_PER_DRAW = 24


@dataclass(frozen=True)
class PairedTest:
    """The mean difference first - second over queries, and how sure one can be of it."""

    difference: float
    low: float
    high: float
    p_value: float
    level: float
    queries: int  # that were compared; lone queries are left out
    inside_the_noise: bool  # the interval contains 0

    def sentence(self) -> str:
        """Say it in plain words."""
        if self.queries == 0:
            return "No query could be compared, so nothing is known about the difference."
        numbers = (
            f"{self.queries:,} queries, {100 * self.level:g} % interval {self.low:+.4f} to {self.high:+.4f}, "
            f"p = {self.p_value:.2g}"
        )
        if self.difference == 0:
            return f"The two are equal in the mean ({numbers})."
        which = "higher" if self.difference > 0 else "lower"
        opening = f"The first is {which} than the second by {abs(self.difference):.4f} in the mean ({numbers})"
        if self.inside_the_noise:
            return f"{opening}: inside the noise of the queries."
        if self.p_value > 1 - self.level:
            return f"{opening}: outside the interval, but flipped signs do as much too often; take more queries."
        return f"{opening}: more than the noise of the queries."


def paired_test(
    first: Tensor,
    second: Tensor,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    permutations: int = 10_000,
    seed: int = 0,
    scratch_bytes: int = SCRATCH_BYTES,
) -> PairedTest:
    """Compare two tensors of per-query values (queries,) of the same queries; NaN (lone queries) are left out."""
    check_resampling(level, resamples, seed, scratch_bytes)
    check_count(permutations, "permutations")
    difference, rounding = paired_differences(first, second)
    interval = bootstrap_interval(difference, level=level, resamples=resamples, seed=seed, scratch_bytes=scratch_bytes)
    return PairedTest(
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        p_value=sign_flip_p_value(difference, rounding, permutations, seed, scratch_bytes),
        level=level,
        queries=interval.queries,
        inside_the_noise=not (interval.low > rounding or interval.high < -rounding),
    )


def paired_differences(first: Tensor, second: Tensor) -> tuple[Tensor, float]:
    """Return first - second where neither is NaN, and the most that rounding can have added to a difference.

    Refuses what are not values of the same queries.
    """
    inputs = first, second
    first, second = check_values(first, "first"), check_values(second, "second")
    if len(first) != len(second):
        raise ValueError(
            f"first has {len(first)} queries and second {len(second)}; give values of the same queries, in one order."
        )
    differ = (first.isnan() != second.isnan()).nonzero()
    if len(differ):
        query = int(differ[0])
        which, other = ("first", "second") if first[query].isnan() else ("second", "first")
        raise ValueError(
            f"{which} is NaN for query {query} and {other} is not ({len(differ)} such queries); "
            "give values of the same queries, measured against the same gallery."
        )
    first, second = first[~first.isnan()], second[~second.isnan()]
    step = max(torch.finfo(side.dtype if side.is_floating_point() else torch.float64).eps for side in inputs)
    largest = float(torch.cat([first, second]).abs().max()) if len(first) else 0.0
    return first - second, step * largest


def sign_flip_p_value(difference: Tensor, rounding: float, permutations: int, seed: int, scratch_bytes: int) -> float:
    """Return the two-sided p-value of the sum of the differences under random signs; 1 if all are 0.

    rounding: how far off each difference may be; a flipped sum that is smaller by no more than that is as extreme.
    """
    difference = difference[difference != 0]
    if len(difference) == 0:
        return 1.0
    units, unit = whole_units(difference, float(difference.abs().max()), len(difference))
    slack = len(units) * (1 + int(rounding / unit))
    flipped = permute_sums(units, permutations, seed, scratch_bytes)
    extreme = int((flipped.abs() >= max(0, abs(int(units.sum())) - slack)).sum())
    return (1 + extreme) / (1 + permutations)


def permute_sums(units: Tensor, permutations: int, seed: int, scratch_bytes: int) -> Tensor:
    """Return for each permutation the sum of the whole numbers with signs drawn at random: (permutations,)."""
    generator = torch.Generator().manual_seed(seed)
    groups = torch.nn.functional.pad(units, (0, -len(units) % GROUP)).view(-1, GROUP)
    signs = 1 - 2 * (torch.arange(2**GROUP) >> torch.arange(GROUP)[:, None] & 1)  # (GROUP, 256): the bits of a byte
    sums = torch.zeros(permutations, dtype=torch.int64)
    for part in groups.split(GROUPS_AT_ONCE):
        table = (part @ signs).flatten()
        start = 2**GROUP * torch.arange(len(part))
        for some in sums.split(max(1, scratch_bytes // (BYTES_PER_DRAW * len(part)))):
            drawn = torch.randint(2**GROUP, (len(some), len(part)), generator=generator)
            some += look_up(table, drawn.add_(start)).sum(dim=1)
    return sums
