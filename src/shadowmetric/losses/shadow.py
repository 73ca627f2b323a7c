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

from shadowmetric.checks import check_margin, check_rows
from shadowmetric.losses.mined import MinedLoss
from shadowmetric.losses.reductions import Reduction
from shadowmetric.losses.slopes import Slopes, gap_and_slope, relu_and_slope
from shadowmetric.losses.triplet_list import hinge_at, loss_of_triplets
from shadowmetric.ops.rows import working_dtype
from shadowmetric.types import Embeddings, References, Scalar


def gap(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
    """Return | |a| - a.x / |a| | = | |a|^2 - a.x | / |a|; the length of x does not matter, and a zero row has gap 0."""
    return (square - dots).abs() / square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()


def shadow_loss(
    embeddings: Embeddings,
    triplets: Sequence[Tensor],
    *,
    margin: float = 0.2,
    normalize: bool = True,
    reduction: Reduction = "mean",
    references: References | None = None,
) -> Scalar:
    """Return the shadow loss of the triplets; zero, with a graph, if there are none."""
    hinge = hinge_at(margin)
    return loss_of_triplets(
        embeddings, triplets, gap, hinge, normalize=normalize, reduction=reduction, references=references
    )


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
    """Shadow loss of a batch: unit rows and semi-hard mining by default.

    margin is in gaps: 1 - cos on unit rows. A miner given by name compares gaps too, with the same margin; a miner
    object keeps its own: `miner=SemiHardMiner(0.2)` is the paper's window, 0.2 in squared distance on unit rows.
    """

    unit = "gap"
    slopes = Slopes(gap_and_slope, relu_and_slope)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return the gap."""
        return gap(dots, square, other_square)

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return max(closer - farther + margin, 0)."""
        return torch.relu(closer - farther + self.margin)
