"""From the values of triplets or pairs to a loss: their mean, their sum, or the mean of those above zero."""

from typing import Literal, NamedTuple, get_args

from torch import Tensor

from shadowmetric.checks import check_choice
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.types import TripletValues

Reduction = Literal["mean", "sum", "mean_nonzero"]


def check_reduction(reduction: Reduction) -> Reduction:
    """Return the reduction, or refuse an unknown one."""
    check_choice(reduction, get_args(Reduction), "reduction")
    return reduction


class Totals(NamedTuple):
    """Sum of the triplets' values, how many triplets there are, how many have a value above zero."""

    total: Tensor
    triplets: Tensor
    above_zero: Tensor


def totals_of(values: TripletValues) -> Totals:
    """Return the totals of a list of values."""
    return Totals(values.sum(), values.new_full((), len(values)), (values > 0).sum())


def reduce_totals(totals: Totals, reduction: Reduction) -> Sums:
    """Return the sums of the mean, sum or mean of what is above zero."""
    if reduction == "sum":
        return sums_of((totals.total, 0))
    return sums_of((totals.total, totals.triplets if reduction == "mean" else totals.above_zero))
