"""What losses with learned centers share: the centers, their learning rate, and rows streamed against them.

    loss = mean over rows of log( sum over classes of exp(logit) ) - logit of the row's own class

Many classes come in blocks, twice: first for the logarithm L of each row's sum, added up from block to block; then for
the gradient, which is that of the sum of exp(logit - L). So 100,000 classes take the scratch too, no (batch, classes)
tensor exists, and what is kept does not grow with the blocks. Classes that fit at once are streamed once.

Labels name a center's class here, so they must be 0 to classes - 1. Given triplets are refused:
these losses compare rows with centers, not with one another.

Memory: the scratch, the centers of a block, and a few numbers for each row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shadowmetric.checks import ELSEWHERE, check_scratch, reads_values
from shadowmetric.losses.row_loss import settings_of
from shadowmetric.losses.sums import SummedLoss, Sums, mean_of
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.ops.exact_blocks import Sides
from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.memory import Bytes, Cost, slopes_of_small, streaming_phases, width_of
from shadowmetric.ops.row_stream import Stream, TermList, Terms, row_stream
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import scratch_on
from shadowmetric.types import Embeddings, Scalar

TEMPORARIES = 12.0  # blocks that logits and their sum make of one
LEAST = -1e30  # the logarithm of a sum of nothing
ROWS_BESIDE = 64  # rows that a block of classes leaves room for
FEWEST_CLASSES = 4  # of a block, however small the scratch


class Own(NamedTuple):
    """Where each row's own class stands in a block of classes, (rows, 1), and whether it does; None if all do."""

    place: Tensor
    inside: Tensor | None

    def of(self, values: Tensor) -> Tensor:
        """Return the own class's entry of each row; of rows whose class is not there any other."""
        return values.gather(1, self.place)

    def replace(self, values: Tensor, entry: Tensor) -> Tensor:
        """Return the values with another entry of each row's own class."""
        if self.inside is not None:
            entry = torch.where(self.inside, entry, self.of(values))
        return values.scatter(1, self.place, entry)


OfLogits = Callable[[Tensor, Own], Tensor]
"""(logits (rows, classes), the own class among them) -> (rows, outputs)."""

MakeTerm = Callable[[int, int], OfLogits]
"""Rows [start, stop) -> what is made of their logits."""


class ProxySettings(TypedDict, total=False):
    """What every loss with centers can be told besides its own settings."""

    scratch_bytes: int
    debug: bool


