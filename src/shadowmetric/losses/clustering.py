"""Clustering loss (Oh Song et al. 2017, eqs. 2 to 7): the best wrong clustering against the best right one.

    F(S)       = -1/n sum over rows i of min over j in S of |x_i - x_j|           S: rows that are medoids
    F~         = -1/n sum over classes of min over rows j of the class of sum over i of the class of |x_i - x_j|
    loss       = max( max over S of [F(S) + gamma (1 - NMI(clusters of S, classes))] - F~, 0 )        |S| = classes

A clustering that costs little and is wrong has its medoids pushed away, and rows are drawn to the best medoid of their
class. The paper sums over rows where this is a mean, so its gamma is n times this one. The best S is NP-hard; here as
there it is chosen greedily (`mining/medoids.py`), but the paper then tries swaps, T times each medoid with each row of
its cluster, and here there are none.

The loss is of a whole batch, no sum over rows: with ranks each of them clusters everybody's rows; a memory is one
batch with the batch. Other references are what the medoids are chosen of, for the rows of the batch. Given triplets,
the rows that they name are the batch.

Memory: the scratch, both sides in float64 while medoids are chosen, and two pairs for each row. Time: classes times
candidates times rows distances; with candidates=None all rows are tried at each step, classes times rows squared: cubic
where classes grow with the batch. What is bounded is `candidates`: batches of at most so many rows are as in the paper.
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_scratch, check_triplets
from shadowmetric.losses.distances import distance
from shadowmetric.losses.row_loss import settings_of
from shadowmetric.losses.sums import SummedLoss, Sums, sums_of
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.medoids import Medoids, medoids_of
from shadowmetric.ops.memory import Bytes, Cost, gathering_phases, on_grid, width_of
from shadowmetric.ops.pair_measures import pair_measures
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, References, Scalar

CANDIDATES = 256


class ClusteringSettings(TypedDict, total=False):
    """What the loss can be told besides gamma and candidates."""

    normalize: bool
    scratch_bytes: int
    debug: bool


def clustering_loss(
    embeddings: Embeddings,
    labels: Tensor,
    triplets: Sequence[Tensor] | None = None,
    *,
    gamma: float = 1.0,
    candidates: int | None = CANDIDATES,
    references: References | None = None,
    reference_labels: Tensor | None = None,
    **settings: Unpack[ClusteringSettings],
) -> Scalar:
    """Return the clustering loss of a batch, of all its rows or of those that given triplets name."""
    loss = ClusteringLoss(gamma=gamma, candidates=candidates, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class ClusteringLoss(SummedLoss):
    """Clustering loss of a batch.

    gamma: what a clustering that has nothing to do with the classes may cost more, in mean distance.
    candidates: rows that each step of the greedy choice tries; None for all.
    """

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        candidates: int | None = CANDIDATES,
        normalize: bool = True,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__()
        self.gamma, self.normalize, self.debug = check_margin(gamma, name="gamma"), normalize, debug
        if candidates is not None and (isinstance(candidates, bool) or candidates < 1):
            raise ValueError(f"candidates is {candidates!r}; it must be at least 1, or None for all rows.")
        self.candidates, self.scratch_bytes = candidates, check_scratch(scratch_bytes)

    def describe_settings(self) -> str:
        """Return the settings as text."""
        return settings_of(self, "")

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of choosing medoids, and of measuring two pairs for each row."""
        width = width_of(dtype)
        grid = on_grid(dtype, normalize=self.normalize, references=references)
        finer = 2.0 if dtype == torch.float64 or not self.normalize else 1.0
        sides = Bytes(number=20.0 * finer, reference_number=16.0 * finer if references else 0.0)
        counts = Bytes(row=160.0, reference=80.0 if references else 0.0)
        choosing = Bytes(scratch=2.0 * self.scratch_bytes, thinnest=128.0) + grid + sides + counts
        pairs = Bytes(row=2 * (64.0 + 12.0 * width.working) + 80.0, reference=40.0 if references else 0.0)
        parts = gathering_phases(dtype, normalize=self.normalize, references=references)
        kept = Bytes(row=2 * (16.0 + 6.0 * width.working) + 32.0, reference=16.0 if references else 0.0)
        cost = Cost(kept, (choosing, *(pairs + part for part in parts)))
        return cost if references else cost.own()

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the loss, weighted by rows so that ranks' shares add up to the whole."""
        rows = len(batch.labels)
        if isinstance(batch.anchors_at, int) and batch.references is not None and batch.reference_labels is not None:
            if triplets is not None:
                raise ValueError("triplets and anchors_at together do not say which rows are clustered; give one.")
            batch = CheckedBatch(batch.references, batch.reference_labels)
        medoids = self._medoids(batch, triplets)
        anchor = torch.arange(len(batch.labels), device=batch.labels.device)
        apart = pair_measures(
            batch.embeddings,
            batch.references,
            torch.cat([anchor, anchor]),
            torch.cat([medoids.oracle, medoids.nearest]),
            distance,
            batch.grids(normalize=self.normalize),
        )
        right, other = (apart.view(2, -1) * medoids.served).sum(1) / medoids.served.sum().clamp_min(1)
        margin = self.gamma * (1 - medoids.nmi).to(apart.dtype)
        return sums_of((rows * torch.relu(right - other + margin), rows))

    def _medoids(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Medoids:
        """Return the medoids of a batch, or of the rows that given triplets name."""
        labels, others = batch.class_labels(type(self).__name__)
        others = labels if others is None else others
        asks, serves = torch.ones_like(labels, dtype=torch.bool), torch.ones_like(others, dtype=torch.bool)
        if triplets is not None:
            checked = check_triplets(triplets, len(labels), len(others), labels.device, debug=self.debug)
            asks, serves = torch.zeros_like(asks), torch.zeros_like(serves)
            asks[checked[0]] = True
            serves[torch.cat([*checked[1:]])] = True
            if batch.references is None:
                asks = serves = asks | serves
        return medoids_of(
            batch.grids(normalize=self.normalize),
            (labels, others),
            (asks, serves),
            gamma=self.gamma,
            candidates=self.candidates or 0,
            scratch_bytes=self.scratch_bytes,
        )
