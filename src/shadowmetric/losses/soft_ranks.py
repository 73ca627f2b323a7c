"""What losses of ranks share: the soft rank of each positive among all that a row is compared with, streamed.

    rank(i, p)     = 1 + sum over x != p of G((s_ix - s_ip) / temperature)          x: positives and negatives of row i
    above(i, p)    = 1 + sum over positives x != p of the same
    G(z)           = 1 / (1 + exp(-z)), in the place of a step

A rank asks a row's every similarity once for each of its positives. Naive programs hold (rows, positives, rows) of
them, or (rows, rows, rows). Here a block of rows is streamed, and on it one positive of each row after the other: each
is a term of `row_stream`, differentiated by itself, so that what exists at once is a block and what one positive makes
of it. The gradient is exact: a similarity counts in the rank of every positive, and as that of a positive itself.

Memory: the scratch, and for backward a few numbers per row. Time: two products, and two passes over the similarities
for each positive of a row.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from shadowmetric.losses.row_loss import Batch, RowLoss
from shadowmetric.mining.slots import SLOTS_AT_ONCE
from shadowmetric.ops.row_stream import Term, TermList

OfRanks = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(rank, rank among positives, how many positives), (rows, positives) and (rows, 1) -> (rows, positives, outputs)."""

MORE_POSITIVES = 2.0  # blocks that a term makes of each further positive
SATURATED = -1e30  # the similarity of what is not compared


class RankLoss(RowLoss):
    """A loss of soft ranks. temperature: of similarities, in the step that ranks count by."""

    temporaries = 8.0  # blocks that a term of one positive of each row makes
    places_kept = True
    temperature: float

    def rank_totals(self, batch: Batch, of_ranks: OfRanks, outputs: int) -> Sequence[Tensor]:
        """Return for each row the sum over its positives of a function of their ranks, and how many these are."""
        pairs, positives, temperature = batch.pairs, batch.pairs.positives(), self.temperature
        slots = positives.slots(self.slots, debug=self.debug)
        device = batch.checked.labels.device
        at_once = 1 if device.type == "cpu" else min(slots, SLOTS_AT_ONCE)  # fewer, larger calls

        def terms(start: int, stop: int) -> TermList:
            excluded = pairs.not_negative(start, stop)
            partner, real = positives.of(start, stop, slots)
            count = real.sum(1, keepdim=True)

            def rank_term(slot: int) -> Term:
                here = slice(slot, min(slot + at_once, slots))

                def term(block: Tensor, *_: Tensor) -> Tensor:
                    scaled = block / temperature
                    near = scaled.gather(1, partner)
                    closer = near[:, here, None]  # (rows, slots here, 1)
                    others = scaled.masked_fill(excluded, SATURATED)[:, None]
                    beside = torch.sigmoid(near[:, None] - closer) * real[:, None]  # (rows, slots here, slots)
                    above = beside.sum(2) + 0.5  # the positive itself is a half, without a slope
                    rank = above + torch.sigmoid(others - closer).sum(2)
                    there = real[:, here, None]
                    values = (of_ranks(rank, above, count) * there).sum(1)
                    return torch.cat([values, there.sum(1)], 1)

                return term

            return [rank_term(slot) for slot in range(0, slots, at_once)]

        temporaries = self.temporaries + MORE_POSITIVES * (at_once - 1)
        totals = batch.stream(terms, temporaries=temporaries, outputs=outputs + 1)
        return totals[:, :outputs], totals[:, outputs:].detach()