class ProxyLoss(SummedLoss):
    """Loss of rows and learned centers: settings, centers and checks. Subclasses give `sums_of_batch` and `memory`."""

    unit = ""

    def __init__(
        self, classes: int, dim: int, centers: int, center_learning_rate: float, *, scratch_bytes: int, debug: bool
    ):
        super().__init__()
        if classes < 1 or dim < 1 or centers < classes:
            raise ValueError(f"classes is {classes}, dim {dim}, centers {centers}; each must be at least 1.")
        self.classes, self.center_learning_rate = classes, center_learning_rate
        self.scratch_bytes, self.debug = check_scratch(scratch_bytes), debug
        self.centers = nn.Parameter(nn.init.kaiming_uniform_(torch.empty(centers, dim), a=5**0.5))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the centers with their own learning rate, for an optimizer."""
        return [{"params": [self.centers], "lr": self.center_learning_rate}]

    def describe_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        return settings_of(self, self.unit)

    def check_rows(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> list[tuple[Tensor, Tensor]]:
        """Return the rows that count, and their labels; refuse triplets, and rows or labels that fit no center.

        References count as further rows, but not where the batch is some of them: each row then counts once.
        Those of another tower (anchors_at="elsewhere") count too.
        """
        if triplets is not None:
            raise ValueError(f"{type(self).__name__} compares rows with its centers; it takes no triplets.")
        labels, reference_labels = batch.class_labels(type(self).__name__)
        sides = [("embeddings", batch.embeddings, labels)]
        if reference_labels is not None and batch.anchors_at in (None, ELSEWHERE):
            sides.append(("references", batch.others, reference_labels))
        for name, rows, labels in sides:
            self._check_side(name, rows, labels)
        return [(rows, labels) for _, rows, labels in sides]

    def _check_side(self, name: str, rows: Tensor, labels: Tensor) -> None:
        if rows.shape[1] != self.centers.shape[1]:
            raise ValueError(f"{name} has rows of {rows.shape[1]} numbers; the centers have {self.centers.shape[1]}.")
        if reads_values(rows, debug=self.debug) and not 0 <= int(labels.min()) <= int(labels.max()) < self.classes:
            wrong = int(labels.min()) if int(labels.min()) < 0 else int(labels.max())
            names = "labels" if name == "embeddings" else "reference_labels"
            raise ValueError(f"{names} has {wrong}; with {self.classes} classes they must be 0 to {self.classes - 1}.")


class ClassLoss(ProxyLoss):
    """Mean over rows of the cross-entropy of their classes.

    Subclasses give `logits`, and where a class has several centers `class_similarity`.
    """

    own_class_counts = True  # in the sum over classes

    def class_similarity(self, cosine: Tensor) -> Tensor:
        """Return the similarity to each class, (rows, classes), from the cosines with its centers."""
        return cosine

    def logits(self, similarity: Tensor, own: Own) -> Tensor:
        """Return the logits of some classes, (rows, classes)."""
        raise NotImplementedError

    def center_cost(self, centers: Tensor, grid: GridRows) -> Scalar | None:
        """Return what the centers of some classes cost alone, from them on the grid; None if nothing."""
        return None

    def center_kept(self, number: int) -> float:
        """Return the bytes kept for each center, by the bytes of a number: none."""
        return 0.0

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming the rows, and references if there are any, against blocks of the centers."""
        width, share = width_of(dtype), self.classes_at_once(dtype) / self.classes
        kept = Bytes(
            row=4.0 * width.working,
            reference=4.0 * width.working if references else 0.0,
            center=self.center_kept(width.working),
        ) + slopes_of_small(dtype)
        rows = kept + Bytes(center=8.0 + 2.0 * self.center_kept(width.working))
        phases = streaming_phases(self.scratch_bytes, dtype, TEMPORARIES, columns="center", references=references)
        if share < 1:
            waiting = Bytes(number=2.0 * width.given, center_number=2.0 * width.working, row=8.0 * width.working)
            phases = tuple(of_some_centers(phase, share) + waiting for phase in phases)
        return Cost(kept, tuple(rows + part for part in phases))

    def classes_at_once(self, dtype: torch.dtype, device: torch.device | None = None) -> int:
        """Return how many classes are streamed at once: as many as leave room for some rows beside them."""
        centers, dim = len(self.centers) // self.classes, self.centers.shape[1]
        number = working_dtype(dtype, self.centers.dtype).itemsize
        entry = ROWS_BESIDE * TEMPORARIES * number + 2 * dim * torch.float64.itemsize
        scratch = self.scratch_bytes if device is None else scratch_on(device, self.scratch_bytes)
        return min(self.classes, max(FEWEST_CLASSES, int(scratch / (centers * entry))))

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums of a mean over rows and of what the centers cost."""
        return self._sums_of_rows(self.check_rows(batch, triplets))

    def weighted_sums(self, batch: CheckedBatch, weights: Tensor) -> Sums:
        """Return these sums; weights: (batch,), what the loss of each row is multiplied by."""
        return self._sums_of_rows(self.check_rows(batch, None), weights)

    def _sums_of_rows(self, sides: list[tuple[Tensor, Tensor]], weights: Tensor | None = None) -> Sums:
        found = [self._values(*side) for side in sides]
        values = found[0][0] if weights is None else found[0][0] * weights[:, None].to(found[0][0].dtype)
        values = values if len(found) == 1 else torch.cat([values, *(others for others, _ in found[1:])])
        costs, rows = found[0][1], len(values)
        if not costs:
            return mean_of(values)
        totals = torch.stack([values.sum(), rows * sum(costs[1:], start=costs[0]).to(values.dtype)])
        return Sums(totals, totals.new_full((2,), rows))

    def _values(self, rows: Tensor, labels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the loss of each row, (rows, 1), and what the centers of each block cost alone."""
        at_once = self.classes_at_once(rows.dtype, rows.device)
        if at_once == self.classes:
            ((values, cost),) = self._stream(rows, labels, at_once, self._whole_term, outputs=1)
            return values, [] if cost is None else [cost]
        with torch.no_grad():
            parts = [part for part, _ in self._stream(rows, labels, at_once, self._sum_term, outputs=1)]
            everyone = torch.cat(parts, 1).logsumexp(1, keepdim=True)
        total, costs = torch.zeros((), device=rows.device), []
        for part, cost in self._stream(rows, labels, at_once, self._share_term(everyone), outputs=2):
            total = total + part
            costs += [] if cost is None else [cost]
        share, own = total.split(1, 1)  # a share is 1, and its gradient that of the sum's logarithm
        return everyone + (share - share.detach()) - own, costs

    def _stream(
        self, rows: Tensor, labels: Tensor, at_once: int, make: MakeTerm, *, outputs: int
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield of each block of classes what its term gives for every row, and what its centers cost alone."""
        stream = Stream(
            normalize=True,
            reads_squares=False,
            outputs=outputs,
            temporaries=TEMPORARIES,
            scratch_bytes=self.scratch_bytes,
        )
        left = None
        for number, centers in enumerate(self.centers.split(at_once * (len(self.centers) // self.classes))):
            if left is None:
                left, grid = Sides(rows, centers, stream).grids
            else:
                grid = GridRows(centers, normalize=True, finer=left.finer)
            first, count = number * at_once, min(at_once, self.classes - number * at_once)
            found = row_stream(rows, centers, self._terms(labels - first, count, make), stream, (left, grid))
            yield found, self.center_cost(centers, grid)

    def _terms(self, places: Tensor, count: int, make: MakeTerm) -> Terms:
        """Return the terms of so many classes. places: of each row's own class, counted from the first of these."""

        def terms(start: int, stop: int) -> TermList:
            place = places[start:stop, None]
            own = Own(place, None)
            if count < self.classes:
                own = Own(place.clamp(0, count - 1), (place >= 0) & (place < count))
            of_logits = make(start, stop)
            return [lambda cosine, *_: of_logits(self.logits(self.class_similarity(cosine), own), own)]

        return terms

    def _logits_to_sum(self, logits: Tensor, own: Own) -> Tensor:
        """Return the logits that are summed: without the own class where it does not count."""
        return logits if self.own_class_counts else own.replace(logits, torch.full_like(own.of(logits), LEAST))

    def _whole_term(self, start: int, stop: int) -> OfLogits:
        """Return what gives the loss of each row from all its logits."""

        def of_logits(logits: Tensor, own: Own) -> Tensor:
            if self.own_class_counts:
                return cross_entropy(logits, own.place[:, 0], reduction="none")[:, None]
            return (self._logits_to_sum(logits, own) - own.of(logits)).logsumexp(1, keepdim=True)

        return of_logits

    def _sum_term(self, start: int, stop: int) -> OfLogits:
        """Return what gives the logarithm of each row's sum over some classes."""
        return lambda logits, own: self._logits_to_sum(logits, own).logsumexp(1, keepdim=True)

    def _share_term(self, everyone: Tensor) -> MakeTerm:
        """Return what gives of each row the share of some classes in its sum, and its own logit if it is there."""

        def make(start: int, stop: int) -> OfLogits:
            def of_logits(logits: Tensor, own: Own) -> Tensor:
                share = (self._logits_to_sum(logits, own) - everyone[start:stop]).exp().sum(1, keepdim=True)
                here = True if own.inside is None else own.inside
                return torch.cat([share, own.of(logits) * here], 1)

            return of_logits

        return make


def of_some_centers(phase: Bytes, share: float) -> Bytes:
    """Return what a phase takes with a share of the centers."""
    names = ("thinnest", "center", "center_number")
    return replace(phase, **{name: share * getattr(phase, name) for name in names})


def loss_with_centers(make: Callable[[], ProxyLoss], embeddings: Embeddings, labels: Tensor, centers: Tensor) -> Scalar:
    """Return a loss with given centers in the place of those that it would learn."""
    with torch.device("meta"):  # no centers are drawn
        loss = make()
    return torch.func.functional_call(loss, {"centers": centers}, (embeddings, labels))
