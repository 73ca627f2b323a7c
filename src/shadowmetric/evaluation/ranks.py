"""The ranks of the relevant items of each query: all that retrieval measures need.

    rank of the i-th best relevant item = i + number of other-class items that are at least as similar

This is the tie rule: among equal similarities, items of other classes come first. So neither the order of
the gallery nor duplicates in it can lift a score, and no tie is decided by chance: similarities are exact
(`ops/exact_rows`), so equal rows are equally similar.

How: the similarities of a query to its relevant items are a run of columns; they are moved out and sorted.
Of the others only the `limit` largest matter, since no measure asks for ranks beyond
limit = max(R, largest K). Two sorted lists then give the ranks. Nothing is ever sorted by index.

Memory: the scratch. Blocks of rows are as high as the scratch allows; results do not depend on it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.evaluation.comparison import Comparison
from shadowmetric.ops.largest import count_at_least, largest_values
from shadowmetric.ops.runs import exclude, take
from shadowmetric.ops.similarity_blocks import Block, Progress, similarity_blocks

WIDTH = 16384  # columns at once where a query needs few of them
NOWHERE = float("-inf")
BEYOND = torch.iinfo(torch.int32).max  # the rank of an item that there is not


class Ranks(NamedTuple):
    """Of some queries: the ranks of their relevant items, ascending, right up to `limit`, and above it beyond.

    A query with fewer relevant items than the widest has BEYOND at the end of its row.
    """

    rank: Tensor  # (rows, most) int32; most >= 1
    relevant: Tensor  # (rows,) int64
    closest: Tensor  # (rows,) similarity of the best relevant item; -inf for a lone query

    def scored(self, values: Tensor) -> Tensor:
        """Return the values as float64, NaN for lone queries: a measure has nothing to say of them."""
        return torch.where(self.relevant > 0, values.double(), torch.nan)


def relevant_ranks(
    comparison: Comparison, least_limit: int, *, scratch_bytes: int, progress: Progress | None = None
) -> Iterator[tuple[slice, Ranks]]:
    """Yield the ranks of consecutive arranged rows, right up to max(least_limit, R)."""
    columns = len(comparison.gallery)
    most = int(comparison.relevant[0])
    width = min(columns, max(WIDTH, 8 * max(most, least_limit)))
    temporaries = 10 * (most + least_limit) / width + 0.25
    fold: _Fold | None = None
    for block in similarity_blocks(
        comparison.query,
        comparison.gallery,
        scratch_bytes=scratch_bytes,
        width=width,
        temporaries=temporaries,
        progress=progress,
    ):
        if fold is None or block.first == 0:
            fold = _Fold(comparison, block, least_limit)
        fold.meet(block)
        if block.last == columns:
            yield slice(block.top, block.bottom), fold.ranks()


class _Fold:
    """What is known of a block of rows so far: its relevant similarities, and the largest of the others."""

    def __init__(self, comparison: Comparison, block: Block, least_limit: int):
        here = slice(block.top, block.bottom)
        self.runs = comparison.runs
        self.relevant = comparison.relevant[here]
        own = comparison.own[here]
        self.own = torch.where(own >= 0, own - comparison.start[here], -1)  # place of the query in its class
        self.most = max(int(self.relevant.max()), 1)
        self.limit = max(least_limit, self.most)
        itself = int((self.own >= 0).any())
        self.same = block.values.new_full((len(self.relevant), self.most + itself), NOWHERE)
        self.others = block.values.new_full((len(self.relevant), 0), NOWHERE)

    def meet(self, block: Block) -> None:
        """Move the relevant similarities of a block out, and keep the largest of the rest."""
        take(block, self.runs, self.same, NOWHERE)
        others = largest_values(block.values, self.limit)
        met = self.others.shape[1] > 0
        self.others = largest_values(torch.cat([self.others, others], 1), self.limit) if met else others.clone()

    def ranks(self) -> Ranks:
        """Return the ranks; the fold is used up."""
        rows = (self.own >= 0).nonzero()[:, 0]
        self.same[rows, self.own[rows]] = NOWHERE
        same = largest_values(self.same, self.most).flip(1)  # best first
        below = torch.searchsorted(self.others.contiguous(), same, out_int32=True)
        place = torch.arange(1, self.most + 1, dtype=torch.int32, device=same.device)
        rank = torch.sub(place + self.others.shape[1], below, out=below)
        if int(self.relevant.min()) < self.most:
            rank.masked_fill_(place > self.relevant[:, None], BEYOND)
        return Ranks(rank, self.relevant, same[:, 0])


def first_ranks(
    comparison: Comparison, closest: Tensor, *, scratch_bytes: int, progress: Progress | None = None
) -> Tensor:
    """Return the rank of the best relevant item of each row, however far; `closest` is its similarity."""
    rank = torch.ones_like(comparison.relevant)
    for block in similarity_blocks(
        comparison.query, comparison.gallery, scratch_bytes=scratch_bytes, width=WIDTH, progress=progress
    ):
        exclude(block, comparison.runs, NOWHERE)
        rank[block.top : block.bottom] += count_at_least(block.values, closest[block.top : block.bottom])
    return rank
