"""What losses with learned centers share: the centers, their learning rate, and rows streamed against them.

Labels name a center's class here, so they must be 0 to classes - 1. Given triplets are refused:
these losses compare rows with centers, not with one another.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from shadowmetric.checks import ELSEWHERE, check_scratch, reads_values
from shadowmetric.losses.row_loss import settings_of
from shadowmetric.losses.sums import SummedLoss, Sums, mean_of
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.ops.exact_blocks import Sides
from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.memory import Bytes, Cost, slopes_of_small, streaming_phases, width_of
from shadowmetric.ops.row_stream import Stream, TermList, row_stream
from shadowmetric.types import Embeddings, Scalar

TEMPORARIES = 12.0  # blocks that row_losses makes of one


class ProxySettings(TypedDict, total=False):
    """What every loss with centers can be told besides its own settings."""

    scratch_bytes: int
    debug: bool


class ProxyLoss(SummedLoss):
    """Mean over rows of a loss of the cosines with learned centers. Subclasses give `row_losses`."""

    unit: str

    def __init__(
        self, classes: int, dim: int, centers: int, center_learning_rate: float, *, scratch_bytes: int, debug: bool
    ):
        super().__init__()
        if classes < 1 or dim < 1 or centers < classes:
            raise ValueError(f"classes is {classes}, dim {dim}, centers {centers}; each must be at least 1.")
        self.classes, self.center_learning_rate = classes, center_learning_rate
        self.scratch_bytes, self.debug = check_scratch(scratch_bytes), debug
        self.centers = nn.Parameter(nn.init.kaiming_uniform_(torch.empty(centers, dim), a=5**0.5))

    def center_kept(self, number: int) -> float:
        """Return the bytes kept for each center, by the bytes of a number: none."""
        return 0.0

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming the rows, and references if there are any, against the centers."""
        width = width_of(dtype)
        kept = Bytes(
            row=width.working,
            reference=width.working if references else 0.0,
            center=self.center_kept(width.working),
        ) + slopes_of_small(dtype)
        rows = kept + Bytes(center=8.0 + 2.0 * self.center_kept(width.working))
        phases = streaming_phases(self.scratch_bytes, dtype, TEMPORARIES, columns="center", references=references)
        return Cost(kept, tuple(rows + part for part in phases))

    def row_losses(self, cosine: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each row, (rows, 1), from its cosines with all centers; labels are (rows, 1)."""
        raise NotImplementedError

    def regularizer(self, grid: GridRows) -> Scalar | None:
        """Return what the centers alone cost, from the centers on the grid; None if nothing."""
        return None

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the centers with their own learning rate, for an optimizer."""
        return [{"params": [self.centers], "lr": self.center_learning_rate}]

    def describe_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        return settings_of(self, self.unit)

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums of a mean over rows and of what the centers cost. Given triplets are refused."""
        if triplets is not None:
            raise ValueError(f"{type(self).__name__} compares rows with its centers; it takes no triplets.")
        return self.weighted_sums(batch)

    def weighted_sums(self, batch: CheckedBatch, weights: Tensor | None = None) -> Sums:
        """Return these sums; weights: (batch,), what the loss of each row is multiplied by.

        References count as further rows, but not where the batch is some of them: each row then counts once.
        Those of another tower (anchors_at="elsewhere") count too.
        """
        values, grid = self._values(batch.embeddings, batch.labels, "embeddings")
        if weights is not None:
            values = values * weights[:, None].to(values.dtype)
        if batch.reference_labels is not None and batch.anchors_at in (None, ELSEWHERE):
            others, _ = self._values(batch.others, batch.reference_labels, "references")
            values = torch.cat([values, others])
        regularizer, rows = self.regularizer(grid), len(values)
        if regularizer is None:
            return mean_of(values)
        totals = torch.stack([values.sum(), rows * regularizer.to(values.dtype)])
        return Sums(totals, totals.new_full((2,), rows))

    def _values(self, rows: Tensor, labels: Tensor, name: str) -> tuple[Tensor, GridRows]:
        """Return the loss of each row, (rows, 1), and the centers on the grid."""
        if rows.shape[1] != self.centers.shape[1]:
            raise ValueError(f"{name} has rows of {rows.shape[1]} numbers; the centers have {self.centers.shape[1]}.")
        if reads_values(rows, debug=self.debug) and not 0 <= int(labels.min()) <= int(labels.max()) < self.classes:
            wrong = int(labels.min()) if int(labels.min()) < 0 else int(labels.max())
            names = "labels" if name == "embeddings" else "reference_labels"
            raise ValueError(f"{names} has {wrong}; with {self.classes} classes they must be 0 to {self.classes - 1}.")

        def terms(start: int, stop: int) -> TermList:
            return [lambda cosine, *_: self.row_losses(cosine, labels[start:stop, None])]

        stream = Stream(normalize=True, reads_squares=False, temporaries=TEMPORARIES, scratch_bytes=self.scratch_bytes)
        grids = Sides(rows, self.centers, stream).grids
        return row_stream(rows, self.centers, terms, stream, grids), grids[1]


def loss_with_centers(make: Callable[[], ProxyLoss], embeddings: Embeddings, labels: Tensor, centers: Tensor) -> Scalar:
    """Return a loss with given centers in the place of those that it would learn."""
    with torch.device("meta"):  # no centers are drawn
        loss = make()
    return torch.func.functional_call(loss, {"centers": centers}, (embeddings, labels))
