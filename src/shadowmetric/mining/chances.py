"""Random choices that depend on the generator's seed and the batch alone, not on the way that a batch is searched.

Every place (row, slot) has a chance in [0, 1), drawn slot by slot for all rows of the batch in their order; of its n
candidates in the order of their row numbers a place takes number floor(chance n).

Memory: a float64 for each place; an int64 for each candidate looked at.
"""

import torch
from torch import Tensor

from shadowmetric.ops.arrays import Array


def draw_chances(rows: int, slots: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Return a chance for each place, (rows, slots); the same on every device for a generator of the CPU."""
    where = device if generator is None else generator.device
    drawn = [torch.rand(rows, generator=generator, device=where, dtype=torch.float64) for _ in range(slots)]
    return torch.stack(drawn, 1).to(device)


def choose_by_chance(inside: Array, count: Array, chance: Array) -> Array:
    """Return the place of the chosen candidate along the last axis; beyond its end where there is none."""
    so_far = inside.cumsum(-1)
    wanted = (chance * count // 1).clip(None, count - 1)  # the wanted-th candidate, from 0
    return (so_far <= wanted[..., None]).sum(-1)
