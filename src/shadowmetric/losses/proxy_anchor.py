"""Proxy-Anchor loss (Kim et al. 2020, eq. 4): each class's proxy against all rows of the batch.

    loss = mean over proxies p with a row in the batch of log(1 + sum over their rows x of exp(-alpha (s_xp - margin)))
         + mean over all proxies p of log(1 + sum over rows x of other classes of exp(alpha (s_xp + margin)))

s is the cosine of a row and a proxy. Here proxies are what is streamed, a block of them against the rows of the batch,
so their number does not matter. The sum inside of the logarithm runs over the whole batch, so with ranks each of them
streams all proxies against everybody's rows; with a memory, remembered rows are rows like others.

Memory: the scratch, and two numbers for each proxy.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from shadowmetric.checks import check_margin
from shadowmetric.losses.proxies import LEAST, ProxyLoss, ProxySettings, loss_with_centers
from shadowmetric.losses.row_loss import log_sum_exp_without
from shadowmetric.losses.sums import Sums
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.ops.memory import Bytes, Cost, streaming_phases, width_of
from shadowmetric.ops.row_stream import Stream, TermList, row_stream
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Scalar

TEMPORARIES = 9.0


def proxy_anchor_loss(
    embeddings: Embeddings,
    labels: Tensor,
    centers: Tensor,  # (classes, dim)
    *,
    margin: float = 0.1,
    alpha: float = 32.0,
    **settings: Unpack[ProxySettings],
) -> Scalar:
    """Return the Proxy-Anchor loss of a batch against the proxies of all classes."""
    classes, dim = centers.shape
    return loss_with_centers(
        lambda: ProxyAnchorLoss(classes, dim, margin=margin, alpha=alpha, **settings), embeddings, labels, centers
    )


class ProxyAnchorLoss(ProxyLoss):
    """Proxy-Anchor loss of a batch; labels are 0 to classes - 1. margin is in cosine."""

    unit = "cosine"

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        margin: float = 0.1,
        alpha: float = 32.0,
        center_learning_rate: float = 1e-2,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__(classes, dim, classes, center_learning_rate, scratch_bytes=scratch_bytes, debug=debug)
        self.margin, self.alpha = check_margin(margin), check_margin(alpha, name="alpha")

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming the proxies against the rows, and the references if there are any."""
        width = width_of(dtype)
        several = 2.0 if references else 1.0
        kept = Bytes(center=several * (8 + 6 * width.working) + 16, row=8.0, reference=8.0 if references else 0.0)
        phases = streaming_phases(self.scratch_bytes, dtype, TEMPORARIES, columns="center", references=references)
        more = Bytes(center=16.0 * width.working, center_number=8.0 * width.working)
        return Cost(kept, tuple(kept + more + part for part in phases))

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return both means over proxies, weighted by rows so that ranks' shares add up to the whole.

        A batch that is some of the references is compared with them: the rows of all ranks, or a memory.
        """
        sides = self.check_rows(batch, triplets)
        reference_labels = batch.class_labels()[1]
        if reference_labels is not None and len(sides) == 1:
            sides = [(batch.others, reference_labels)]
        ends = [self._ends(*side) for side in sides]
        pull, push = ends[0].unbind(1) if len(ends) == 1 else torch.logaddexp(*ends).unbind(1)
        present = torch.zeros(self.classes, dtype=torch.bool, device=pull.device)
        for _, labels in sides:
            present = present.index_fill(0, labels, True)
        rows = len(batch.labels)
        totals = torch.stack([(softplus(pull) * present).sum(), softplus(push).sum()])
        counts = torch.stack([present.sum(), present.new_full((), 1, dtype=torch.int64) * self.classes])
        return Sums(rows * totals, (rows * counts).to(totals.dtype))

    def _ends(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Return for each proxy the logarithms of both sums over some rows: (classes, 2)."""
        numbers = torch.arange(self.classes, device=labels.device)

        def terms(start: int, stop: int) -> TermList:
            other = numbers[start:stop, None] != labels

            def term(cosine: Tensor, *_: Tensor) -> Tensor:
                pull = log_sum_exp_without(self.alpha * (self.margin - cosine), other, LEAST)
                push = log_sum_exp_without(self.alpha * (self.margin + cosine), ~other, LEAST)
                return torch.cat([pull, push], 1)

            return [term]

        stream = Stream(
            normalize=True, reads_squares=False, outputs=2, temporaries=TEMPORARIES, scratch_bytes=self.scratch_bytes
        )
        return row_stream(self.centers, rows, terms, stream)
