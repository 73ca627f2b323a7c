"""Angular loss (Wang et al. 2017): bound the angle at the negative of the triangle (a, p, n).

    f(a, p, n) = 4 tan^2(degrees) (a + p).n - 2 (1 + tan^2(degrees)) a.p
    loss = mean over positive pairs of log(1 + sum over negatives n of exp f(a, p, n))

With given triplets it is the mean over triplets of log(1 + exp f). Each pair needs the row of a and
the row of p, so pairs are streamed a few at a time: rows of a + p against all rows.

Memory: the scratch, and a few numbers per positive pair; with references also a copy of all rows,
since a block then holds rows of both. Time: two products per positive.
"""

import math
from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from shadowmetric.checks import check_slots, check_triplets
from shadowmetric.losses.distances import similarity
from shadowmetric.losses.row_loss import RowSettings, log_sum_exp_without
from shadowmetric.losses.sums import SummedLoss, Sums, mean_of, mean_of_real
from shadowmetric.mining.checked_batch import NAMING, CheckedBatch
from shadowmetric.mining.pairs import LabelPairs, RelationPairs, pairs_of
from shadowmetric.ops.memory import NOTHING, Bytes, Cost, each, streaming_phases, width_of
from shadowmetric.ops.pair_measures import pair_measures
from shadowmetric.ops.row_stream import Stream, TermList, row_stream
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar

TEMPORARIES = 8.0  # blocks that one block of pairs makes


def angular_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    degrees: float = 45.0,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the angular loss of a batch, of all positive pairs or of given triplets."""
    loss = AngularLoss(degrees, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class AngularLoss(SummedLoss):
    """Angular loss of a batch. degrees: the bound on the angle, 36 to 55 in the paper.

    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class; None asks the
    labels, for which an accelerator waits once.
    """

    def __init__(
        self,
        degrees: float = 45.0,
        *,
        normalize: bool = True,
        slots: int | None = None,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__()
        if not isinstance(degrees, int | float) or not 0 < degrees < 90:
            raise ValueError(f"degrees is {degrees!r}; it must be between 0 and 90.")
        self.degrees, self.normalize = float(degrees), normalize
        self.scratch_bytes, self.debug, self.slots = scratch_bytes, debug, check_slots(slots)

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming two rows for each positive pair; with references also of a copy of all rows."""
        width = width_of(dtype)
        copy = Bytes(number=width.given, reference_number=width.given) if references else NOTHING
        unit, count = ("row", self.slots) if self.slots else ("positive", 1)
        pairs = copy + Bytes(row=80.0, reference=64.0) + each(unit, count * (48.0 + 13 * width.working))
        phases = streaming_phases(
            self.scratch_bytes, dtype, TEMPORARIES, normalize=self.normalize, pairs=True, references=references
        )
        kept = copy + Bytes(row=2.0 * width.working, reference=2.0 * width.working)
        kept = kept + each(unit, count * (40.0 + 7 * width.working))
        peaks = tuple(pairs + part for part in phases)
        return Cost(kept, (*peaks, NAMING)) if references else Cost(kept, peaks).own()

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums of a mean over all positive pairs, or over given triplets."""
        if triplets is None:
            return self._pair_sums(batch, pairs_of(batch))
        anchor, positive, negative = check_triplets(
            triplets, len(batch.embeddings), len(batch.others), batch.embeddings.device, debug=self.debug
        )
        to_positive = self._similarity(batch, anchor, positive)
        to_negative = self._similarity(batch, anchor, negative)
        across = self._similarity(CheckedBatch(batch.others, batch.labels), positive, negative)
        return mean_of(softplus(self._bound(to_negative + across, to_positive)))

    def describe_settings(self) -> str:
        """Return the settings as text."""
        slots = "" if self.slots is None else f", slots={self.slots}"
        return f"degrees={self.degrees:g}, normalize={self.normalize}{slots}"

    def _bound(self, to_negative: Tensor, to_positive: Tensor) -> Tensor:
        """Return f(a, p, n) from (a + p).n and a.p."""
        across, along = self._factors
        return across * to_negative - along * to_positive

    @property
    def _factors(self) -> tuple[float, float]:
        square = math.tan(math.radians(self.degrees)) ** 2
        return 4 * square, 2 * (1 + square)

    def _similarity(self, batch: CheckedBatch, row: Tensor, other: Tensor) -> Tensor:
        grids = batch.grids(normalize=self.normalize)
        return pair_measures(batch.embeddings, batch.references, row, other, similarity, grids)

    def _pair_sums(self, batch: CheckedBatch, pairs: LabelPairs | RelationPairs) -> Sums:
        """Return the sums of a mean over positive pairs. Rows a and p of a pair are streamed one after the other."""
        anchor, positive, real = pairs.positives().all(self.slots, debug=self.debug)
        own = batch.references is None
        rows = batch.embeddings if own else torch.cat([batch.embeddings, batch.others])
        order = torch.stack([anchor, positive if own else positive + len(batch.embeddings)], 1).flatten()

        not_negative = pairs.not_negative_of(anchor)

        def terms(start: int, stop: int) -> TermList:
            here = slice(start // 2, stop // 2)
            excluded = not_negative(here)
            return [lambda dots, *_: self._row_values(dots, excluded, positive[here, None])]

        stream = Stream(
            self.normalize,
            order=order,
            multiple=2,
            reads_squares=False,
            temporaries=TEMPORARIES + pairs.temporaries,
            scratch_bytes=self.scratch_bytes,
        )
        grids = batch.grids(normalize=self.normalize) if own else None
        values = row_stream(rows, batch.references, terms, stream, grids).view(-1)
        return mean_of_real(values.to(working_dtype(rows.dtype)), real)

    def _row_values(self, dots: Tensor, excluded: Tensor, positive: Tensor) -> Tensor:
        """Return the value of pairs from the rows of similarities of both."""
        of_anchor, of_positive = dots[0::2], dots[1::2]
        across, along = self._factors
        crowd = log_sum_exp_without(across * (of_anchor + of_positive), excluded)
        return softplus(crowd - along * of_anchor.gather(1, positive))
