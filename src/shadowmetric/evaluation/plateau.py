"""The epoch after which a run no longer improves, by one rule for reports and for early stopping.

    convergence_epoch = the first epoch e with  max(recalls after e) - max(recalls up to e) < tolerance

Epochs are numbered from 1. After the last epoch nothing follows, so it always qualifies. The gain in question falls
from epoch to epoch: once an epoch qualifies, all later ones do.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

from shadowmetric.checks import check_number

TOLERANCE = 0.005  # half a point of recall


def convergence_epoch(recalls: Sequence[float], tolerance: float = TOLERANCE) -> int:
    """Return the first epoch, counted from 1, after which the best recall rises by less than the tolerance."""
    if not recalls:
        raise ValueError("recalls is empty; give the recall of each epoch.")
    _check(recalls, tolerance)
    best = list(accumulate(recalls, max))
    best_after = list(accumulate(reversed(recalls), max))[-2::-1]  # of the epochs that follow each, but the last
    for epoch, (reached, to_come) in enumerate(zip(best, best_after, strict=False), start=1):
        if to_come - reached < tolerance:
            return epoch
    return len(recalls)


def has_plateaued(recalls: Sequence[float], patience: int, tolerance: float = TOLERANCE) -> bool:
    """Return whether the best of the last `patience` epochs is less than the tolerance above the best before them.

    That is, whether convergence_epoch lies at least `patience` epochs back. False while there is nothing before them.
    """
    if isinstance(patience, bool) or not isinstance(patience, int) or patience < 1:
        raise ValueError(f"patience is {patience!r}; it must be a number of epochs, 1 or more.")
    return bool(recalls) and convergence_epoch(recalls, tolerance) <= len(recalls) - patience


def _check(recalls: Sequence[float], tolerance: float) -> None:
    if check_number(tolerance, "tolerance") < 0:
        raise ValueError(f"tolerance is {tolerance!r}; it must be 0 or more.")
    for epoch, recall in enumerate(recalls, start=1):
        if not math.isfinite(recall):
            raise ValueError(f"the recall of epoch {epoch} is {recall!r}; every epoch needs a finite one.")
