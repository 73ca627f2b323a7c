"""SigLIP loss (Zhai et al. 2023, Sec. 3.2): each pair decided alone, by a sigmoid, whatever the rest of the batch.

    loss = mean over rows i of sum over j of log(1 + exp(-z_ij (scale s_ij + bias)))

z is 1 of positives and -1 of negatives; a row is not compared with itself. scale and bias are learned, from 10 and -10,
so that the many negatives do not outweigh the positives at the start: scale exp(log_growth), and bias + shift. With
two towers, `TwoTowerLoss(SigLIPLoss())` is the paper's loss of images and texts.

What scale and bias learn from is one number for each row, streamed with its loss: the slopes by the logits, and those
times the similarities. Memory: the scratch; rows are streamed and never kept.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.mining.pairs import Masks
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def siglip_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    scale: float = 10.0,
    bias: float = -10.0,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the SigLIP loss of a batch at a given scale and bias, of all pairs or of given triplets."""
    loss = SigLIPLoss(scale=scale, bias=bias, learned=False, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class SigLIPLoss(RowLoss):
    """SigLIP loss of a batch. scale, bias: where they begin, or with learned=False stay.

    learning_rate: of scale and bias, which `parameter_groups()` gives an optimizer.
    """

    temporaries = 9.0

    def __init__(
        self,
        *,
        scale: float = 10.0,
        bias: float = -10.0,
        learned: bool = True,
        learning_rate: float = 1e-3,
        **settings: Unpack[RowSettings],
    ):
        super().__init__(**settings)
        self.scale, self.bias = check_margin(scale, name="scale"), check_number(bias, "bias")
        self.learned, self.learning_rate = learned, check_margin(learning_rate, name="learning_rate")
        if learned:
            self.log_growth, self.shift = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return scale and bias with their own learning rate, for an optimizer."""
        return [{"params": list(self.parameters()), "lr": self.learning_rate}] if self.learned else []

    def describe_settings(self) -> str:
        """Return the settings as text, scale and bias as they are now."""
        now = ""
        if self.learned:
            scale, bias = self.scale * self.log_growth.detach().exp().item(), self.bias + self.shift.item()
            now = f", now {scale:.4g} and {bias:.4g}"
        return f"scale={self.scale:g}, bias={self.bias:g}{now}, normalize={self.normalize}"

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows, with the gradients of scale and bias by their slopes."""
        pairs = batch.pairs
        scale, bias = self.scale, self.bias
        if self.learned:
            scale, bias = scale * self.log_growth.exp(), bias + self.shift
        fixed = [value.detach() if isinstance(value, Tensor) else value for value in (scale, bias)]

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda similarity: row_totals(masks, similarity, *fixed)

        rows = batch.rows(reducer, temporaries=self.temporaries, outputs=3)
        total, by_scale, by_bias = rows.sum(0)
        if self.learned:
            moved = by_scale.detach() * (scale - fixed[0]) + by_bias.detach() * (bias - fixed[1])  # 0, with a slope
            total = total + moved.to(total.dtype)
        return sums_of((total, len(rows)))


def row_totals(masks: Masks, similarity: Tensor, scale: Tensor | float, bias: Tensor | float) -> Tensor:
    """Return of each row its loss, and the slopes of that by scale and bias."""
    sign = masks.negative.to(similarity.dtype) - masks.positive.to(similarity.dtype)  # -z, and 0 of the row itself
    against = sign * (similarity * scale + bias)
    values = softplus(against) * (sign != 0)
    slope = (torch.sigmoid(against) * sign).detach()
    by_scale = (slope * similarity.detach()).sum(1)
    return torch.stack([values.sum(1), by_scale, slope.sum(1)], 1)
