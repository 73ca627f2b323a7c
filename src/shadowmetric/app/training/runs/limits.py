"""What numbers of settings may be: not below the least, not beyond all machines; and margins that nothing can meet.

On rows of length 1 what a loss compares ends somewhere, and so do differences of two such values. A triplet meets a
margin if farther - closer is at least that: beyond the largest difference no triplet ever does.
"""

import math
from collections.abc import Mapping

from shadowmetric.errors import Mistake

LEAST: dict[str, float] = {
    **{"epochs": 0, "batch": 2, "per_class": 1, "batches": 1, "dim": 1, "size": 8, "resize": 8},
    **{"logical_batch": 2, "micro_batch": 1, "scratch_mb": 1, "cross_batch_memory": 0, "cross_batch_warmup": 0},
    **{"most_per_class": 2, "length_penalty": 0, "semi_hard_epochs": 0, "mine_from_all": 0, "mine_guard": 0},
    **{"patience": 0, "seed": 0, "workers": 0, "cache_mb": 0, "save_every": 0, "weight_decay": 0},
}
MOST = {"size": 4096, "resize": 4096, "dim": 2**20, "workers": 1024, "seed": 2**62}
MOST_OF_ALL = 2**31 - 1  # whole numbers that nothing above speaks of
LARGEST_DIFFERENCE = {  # of what a loss compares on rows of length 1, and what that is
    "shadow": (2.0, "gaps of 0 to 2"),
    "double_shadow": (2.0, "gaps of 0 to 2"),
    "triplet": (4.0, "squared distances of 0 to 4"),
    "triplet_control": (2.0, "squared distances of 0 to 4 with twice the margin"),
    "angular_triplet": (math.pi, "angles of 0 to π"),
    "pml:TripletMarginLoss": (2.0, "distances of 0 to 2"),
}


def check_number(name: str, option: str, value: int | float | None) -> None:
    """Refuse a number outside of what its setting may be."""
    if value is None or isinstance(value, bool):
        return
    if name in LEAST and not LEAST[name] <= value < math.inf:  # NaN is not, either
        raise Mistake(f"{option} is {value}; it must be {LEAST[name]:g} or more.")
    if isinstance(value, int) and value > (most := MOST.get(name, MOST_OF_ALL)):
        raise Mistake(f"{option} is {value}; it must be {most} or less.")


def unreachable_margin(losses: Mapping[str, float], *, unit_rows: bool) -> tuple[str, ...]:
    """Say which losses, by their names with their margins, no triplet can satisfy on rows of length 1."""
    if not unit_rows:
        return ()
    return tuple(
        f"--margin {margin:g} cannot be met by {loss}, which compares {what} on rows of length 1: every triplet counts "
        f"however well it is embedded, and the loss never falls below {margin - most:g}; take one below {most:.3g}."
        for loss, margin in losses.items()
        for most, what in [LARGEST_DIFFERENCE.get(loss, (math.inf, ""))]
        if margin > most
    )
