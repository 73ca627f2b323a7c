"""Which places of a query's ranked gallery hold relevant items: all that retrieval measures need.

    hit[q, j] = 1 if the (j+1)-th most similar gallery item of query q is relevant

The tie rule: among equal similarities, items of other classes come first. So neither the order of the gallery
nor duplicates in it can lift a score, and no tie is decided by chance.

How: similarities are exact multiples of 2^-48 (`ops/exact_rows`), so float64 has room for one more binary place.
Items of other classes get half a step more. That puts them first among equals, and writes the class into the
number: a sorted list of bare values tells which of them are relevant, and nothing has to be sorted by index.
Only the `limit` largest values of a row matter, since no measure looks beyond max(R, largest K).

Memory: the scratch. Blocks are as high as it allows; results do not depend on it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.evaluation.comparison import HALF_A_STEP, STEPS, Comparison
from shadowmetric.ops.largest import count_at_least, largest_values
from shadowmetric.ops.runs import add, exclude, raise_to_maxima
from shadowmetric.ops.similarity_blocks import Block, Progress, similarity_blocks, whole_row_blocks
from shadowmetric.ops.top_k import write_at

NOWHERE = -4.0 + HALF_A_STEP  # below every similarity, and of no class
WIDTH = 16384  # columns at once, where a query needs few of them
MANY = WIDTH // 8  # values of a row


class Hits(NamedTuple):
    """The ranked galleries of some queries."""

    hit: Tensor  # (rows, limit) bool; limit >= R, and >= every K that is asked for or the whole gallery
    relevant: Tensor  # (rows,) int64: R, how many relevant items there are
    closest: Tensor  # (rows,) similarity of the best relevant item, NOWHERE for a lone query; if asked for

    def places(self) -> Tensor:
        """Return the places 1, 2, ... up to the limit."""
        return torch.arange(1, self.hit.shape[1] + 1, device=self.hit.device)

    def among_first_r(self) -> Tensor:
        """Return the hits among the first R items of each query; cut off after the largest R."""
        most = max(int(self.relevant.max()), 1)
        hit, places = self.hit[:, :most], self.places()[:most]
        return hit if int(self.relevant.min()) >= most else hit & (places <= self.relevant[:, None])

    def mask_lone(self, values: Tensor) -> Tensor:
        """Return the values as float64, NaN for lone queries: a measure has nothing to say of them."""
        return torch.where(self.relevant > 0, values.double(), torch.nan)


def iterate_hits(
    comparison: Comparison,
    least_limit: int,
    *,
    closest: bool = False,
    scratch_bytes: int,
    progress: Progress | None = None,
) -> Iterator[tuple[slice, Hits]]:
    """Yield the hits of consecutive arranged rows, up to max(least_limit, R) or the end of the gallery."""
    columns = len(comparison.gallery)
    most = min(max(int(comparison.relevant[0]), least_limit), columns)
    best = torch.empty(0)
    nearest = torch.empty(0)
    for block in _blocks(comparison, most, scratch_bytes, progress):
        here = slice(block.top, block.bottom)
        relevant = comparison.relevant[here]
        limit = min(max(int(relevant.max()), least_limit), columns)
        if block.first == 0:
            best = block.values.new_empty(len(relevant), 0)
            nearest = block.values.new_full((len(relevant),), NOWHERE)
        _mark(block, comparison)
        if closest:
            raise_to_maxima(nearest, block, comparison.runs)
        values = largest_values(block.values, limit)
        best = largest_values(torch.cat([best, values], 1), limit) if block.first else values.clone()
        if block.last == columns:
            steps = best.flip(1).mul_(2 * STEPS).long()  # odd for other classes
            yield here, Hits(steps.bitwise_and_(1) == 0, relevant, nearest)


def _blocks(comparison: Comparison, most: int, scratch_bytes: int, progress: Progress | None) -> Iterator[Block]:
    """Yield blocks of whole rows where much of a row is needed, so that it is selected from once; else smaller ones."""
    sides = (comparison.query, comparison.gallery)
    temporaries = 4 * most / len(comparison.gallery) + 0.1
    if most > MANY:
        return whole_row_blocks(*sides, scratch_bytes=scratch_bytes, temporaries=temporaries, progress=progress)
    return similarity_blocks(*sides, scratch_bytes=scratch_bytes, width=WIDTH, temporaries=0.6, progress=progress)


def first_places(
    comparison: Comparison, closest: Tensor, *, scratch_bytes: int, progress: Progress | None = None
) -> Tensor:
    """Return the place of the best relevant item of each row, however far; `closest` is its similarity."""
    place = torch.ones_like(comparison.relevant)
    for block in similarity_blocks(
        comparison.query, comparison.gallery, scratch_bytes=scratch_bytes, width=WIDTH, progress=progress
    ):
        exclude(block, comparison.runs, NOWHERE)
        place[block.top : block.bottom] += count_at_least(block.values, closest[block.top : block.bottom])
    return place


def _mark(block: Block, comparison: Comparison) -> None:
    """Take the half step from what is relevant, and the query itself out."""
    add(block, comparison.runs, -HALF_A_STEP)
    write_at(block.values, comparison.own[block.top : block.bottom] - block.first, NOWHERE)
