"""Every negative inside the semi-hard window, or one drawn from it.

    floor < d(a, n) < upper_end(floor),   floor = d(a, p),   d: as `comparison` has it

Memory: the scratch, and the triplets themselves. A loss that is given a miner with
`negatives="all"` does not call this: it streams the same window without a list.
"""

import torch
from torch import Tensor

from shadowmetric.mining.chances import choose_by_chance, draw_chances
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.comparison import Comparison
from shadowmetric.mining.nearest import Partners, Search, alive
from shadowmetric.mining.ordered import no_triplets, order_triplets
from shadowmetric.mining.slots import SlotSearch, arrange_slots
from shadowmetric.ops.runs import NEVER, exclude
from shadowmetric.ops.similarity_blocks import whole_row_blocks
from shadowmetric.types import Triplets

TEMPORARIES = 4.0  # blocks that the window of one partner makes


def window_triplets(
    search: Search,
    partners: list[Partners],
    margin: float,
    *,
    drawn: bool,
    generator: torch.Generator | None,
) -> list[Triplets]:
    """Return the triplets of all windows, slot by slot: every negative inside, or one drawn with equal chances."""
    number = search.classes.reference_order
    chances = draw_chances(search.rows, len(partners), generator, number.device) if drawn else None
    column_of = torch.argsort(number) if drawn else number  # of each row number
    triplet_lists: list[list[Triplets]] = [[] for _ in partners]
    for block in whole_row_blocks(search.left, search.right, scratch_bytes=search.for_blocks, temporaries=TEMPORARIES):
        exclude(block, search.classes.runs, float("inf"))
        for slot, pair in enumerate(partners):
            end = min(block.bottom, len(pair.row))
            if end <= block.top:
                break
            floor = pair.distance[block.top : end]
            upper = search.upper_end(floor, margin, block.top)
            values = block.values[: end - block.top]
            inside = (values > floor[:, None]) & (values < upper[:, None]) & alive(pair)[block.top : end, None]
            anchor = search.classes.order[block.top : end]
            if chances is None:
                row, column = inside.nonzero().unbind(1)
                negative = number[column]
            else:
                row, negative = _draw(inside.index_select(1, column_of), chances[anchor, slot])
            triplet_lists[slot].append(Triplets(anchor[row], pair.row[row + block.top], negative))
    return [Triplets(*(torch.cat(columns) for columns in zip(*parts, strict=True))) for parts in triplet_lists]


def _draw(inside: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows that have a candidate, and one of its candidates with equal chances."""
    count = inside.sum(1)
    row = (count > 0).nonzero()[:, 0]
    return row, choose_by_chance(inside[row], count[row], chance[row])


def windows_of_relation(batch: CheckedBatch, comparison: Comparison, margin: float, *, scratch_bytes: int) -> Triplets:
    """Return the triplets of all windows of a batch with a relation, in order."""
    slots = arrange_slots(batch, None)
    assert slots is not None
    search = SlotSearch(batch, slots, comparison, scratch_bytes=scratch_bytes)
    triplets = [no_triplets(batch.labels.device)]
    for block in search.blocks():
        upper = search.upper_end(block, margin)
        for slot in range(slots.width):
            floor, end = block.closer[:, slot, None], upper[:, slot, None]
            inside = (block.negatives > floor) & (block.negatives < end) & (floor < NEVER)
            row, negative = inside.nonzero().unbind(1)
            triplets.append(Triplets(row + block.rows.start, block.positive[row, slot], negative))
    return order_triplets(triplets, several=True)
