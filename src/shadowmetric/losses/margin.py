"""Margin loss (Wu et al. 2017, eq. 4) of pairs that distance-weighted sampling draws.

    l(a, p) = max(|a - p| - beta + margin, 0)          l(a, n) = max(beta - |a - n| + margin, 0)
    loss    = sum of both over the triplets, over how many of the terms are above zero

beta is the distance that parts positives from negatives; with learned=True it is beta + shift, and shift is learned, as
in the paper. One negative is drawn for each positive pair, with a probability that evens out how often its distance
comes (`mining/distance_weighted.py`).

Memory: the scratch, and a few numbers per positive pair.
"""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from shadowmetric.checks import check_margin, check_scratch, check_slots, check_triplets
from shadowmetric.losses.distances import distance
from shadowmetric.losses.sums import SummedLoss, Sums, sums_of
from shadowmetric.mining.checked_batch import NAMING, CheckedBatch
from shadowmetric.mining.distance_weighted import DistanceWeightedMiner
from shadowmetric.mining.pairs import pairs_of
from shadowmetric.ops.memory import Bytes, Cost, each, gathering_phases, width_of
from shadowmetric.ops.pair_measures import pair_measures
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar, Triplets


class MarginSettings(TypedDict, total=False):
    """What the loss can be told besides its margin and beta."""

    seed: int
    normalize: bool
    slots: int | None
    scratch_bytes: int
    debug: bool


def margin_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    margin: float = 0.2,
    beta: float = 1.2,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[MarginSettings],
) -> Scalar:
    """Return the margin loss of a batch at a given beta, of sampled pairs or of given triplets."""
    loss = MarginLoss(margin, beta=beta, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class MarginLoss(SummedLoss):
    """Margin loss of a batch. margin and beta are in distance.

    beta: where positives and negatives are parted, or with learned=True where that begins, at a rate of its own that
    `parameter_groups()` gives an optimizer.
    seed: of the sampling, which compares unit rows, also where the loss does not. For other triplets give them.
    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class; None asks the
    labels, for which an accelerator waits once.
    """

    def __init__(
        self,
        margin: float = 0.2,
        *,
        beta: float = 1.2,
        learned: bool = False,
        learning_rate: float = 1e-3,
        seed: int = 0,
        normalize: bool = True,
        slots: int | None = None,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__()
        self.margin, self.normalize, self.debug, self.seed = check_margin(margin), normalize, debug, seed
        self.slots, self.scratch_bytes = check_slots(slots), check_scratch(scratch_bytes)
        self.learned, self.learning_rate = learned, check_margin(learning_rate, name="learning_rate")
        self.beta = check_margin(beta, name="beta")
        if learned:
            self.shift = nn.Parameter(torch.zeros(()))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return beta with its own learning rate, for an optimizer."""
        return [{"params": list(self.parameters()), "lr": self.learning_rate}] if self.learned else []

    def describe_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        slots = "" if self.slots is None else f", slots={self.slots}"
        now = f" (now {self.beta + self.shift.item():.4g})" if self.learned else ""
        own = f"beta={self.beta:g}{now}, seed={self.seed}, normalize={self.normalize}"
        return f"margin={self.margin:g} (distance), {own}{slots}"

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of sampling, and of measuring two pairs for each positive one."""
        width, (unit, count) = width_of(dtype), ("row", self.slots) if self.slots else ("positive", 1)
        values = 2 * (16.0 + 6 * width.working)  # of a positive pair and of its negative
        kept = Bytes(row=8.0, reference=8.0 if references else 0.0) + each(unit, count * values)
        pairs = each(unit, count * (values + 120.0 + 8 * width.working))
        sampling = DistanceWeightedMiner(scratch_bytes=self.scratch_bytes).memory(dtype, references=references).phases
        parts = gathering_phases(dtype, normalize=self.normalize, references=references)
        phases = [*(each(unit, 200.0 * count) + part for part in sampling), *(pairs + part for part in parts)]
        return Cost(kept, (*phases, NAMING)) if references else Cost(kept, tuple(phases)).own()

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums of a mean over the terms above zero, of sampled triplets or of given ones."""
        if triplets is None:
            (anchor, positive, negative), real = self._sample(batch)
        else:
            rows, device = batch.embeddings, batch.embeddings.device
            checked = check_triplets(triplets, len(rows), len(batch.others), device, debug=self.debug)
            (anchor, positive, negative), real = checked, None
        apart = pair_measures(
            batch.embeddings,
            batch.references,
            torch.cat([anchor, anchor]),
            torch.cat([positive, negative]),
            distance,
            batch.grids(normalize=self.normalize),
        )
        closer, farther = apart.chunk(2)
        beta = self.beta + self.shift if self.learned else self.beta
        values = torch.relu(torch.stack([closer - beta, beta - farther]) + self.margin)
        if real is not None:
            values = torch.where(real, values, 0.0)
        return sums_of((values.sum(), (values > 0).sum()))

    def _sample(self, batch: CheckedBatch) -> tuple[Triplets, Tensor | None]:
        """Return the sampled triplets: in a place for each positive that a row may have, or on a CPU as a list."""
        places = pairs_of(batch).positives()
        slots = places.slots(self.slots, debug=self.debug)
        positive, real = places.of(0, len(batch.labels), slots)
        miner = DistanceWeightedMiner(seed=self.seed, scratch_bytes=self.scratch_bytes)
        negative, _, farther = miner.draw(batch, positive, real)
        real = farther < NEVER
        if self.slots is None and real.device.type == "cpu" and not torch.compiler.is_compiling():
            anchor, slot = real.nonzero(as_tuple=True)
            return Triplets(anchor, positive[anchor, slot], negative[anchor, slot]), None
        anchor = torch.arange(len(real), device=real.device)[:, None].expand(-1, slots)
        return Triplets(anchor.reshape(-1), positive.reshape(-1), negative.reshape(-1)), real.reshape(-1)
