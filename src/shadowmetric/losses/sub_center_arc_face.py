"""Sub-center ArcFace loss (Deng et al. 2020, eq. 2): ArcFace, with several centers of each class.

    theta_c = the least of the angles to the centers of class c
    loss    = mean over rows of -log softmax_c(scale cos(theta_c + margin [c = label]))[label]

Odd images of a class gather at a center of their own, and do not pull the others along. Centers that are equally near
share the gradient.

Memory: that of `ArcFaceLoss`, the scratch and a few numbers for each row.
"""

from typing import Unpack

from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.losses.arc_face import ArcFaceLoss
from shadowmetric.losses.proxies import ProxyLoss, ProxySettings, loss_with_centers
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Scalar


def sub_center_arc_face_loss(
    embeddings: Embeddings,
    labels: Tensor,
    centers: Tensor,  # (classes x centers_per_class, dim), those of a class one after the other
    *,
    centers_per_class: int = 3,
    scale: float = 64.0,
    margin: float = 0.5,
    **settings: Unpack[ProxySettings],
) -> Scalar:
    """Return the sub-center ArcFace loss of a batch against the centers of all classes."""
    count, dim = centers.shape
    if count % centers_per_class:
        raise ValueError(f"there are {count} centers; give {centers_per_class} for each class.")
    classes, own = count // centers_per_class, {"centers_per_class": centers_per_class, "scale": scale}
    return loss_with_centers(
        lambda: SubCenterArcFaceLoss(classes, dim, margin=margin, **own, **settings), embeddings, labels, centers
    )


class SubCenterArcFaceLoss(ArcFaceLoss):
    """Sub-center ArcFace loss of a batch; labels are 0 to classes - 1. margin is in radians."""

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        centers_per_class: int = 3,
        scale: float = 64.0,
        margin: float = 0.5,
        center_learning_rate: float = 1e-2,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        centers = classes * centers_per_class
        ProxyLoss.__init__(self, classes, dim, centers, center_learning_rate, scratch_bytes=scratch_bytes, debug=debug)
        self.centers_per_class = centers_per_class
        self.scale, self.margin = check_margin(scale, name="scale"), check_margin(margin)

    def class_similarity(self, cosine: Tensor) -> Tensor:
        """Return the largest of the cosines with the centers of each class."""
        return cosine.unflatten(1, (-1, self.centers_per_class)).amax(2)
