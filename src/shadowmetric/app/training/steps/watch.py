"""What can go wrong in training without an error, noticed and named.

    dead batch      the loss is 0: no triplet, or none that violates the margin. Nothing is learned from it.
    one class       all images of a batch have one label: there is no negative.
    collapse        all embeddings point the same way: the mean cosine of a batch's rows is above 0.98. At a triplet
                    loss the value then sits at the margin, and its gradient is nearly 0: training does not come back.
    rank            the effective rank of the validation rows is below 1.5, whatever their mean cosine.
    small classes   classes with fewer images than a batch wants of each; the sampler says what it does with them.

Each is a warning with its remedy, and an error after so many in a row. At every tenth batch a look is taken at the
rows (at most 256 of them): quantiles of the gaps 1 - cos to positives and to negatives, the share of
(anchor, positive) pairs for which mining found a negative, and the gradient of a triplet to its anchor.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shadowmetric.errors import Stopped
from shadowmetric.losses.exhaustive import is_exhaustive
from shadowmetric.losses.mined import MinedLoss
from shadowmetric.losses.triplet_list import mine, triplet_values
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.ops.ranks import gather_rows, ranks_here
from shadowmetric.types import Miner, Triplets

LOOK_EVERY = 10  # batches
LOOKED_AT = 256  # rows
RUN = 16  # rows in a row that are looked at
COLLAPSED_COSINE = 0.98
COLLAPSED_RANK = 1.5
QUANTILES = (0.1, 0.5, 0.9)
WARN_AFTER = {"dead": 20, "one_class": 1, "collapse": 3, "rank": 1}  # batches, looks for collapse, epochs for rank
STOP_AFTER = {"dead": 1000, "one_class": 100, "collapse": 100, "rank": 10}
REMEDIES = {
    "dead": "no batch gives anything to learn: use a larger --margin, a larger --batch, or more images",
    "one_class": "batches hold one class, so there are no negatives: lower --per-class or raise --batch",
    "rank": "the embeddings lie on a line: use --miner semi_hard, a lower --learning-rate, or another seed",
    "collapse": "the embeddings fall into one point: use --miner semi_hard, a lower --learning-rate, or another seed",
}


@dataclass(frozen=True)
class Look:
    """What a batch's rows look like."""

    active: float | None  # share of (anchor, positive) pairs with a mined negative; None where a loss mines none
    positive_gaps: tuple[float, ...]  # quantiles of 1 - cos
    negative_gaps: tuple[float, ...]
    mean_cosine: float
    anchor_gradient: float | None = None  # mean length of a mined triplet's gradient to its anchor
    row_length: float = 1.0  # mean


@torch.no_grad()
def look(embeddings: Tensor, labels: Tensor, loss: nn.Module) -> Look:
    """Return what some of the rows look like."""
    embeddings = embeddings.detach().float()
    rows = torch.nn.functional.normalize(embeddings)
    gaps = 1 - rows @ rows.T  # (rows, rows)
    same = labels[:, None] == labels
    own = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    triplets = mine_again(embeddings, labels, loss)
    return Look(
        active=None if triplets is None else active_share(triplets, len(rows), int((same & ~own).sum())),
        positive_gaps=quantiles(gaps[same & ~own]),
        negative_gaps=quantiles(gaps[~same]),
        mean_cosine=float(1 - gaps[~own].mean()) if len(rows) > 1 else 0.0,
        anchor_gradient=None if triplets is None else anchor_gradient(embeddings, triplets, loss),
        row_length=float(torch.linalg.vector_norm(embeddings, dim=1).mean()),
    )


@torch.enable_grad()
def anchor_gradient(rows: Tensor, triplets: Triplets, loss: nn.Module) -> float | None:
    """Return how long the gradient of one triplet's value to its anchor is, in the mean over mined triplets.

    Every triplet has a copy of its anchor, so that gradients of several do not add up or cancel, as in a batch's.
    """
    while not isinstance(loss, MinedLoss):  # it may be within a memory, or have a price on length
        if not isinstance(inner := getattr(loss, "loss", None), nn.Module):
            return None
        loss = inner
    anchor, positive, negative = triplets
    if len(anchor) == 0:
        return None
    copies = rows[anchor].requires_grad_()
    own = Mined(Triplets(torch.arange(len(anchor), device=rows.device), positive, negative))
    values = triplet_values(CheckedBatch(copies, anchor, rows), own, loss.measure, loss.hinge, normalize=loss.normalize)
    (gradient,) = torch.autograd.grad(values.sum(), copies)
    return float(torch.linalg.vector_norm(gradient, dim=1).mean())


def some_of(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows from all over a batch, and of all processes, with their labels: at most LOOKED_AT, in runs.

    Batches stand class by class: the first rows alone may be of one class, and every n-th row has no positives.
    """
    most = LOOKED_AT // ranks_here().ranks
    if len(embeddings) > most:
        runs = max(1, most // RUN)
        starts = torch.linspace(0, len(embeddings) - RUN, runs).long()
        indices = (starts[:, None] + torch.arange(RUN)).flatten().unique().to(labels.device)
        embeddings, labels = embeddings[indices], labels[indices]
    return gather_rows(embeddings.detach()).rows, gather_rows(labels).rows


def mine_again(rows: Tensor, labels: Tensor, loss: nn.Module) -> Triplets | None:
    """Return the triplets that a loss mines; None if it mines none, or takes every one."""
    miner = getattr(loss, "miner", None)
    if not isinstance(miner, Miner) or is_exhaustive(miner):
        return None
    return mine(miner, CheckedBatch(rows, labels)).triplets


def active_share(triplets: Triplets, rows: int, pairs: int) -> float:
    """Return the share of (anchor, positive) pairs that have a mined negative."""
    return len(torch.unique(triplets.anchor * rows + triplets.positive)) / max(pairs, 1)


def quantiles(values: Tensor) -> tuple[float, ...]:
    """Return the tenth, the middle and the nine tenths; nothing of nothing."""
    if values.numel() == 0:
        return ()
    return tuple(torch.quantile(values, torch.tensor(QUANTILES, device=values.device)).tolist())


class Watch:
    """Counts troubles in a row; the counts are part of the run's state."""

    def __init__(self, in_a_row: dict[str, int]):
        self.in_a_row = in_a_row

    def note(self, trouble: str, present: bool) -> None:
        """Count one more, or start from 0; refuse to go on after too many."""
        self.in_a_row[trouble] = self.in_a_row.get(trouble, 0) + 1 if present else 0
        if self.in_a_row[trouble] >= STOP_AFTER[trouble]:
            raise Stopped(f"{self.in_a_row[trouble]} times in a row: {REMEDIES[trouble]}.")

    def warnings(self) -> list[str]:
        """Return what is wrong at the moment, each with its remedy."""
        return [
            f"{REMEDIES[trouble]} ({count} in a row; the run stops at {STOP_AFTER[trouble]})"
            for trouble, count in self.in_a_row.items()
            if count >= WARN_AFTER[trouble]
        ]
