"""ArcFace loss (Deng et al.): classification by angle, with a margin added to the target's angle.

    loss = mean over rows of -log softmax_c(scale cos(theta_c + margin [c = label]))[label]

theta_c is the angle to the weight of class c. Where theta + margin would pass pi, the cosine is
continued by cos(theta) - margin sin(margin), so that a worse angle never costs less.

Rows are streamed against blocks of classes, so (batch, classes) never exists. Memory: the scratch, and a few numbers
for each row.
"""

import math
from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import hardtanh

from shadowmetric.checks import check_margin
from shadowmetric.losses.proxies import ClassLoss, Own, ProxySettings, loss_with_centers
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Scalar


def arc_face_loss(
    embeddings: Embeddings,
    labels: Tensor,
    centers: Tensor,  # (classes, dim)
    *,
    scale: float = 64.0,
    margin: float = 0.5,
    **settings: Unpack[ProxySettings],
) -> Scalar:
    """Return the ArcFace loss of a batch against the weights of all classes."""
    classes, dim = centers.shape
    return loss_with_centers(
        lambda: ArcFaceLoss(classes, dim, scale=scale, margin=margin, **settings), embeddings, labels, centers
    )


class ArcFaceLoss(ClassLoss):
    """ArcFace loss of a batch; labels are 0 to classes - 1. margin is in radians."""

    unit = "radians"

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        scale: float = 64.0,
        margin: float = 0.5,
        center_learning_rate: float = 1e-2,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__(classes, dim, classes, center_learning_rate, scratch_bytes=scratch_bytes, debug=debug)
        self.scale, self.margin = check_margin(scale, name="scale"), check_margin(margin)

    def logits(self, similarity: Tensor, own: Own) -> Tensor:
        """Return the scaled cosines, that of a row's own class turned by the margin."""
        target = hardtanh(own.of(similarity), -1 + 1e-7, 1 - 1e-7)
        turned = target * math.cos(self.margin) - (1 - target.square()).sqrt() * math.sin(self.margin)
        too_far = target < math.cos(math.pi - self.margin)
        target = torch.where(too_far, target - self.margin * math.sin(self.margin), turned)
        return self.scale * own.replace(similarity, target)
