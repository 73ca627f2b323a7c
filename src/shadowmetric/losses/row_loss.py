"""What losses over whole similarity rows share: the pairs of a batch, and reducers over its rows.

    row values = reduce(block), streamed by `row_stream`

A block holds squared distances, or similarities: the cosine when rows are normalized, else the dot product. Pairs
come from labels, or are the distinct pairs of given triplets.

Memory: the scratch, and a few numbers per row; per positive pair where a loss keeps what it knows of each.
"""

from collections.abc import Callable, Sequence
from typing import TypedDict

import torch
from torch import Tensor, nn

from shadowmetric.checks import check_scratch, check_slots, check_triplets
from shadowmetric.losses.sums import SummedLoss, Sums
from shadowmetric.mining.checked_batch import NAMING, CheckedBatch
from shadowmetric.mining.pairs import NamedPairs, Pairs, pairs_of
from shadowmetric.ops.memory import Bytes, Cost, slopes_of_small, streaming_phases, width_of
from shadowmetric.ops.pair_measures import Measure, pair_measures
from shadowmetric.ops.row_stream import Stream, TermList, Terms, row_stream
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES

Reduce = Callable[[Tensor], Tensor]
"""block (rows, references) -> (rows, outputs)."""

Reducer = Callable[[int, int], Reduce]
"""The reduction of rows [start, stop). It must not hold the batch: a graph would keep the rows alive."""


class RowSettings(TypedDict, total=False):
    """What every loss of whole rows can be told besides its own settings."""

    normalize: bool
    slots: int | None
    scratch_bytes: int
    debug: bool


class Batch:
    """Checked rows and their pairs."""

    def __init__(self, checked: CheckedBatch, pairs: Pairs, *, normalize: bool, scratch_bytes: int = SCRATCH_BYTES):
        self.checked, self.pairs = checked, pairs
        self.normalize, self.scratch_bytes = normalize, scratch_bytes
        self.dtype = working_dtype(checked.embeddings.dtype, checked.others.dtype)

    def rows(self, reducer: Reducer, *, temporaries: float, outputs: int = 1, squared: bool = False) -> Tensor:
        """Return (batch, outputs): the reducer's numbers for each row, from similarities or squared distances."""

        def terms(start: int, stop: int) -> TermList:
            reduce = reducer(start, stop)
            return [lambda block, *_: reduce(block)]

        return self.stream(terms, temporaries=temporaries, outputs=outputs, squared=squared)

    def stream(self, terms: Terms, *, temporaries: float, outputs: int = 1, squared: bool = False) -> Tensor:
        """Return (batch, outputs): for each row the sum of terms, which are differentiated one after the other."""
        stream = Stream(
            self.normalize,
            squared=squared,
            reads_squares=False,
            outputs=outputs,
            temporaries=temporaries + self.pairs.temporaries,
            scratch_bytes=self.scratch_bytes,
        )
        checked = self.checked
        grids = checked.grids(normalize=self.normalize)
        return row_stream(checked.embeddings, checked.references, terms, stream, grids).to(self.dtype)

    def of_references(self) -> "Batch":
        """Return the batch of the references, compared with themselves."""
        references = self.checked.references
        if references is None or isinstance(self.pairs, NamedPairs):
            raise ValueError(
                "triplets and references together do not say which references are negatives of one another; "
                "give labels without triplets, as sm.CrossBatchMemory(sm.LiftedStructureLoss()) does."
            )
        checked = CheckedBatch(references, self.pairs.reference_labels)
        return Batch(checked, pairs_of(checked), normalize=self.normalize, scratch_bytes=self.scratch_bytes)

    def measure(self, anchor: Tensor, positive: Tensor, measure: Measure) -> Tensor:
        """Return the measure of each pair of a list."""
        grids = self.checked.grids(normalize=self.normalize)
        return pair_measures(self.checked.embeddings, self.checked.references, anchor, positive, measure, grids)


class RowLoss(SummedLoss):
    """A loss over whole rows: settings and pairs. Subclasses give `batch_sums`."""

    unit = ""
    temporaries: float  # blocks that the loss makes of one, forward and backward
    slopes_kept = False  # whether a row has one output, so that a small batch keeps its slopes
    places_kept = False  # whether backward needs to know where the positives of a row are
    pair_kept: tuple[int, int] | None = None  # bytes, and numbers, kept for each positive pair, if any
    pair_peak: tuple[int, int] = (0, 0)  # the most of them at once

    def __init__(
        self,
        *,
        normalize: bool = True,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
        slots: int | None = None,
    ):
        super().__init__()
        self.slots = check_slots(slots)
        self.normalize, self.scratch_bytes, self.debug = normalize, check_scratch(scratch_bytes), debug

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming the rows, and of the positive pairs where the loss has a term for each."""
        width, pairs = width_of(dtype), self.pair_kept is not None
        kept, peak = (plain + numbers * width.working for plain, numbers in (self.pair_kept or (0, 0), self.pair_peak))
        named = 8.0 if references else 0.0
        listed = 64.0 if pairs or self.places_kept else 0.0
        listed = Bytes(
            row=named + listed + (peak * self.slots if self.slots else 0.0),
            reference=named + listed,
            positive=0.0 if self.slots else peak,
        )
        phases = streaming_phases(
            self.scratch_bytes, dtype, self.temporaries, normalize=self.normalize, pairs=pairs, references=references
        )
        length, places = 8.0 if pairs else 0.0, 1.0 if pairs or self.places_kept else 0.0
        rows = Bytes(
            row=named + length + 24 * places + (kept * self.slots if self.slots else 0.0),
            reference=(named + length if references else 0.0) + 8 * places,
            positive=0.0 if self.slots else kept,
        )
        if self.slopes_kept:
            small = slopes_of_small(dtype, normalize=self.normalize)
            rows, listed = rows + small, listed + small
        peaks = tuple(listed + part for part in phases)
        return Cost(rows, (*peaks, NAMING)) if references else Cost(rows, peaks).own()

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums over the anchors of a batch."""
        raise NotImplementedError

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums over all pairs, or over the distinct pairs of given triplets."""
        embeddings, others = batch.embeddings, len(batch.others)
        if triplets is None:
            return self.sums_of_pairs(batch, pairs_of(batch))
        anchor, positive, negative = check_triplets(
            triplets, len(embeddings), others, embeddings.device, debug=self.debug
        )
        return self.sums_of_pairs(batch, NamedPairs((anchor, positive), (anchor, negative), (len(embeddings), others)))

    def sums_of_pairs(self, checked: CheckedBatch, pairs: Pairs) -> Sums:
        """Return the sums over some pairs of a checked batch."""
        return self.batch_sums(Batch(checked, pairs, normalize=self.normalize, scratch_bytes=self.scratch_bytes))

    def describe_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        return settings_of(self, self.unit)


def settings_of(loss: nn.Module, unit: str) -> str:
    """Return the settings of a loss as text, the margin with its unit."""
    hidden = {"training", "scratch_bytes", "debug"} | ({"slots"} if getattr(loss, "slots", None) is None else set())
    settings = {name: value for name, value in vars(loss).items() if name[0] != "_" and name not in hidden}
    return ", ".join(f"{name}={value!r}" + f" ({unit})" * (name == "margin") for name, value in settings.items())


def log_sum_exp_without(values: Tensor, excluded: Tensor, least: float = float("-inf")) -> Tensor:
    """Return log of the sum of exp over the other entries of each row, (rows, 1); least, or a bit more, without any."""
    return torch.logsumexp(values.masked_fill(excluded, least), 1, keepdim=True)
