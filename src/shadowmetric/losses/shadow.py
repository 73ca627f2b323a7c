"""Shadow loss: judge a positive and a negative by the shadow each casts on its anchor.

For an anchor a and another embedding x (paper, eqs. proj, 5 and shadow):

    shadow(a, x) = a . x / |a|
    gap(a, x)    = | |a| - shadow(a, x) |
    loss         = mean over triplets of max(gap(a, p) - gap(a, n) + margin, 0)

Memory: besides the embeddings, which the encoder keeps anyway, a few numbers per triplet.
`pair_measures` is what makes that true; indexing rows here would undo it.

On unit rows gap = 1 - cos = half the squared distance, so this is exactly half the squared triplet
loss at twice the margin; `tests/losses/test_identities.py` holds us to that.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from shadowmetric.checks import check_choice, check_margin, check_rows, check_triplets
from shadowmetric.losses.mined import MinedLoss, triplet_values
from shadowmetric.losses.reductions import REDUCTIONS, reduced, totals_of
from shadowmetric.losses.slopes import Slopes, gap_and_slope, relu_and_slope
from shadowmetric.mining.given import Given, Mined
from shadowmetric.ops.rows import working_dtype
from shadowmetric.types import Embeddings, References, Scalar


def gap(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
    """Return | |a| - a.x / |a| | = | |a|^2 - a.x | / |a|; the length of x does not matter, and a zero row has gap 0."""
    return (square - dots).abs() / torch.where(square > 0, square, 1.0).sqrt()


def shadow_loss(
    embeddings: Embeddings,
    triplets: Sequence[Tensor],
    *,
    margin: float = 0.2,
    normalize: bool = True,
    reduction: str = "mean",
    references: References | None = None,
) -> Scalar:
    """Return the shadow loss of the triplets; zero, with a graph, if there are none."""
    check_rows(embeddings)
    check_margin(margin)
    check_choice(reduction, REDUCTIONS, "reduction")
    given = Given(embeddings, torch.empty(0), references)
    triplets = check_triplets(triplets, len(embeddings), len(given.others), embeddings.device)
    values = triplet_values(
        given, Mined(triplets), gap, lambda closer, farther: torch.relu(closer - farther + margin), normalize=normalize
    )
    return reduced(totals_of(values), reduction).value()


def shadow_loss_rows(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 0.2) -> Scalar:
    """Return the shadow loss of three (triplets, dim) tensors, row by row, as they are (the paper's Algorithm 1).

    This is the form the paper prints. Autograd keeps all three tensors, so its memory grows with dim;
    with row numbers instead of rows, `ShadowLoss` does not.
    """
    for name, rows in (("anchor", anchor), ("positive", positive), ("negative", negative)):
        check_rows(rows, name)
        if rows.shape != anchor.shape:
            raise ValueError(
                f"{name} has shape {tuple(rows.shape)} and anchor {tuple(anchor.shape)}; they must be equal."
            )
    check_margin(margin)
    anchor, positive, negative = (rows.to(working_dtype(rows.dtype)) for rows in (anchor, positive, negative))
    square = anchor.square().sum(1)
    closer, farther = (gap((anchor * other).sum(1), square, square) for other in (positive, negative))
    return torch.relu(closer - farther + margin).mean()


class ShadowLoss(MinedLoss):
    """Shadow loss of a batch: unit rows and semi-hard mining by default, as in the paper.

    margin is in gaps: 1 - cos on unit rows. A miner given by name takes the same margin, in its own
    unit (semi-hard: squared distance, as in the paper); a miner object keeps its own.
    """

    unit = "gap"
    slopes = Slopes(gap_and_slope, relu_and_slope)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return the gap."""
        return gap(dots, square, other_square)

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return max(closer - farther + margin, 0)."""
        return torch.relu(closer - farther + self.margin)
