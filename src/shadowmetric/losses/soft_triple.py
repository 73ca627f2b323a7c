"""SoftTriple loss (Qian et al.): classification against several centers of each class.

    S_c  = sum_k softmax_k(x.w_ck / gamma) x.w_ck                       unit rows x, unit centers w
    loss = mean over rows of -log softmax_c(scale (S_c - margin [c = label]))[label]
           + tau / (C K (K - 1)) sum over classes and pairs of its centers of sqrt(2 - 2 w.w')

Rows are streamed against the centers of blocks of classes, so (batch, classes x centers) never exists.

Memory: the scratch; the centers themselves, and for the regularizer classes x centers^2 numbers.
"""

from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.proxies import ClassLoss, Own, ProxySettings, loss_with_centers
from shadowmetric.ops.class_distances import class_distances
from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Scalar

REGULARIZED = 2.0  # numbers kept for each pair of a class's centers, in either order


def soft_triple_loss(
    embeddings: Embeddings,
    labels: Tensor,
    centers: Tensor,  # (classes x centers_per_class, dim), those of a class one after the other
    *,
    centers_per_class: int = 10,
    scale: float = 20.0,
    gamma: float = 0.1,
    tau: float = 0.2,
    margin: float = 0.01,
    **settings: Unpack[ProxySettings],
) -> Scalar:
    """Return the SoftTriple loss of a batch against the centers of all classes."""
    count, dim = centers.shape
    if count % centers_per_class:
        raise ValueError(f"there are {count} centers; give {centers_per_class} for each class.")

    def make() -> SoftTripleLoss:
        return SoftTripleLoss(
            count // centers_per_class,
            dim,
            centers_per_class=centers_per_class,
            scale=scale,
            gamma=gamma,
            tau=tau,
            margin=margin,
            **settings,
        )

    return loss_with_centers(make, embeddings, labels, centers)


class SoftTripleLoss(ClassLoss):
    """SoftTriple loss of a batch; labels are 0 to classes - 1. margin is in cosine.

    The centers are learned; give the optimizer `parameter_groups()`, since they want a rate of their own.
    """

    unit = "cosine"

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        centers_per_class: int = 10,
        scale: float = 20.0,
        gamma: float = 0.1,
        tau: float = 0.2,
        margin: float = 0.01,
        center_learning_rate: float = 1e-2,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__(
            classes, dim, classes * centers_per_class, center_learning_rate, scratch_bytes=scratch_bytes, debug=debug
        )
        check_margin(gamma, name="gamma")
        check_margin(scale, name="scale")
        for name, value in (("tau", tau), ("margin", margin)):
            check_number(value, name)
        self.centers_per_class, self.scale, self.gamma, self.tau, self.margin = (
            centers_per_class,
            scale,
            gamma,
            tau,
            margin,
        )

    def center_kept(self, number: int) -> float:
        """Return the bytes kept for each center: its length, and its distances to those of its class."""
        return 8.0 + (REGULARIZED * number * self.centers_per_class if self.tau else 0.0)

    def class_similarity(self, cosine: Tensor) -> Tensor:
        """Return S_c of each class from the cosines with its centers."""
        cosine = cosine.unflatten(1, (-1, self.centers_per_class))
        return (torch.softmax(cosine / self.gamma, 2) * cosine).sum(2)

    def logits(self, similarity: Tensor, own: Own) -> Tensor:
        """Return the scaled similarities, that of a row's own class less the margin."""
        return self.scale * own.replace(similarity, own.of(similarity) - self.margin)

    def center_cost(self, centers: Tensor, grid: GridRows) -> Scalar | None:
        """Return how far apart the centers of a class are, times tau."""
        count = self.centers_per_class
        if count == 1 or self.tau == 0:
            return None
        apart = class_distances(centers, grid, count)
        between = torch.triu((apart + 1e-5).sqrt(), 1).sum()
        return self.tau / (self.classes * count * (count - 1)) * between
