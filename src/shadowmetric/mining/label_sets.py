"""Label sets: rows that may have several labels each, as bits; two rows are positive if they share a label.

    grade(a, b) = |A and B| / |A or B|          Jaccard: 1 for equal sets, 0 for sets that share nothing

A row without any label shares nothing: it is a negative of every other row. positive_from asks for more than one
label in common: 1.0 for equal sets. What lies between that and negative_below is neither positive nor negative.

Memory: a byte for each row and label; grades of a block are two blocks of float32.
"""

import torch
from torch import Tensor

from shadowmetric.checks import INTEGERS, check_number
from shadowmetric.ops.precision import full_precision
from shadowmetric.types import Relation


class LabelSets(Relation):
    """The label sets of a batch: bits (batch, labels), of booleans or of 0 and 1.

    graded: a triplet's margin is multiplied by grade(a, p) - grade(a, n).
    positive_from: the least grade of a positive pair; None: any label in common. negative_below: a grade; None: all
    that is not positive is negative.
    """

    def __init__(
        self,
        bits: Tensor,
        *,
        graded: bool = False,
        positive_from: float | None = None,
        negative_below: float | None = None,
    ):
        if not isinstance(bits, Tensor) or bits.ndim != 2 or bits.dtype not in (torch.bool, *INTEGERS):
            what = f"{bits.dtype} of shape {tuple(bits.shape)}" if isinstance(bits, Tensor) else type(bits).__name__
            raise ValueError(f"bits is {what}; give (rows, labels) of booleans, or of 0 and 1 as integers.")
        if bits.dtype != torch.bool and bits.numel() and not 0 <= int(bits.min()) <= int(bits.max()) <= 1:
            raise ValueError(f"bits goes from {int(bits.min())} to {int(bits.max())}; give 0 and 1 alone.")
        self.rows, self.graded = bits.to(torch.uint8), graded
        self.positive_from, self.negative_below = check_grades(positive_from, negative_below)

    def measure(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the share of labels in common, of each row with each other."""
        with full_precision(rows.device):  # float32 has all counts below 2^24
            shared = rows.float() @ others.float().T
        return _share(shared, rows.sum(1).float()[:, None] + others.sum(1).float())

    def measure_pairs(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the share of labels in common of each pair."""
        return _share((rows & others).sum(1).float(), (rows.sum(1) + others.sum(1)).float())


def _share(shared: Tensor, both: Tensor) -> Tensor:
    return shared / (both - shared).clamp_min_(1.0)


def check_grades(
    positive_from: float | None, negative_below: float | None, *, largest: float = 1.0
) -> tuple[float | None, float | None]:
    """Return both grades, or refuse what parts no pairs."""
    if positive_from is not None and not 0 < check_number(positive_from, "positive_from") <= largest:
        raise ValueError(f"positive_from is {positive_from!r}; grades go from above 0 to {largest:g}.")
    if negative_below is None:
        return positive_from, None
    most = 0.0 if positive_from is None else positive_from
    if positive_from is None:
        raise ValueError(f"negative_below is {negative_below!r} without positive_from; give that too.")
    if not 0 < check_number(negative_below, "negative_below") <= most:
        raise ValueError(f"negative_below is {negative_below!r}; it must be above 0, and at most positive_from.")
    return positive_from, negative_below
