"""CosFace loss (Wang et al. 2018, eq. 4), or AM-softmax: classification by cosine, less a margin for the own class.

    loss = mean over rows of -log softmax_c(scale (cos(theta_c) - margin [c = label]))[label]

theta_c is the angle to the weight of class c. margin=0 is NormFace, the normalized softmax.

Memory: that of `ArcFaceLoss`, the scratch and a few numbers for each row.
"""

from typing import Unpack

from torch import Tensor

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.proxies import ClassLoss, Own, ProxySettings, loss_with_centers
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Scalar


def cos_face_loss(
    embeddings: Embeddings,
    labels: Tensor,
    centers: Tensor,  # (classes, dim)
    *,
    scale: float = 64.0,
    margin: float = 0.35,
    **settings: Unpack[ProxySettings],
) -> Scalar:
    """Return the CosFace loss of a batch against the weights of all classes."""
    classes, dim = centers.shape
    return loss_with_centers(
        lambda: CosFaceLoss(classes, dim, scale=scale, margin=margin, **settings), embeddings, labels, centers
    )


class CosFaceLoss(ClassLoss):
    """CosFace loss of a batch; labels are 0 to classes - 1. margin is in cosine."""

    unit = "cosine"

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        scale: float = 64.0,
        margin: float = 0.35,
        center_learning_rate: float = 1e-2,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__(classes, dim, classes, center_learning_rate, scratch_bytes=scratch_bytes, debug=debug)
        self.scale, self.margin = check_margin(scale, name="scale"), check_number(margin, "margin")

    def logits(self, similarity: Tensor, own: Own) -> Tensor:
        """Return the scaled cosines, that of a row's own class less the margin."""
        return self.scale * own.replace(similarity, own.of(similarity) - self.margin)
