"""The semi-hard window, and every negative inside it, or one drawn from it.

    floor < d2(a, n) < upper_end(floor),   floor = d2(a, p)

Memory: the scratch, and the triplets themselves. A loss that is given a miner with
`negatives="all"` does not call this: it streams the same window without a list.
"""

import torch
from torch import Tensor

from shadowmetric.mining.nearest import Partners, Search, alive
from shadowmetric.ops.row_lengths import square_root
from shadowmetric.ops.runs import exclude
from shadowmetric.ops.similarity_blocks import whole_row_blocks
from shadowmetric.types import Triplets

TEMPORARIES = 4.0  # blocks that the window of one partner makes
UNITS = ("squared", "gap", "distance")


def upper_end(floor: Tensor, margin: float, unit: str) -> Tensor:
    """Return where the window above a squared distance ends, as a squared distance."""
    if unit == "squared":
        return floor + margin
    if unit == "gap":
        return floor + 2 * margin
    return (square_root(floor) + margin).square()


def window_triplets(
    search: Search,
    partners: list[Partners],
    margin: float,
    unit: str,
    *,
    drawn: bool,
    generator: torch.Generator | None,
) -> list[Triplets]:
    """Return the triplets of all windows, slot by slot: every negative inside, or one drawn with equal chances."""
    number = search.classes.reference_order
    chances = [_uniform(len(pair.row), generator, number.device) for pair in partners] if drawn else []
    found: list[list[Triplets]] = [[] for _ in partners]
    for block in whole_row_blocks(search.left, search.right, scratch_bytes=search.for_blocks, temporaries=TEMPORARIES):
        exclude(block, search.classes.runs, float("inf"))
        for slot, pair in enumerate(partners):
            end = min(block.bottom, len(pair.row))
            if end <= block.top:
                break
            floor = pair.distance[block.top : end]
            upper = upper_end(floor, margin, unit)
            values = block.values[: end - block.top]
            inside = (values > floor[:, None]) & (values < upper[:, None]) & alive(pair)[block.top : end, None]
            row, column = _draw(inside, chances[slot][block.top : end]) if drawn else inside.nonzero().unbind(1)
            place = row + block.top
            found[slot].append(Triplets(search.classes.order[place], pair.row[place], number[column]))
    return [Triplets(*(torch.cat(columns) for columns in zip(*parts, strict=True))) for parts in found]


def _uniform(count: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Return chances in [0, 1), the same on every device for a generator of the CPU."""
    where = device if generator is None else generator.device
    return torch.rand(count, generator=generator, device=where, dtype=torch.float64).to(device)


def _draw(inside: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows that have a candidate, and one of its candidates with equal chances."""
    so_far = inside.cumsum(1, dtype=torch.int32)
    count = so_far[:, -1]
    wanted = (chance * count).to(torch.int32).clamp_max(count - 1)  # the wanted-th candidate, from 0
    row = (count > 0).nonzero()[:, 0]
    return row, (so_far[row] <= wanted[row, None]).sum(1)
