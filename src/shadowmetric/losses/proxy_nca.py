"""Proxy-NCA++ loss (Teh et al. 2020, eq. 9): the own class's proxy against all, by squared distance.

    loss = mean over rows of -log softmax_c(-|x - w_c|^2 / temperature)[label]            unit rows x, unit proxies w

The first Proxy-NCA (Movshovitz-Attias et al. 2017, eq. 4) sums over the other classes only, denominator="others", and
has temperature 1; there the loss may be below zero. On unit rows |x - w|^2 = 2 - 2 cos, so this is the normalized
softmax at scale 2 / temperature. The paper's temperature is 1/9.

Memory: that of `ArcFaceLoss`, the scratch and a few numbers for each row.
"""

from typing import Literal, Unpack, get_args

from torch import Tensor

from shadowmetric.checks import check_choice, check_margin
from shadowmetric.losses.proxies import ClassLoss, Own, ProxySettings, loss_with_centers
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Scalar

Denominator = Literal["all", "others"]


def proxy_nca_loss(
    embeddings: Embeddings,
    labels: Tensor,
    centers: Tensor,  # (classes, dim)
    *,
    temperature: float = 1 / 9,
    denominator: Denominator = "all",
    **settings: Unpack[ProxySettings],
) -> Scalar:
    """Return the Proxy-NCA++ loss of a batch against the proxies of all classes."""
    classes, dim = centers.shape

    def make() -> ProxyNCALoss:
        return ProxyNCALoss(classes, dim, temperature=temperature, denominator=denominator, **settings)

    return loss_with_centers(make, embeddings, labels, centers)


class ProxyNCALoss(ClassLoss):
    """Proxy-NCA++ loss of a batch; labels are 0 to classes - 1.

    temperature: of squared distances. denominator: "all" classes, or the "others" only, as the first Proxy-NCA.
    """

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        temperature: float = 1 / 9,
        denominator: Denominator = "all",
        center_learning_rate: float = 1e-2,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__(classes, dim, classes, center_learning_rate, scratch_bytes=scratch_bytes, debug=debug)
        self.temperature = check_margin(temperature, name="temperature")
        check_choice(denominator, get_args(Denominator), "denominator")
        self.denominator: Denominator = denominator
        if denominator == "others" and classes < 2:
            raise ValueError(f'classes is {classes}; denominator="others" needs at least 2.')
        self.own_class_counts = denominator == "all"

    def logits(self, similarity: Tensor, own: Own) -> Tensor:
        """Return -|x - w_c|^2 / temperature."""
        return (similarity - 1) * (2 / self.temperature)
