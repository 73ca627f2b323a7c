"""Group loss (Elezi et al. 2020, eqs. 1 to 4): rows of a batch agree on their classes, as players of a game.

    x_i(0)     softmax over the classes c of the batch of cos(row_i, w_c) / temperature; of an anchor, its own class
    W_ij       = max(r_ij, 0)                                        r: Pearson's correlation of two rows
    x_i(t+1)   = x_i(t) * p_i(t) / sum(x_i(t) * p_i(t))              replicator dynamics; p_i = sum over j of W_ij x_j
    loss       = mean over rows that are no anchors of -log x_i(iterations)[label]

The first rows of each class are its anchors: whose batches come in one order should shuffle them. Only classes that
the batch has are played, so that memory does not grow with those that the loss knows. The authors' code adds the
cross-entropy of the logits, which is `CosFaceLoss` with margin 0, and has one iteration.

A game is of all rows at once. References are further players, but not where the batch is some of them; with ranks each
of them plays everybody's game and counts its own rows.

Memory: W exists a block at a time, so never a number for each pair of rows; but the game is a number for each row and
class of the batch, about 6 and 5 more an iteration in backward, which plays it again: nothing of it is kept. Time:
two products an iteration, and three more backward. What is bounded is the number of iterations, not found by a limit
of change: the authors' code has one, their paper up to three.
"""

from collections.abc import Sequence
from typing import NamedTuple, Unpack

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from shadowmetric.checks import check_margin
from shadowmetric.losses.proxies import ProxyLoss, ProxySettings, loss_with_centers
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.ops.memory import Bytes, Cost, each, streaming_phases, width_of
from shadowmetric.ops.row_stream import Stream, TermList, row_stream
from shadowmetric.ops.row_support import row_support
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Scalar

TEMPORARIES = 3.0  # blocks that logits make of one
CONSTANT = 4.0  # a row whose numbers differ by fewer roundings than so many correlates with none


def group_loss(
    embeddings: Embeddings,
    labels: Tensor,
    centers: Tensor,  # (classes, dim)
    *,
    temperature: float = 0.1,
    iterations: int = 1,
    anchors: int = 1,
    **settings: Unpack[ProxySettings],
) -> Scalar:
    """Return the group loss of a batch, with given centers of the classes that rows are first likened to."""
    classes, dim = centers.shape

    def make() -> GroupLoss:
        return GroupLoss(classes, dim, temperature=temperature, iterations=iterations, anchors=anchors, **settings)

    return loss_with_centers(make, embeddings, labels, centers)


class GroupLoss(ProxyLoss):
    """Group loss of a batch; labels are 0 to classes - 1.

    temperature: of cosines, in the first probabilities. iterations: of the dynamics. anchors: of each class, 0 or more.
    """

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        temperature: float = 0.1,
        iterations: int = 1,
        anchors: int = 1,
        center_learning_rate: float = 1e-2,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__(classes, dim, classes, center_learning_rate, scratch_bytes=scratch_bytes, debug=debug)
        self.temperature = check_margin(temperature, name="temperature")
        for name, value, least in (("iterations", iterations, 1), ("anchors", anchors, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
        self.iterations, self.anchors = iterations, anchors

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of the blocks, and of the game of all rows."""
        width = width_of(dtype)
        game = each("row_class", width.working * (6.0 + 5.0 * self.iterations))
        labels = Bytes(row=160.0, reference=160.0 if references else 0.0, center=16.0)
        rows = Bytes(
            number=(6.0 if references else 2.0) * width.working,
            reference_number=6.0 * width.working if references else 0.0,
            center_number=4.0 * width.working,
        )
        phases = streaming_phases(self.scratch_bytes, dtype, TEMPORARIES, references=references)
        kept = Bytes(row=64.0, reference=64.0 if references else 0.0)
        cost = Cost(kept, tuple(phase + game + labels + rows for phase in phases))
        return cost if references else cost.own()

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums of a mean over rows that are no anchors."""
        sides = self.check_rows(batch, triplets)
        own = slice(None)
        reference_labels = batch.class_labels()[1]
        if isinstance(batch.anchors_at, int) and reference_labels is not None:
            self._check_side("references", batch.others, reference_labels)
            sides = [(batch.others, reference_labels)]
            own = slice(batch.anchors_at, batch.anchors_at + len(batch.labels))
        labels = torch.cat([labels for _, labels in sides])
        places = places_of(labels, self.classes, self.anchors)
        given = (places, self.centers, *(rows for rows, _ in sides))
        if torch.compiler.is_compiling():
            values = self._play(*given)
        else:
            values = checkpoint(self._play, *given, use_reentrant=False, preserve_rng_state=False)
        plays = ~places.anchor[own]
        return sums_of(((values[own] * plays).sum(), plays.sum()))

    def _play(self, places: "Places", centers: Tensor, *sides: Tensor) -> Tensor:
        """Return -log of each row's probability of its own class, (rows,); that of anchors is about 0."""
        rows = sides[0] if len(sides) == 1 else torch.cat(sides)
        known = centers if places.classes is None else centers[places.classes]
        logits = self._cosines(rows, known) / self.temperature
        column = places.column[:, None]
        certain = torch.zeros_like(logits).scatter(1, column, 1.0)
        shares = torch.softmax(logits.masked_fill(~places.present, float("-inf")), 1)
        shares = torch.where(places.anchor[:, None], certain, shares)
        working = rows.to(logits.dtype)
        centered = working - working.mean(1, keepdim=True)
        least = CONSTANT * torch.finfo(working.dtype).eps * working.abs().amax(1, keepdim=True)
        has_direction = centered.abs().amax(1, keepdim=True) > least
        for _ in range(self.iterations):
            moved = shares * row_support(centered, shares * has_direction, self.scratch_bytes)
            total = moved.sum(1, keepdim=True)
            moves = has_direction & (total > 0)
            shares = torch.where(moves, moved / torch.where(moves, total, 1.0), shares)
        return -shares.gather(1, column)[:, 0].clamp_min(torch.finfo(shares.dtype).tiny).log()

    def _cosines(self, rows: Tensor, centers: Tensor) -> Tensor:
        """Return the cosines of rows and centers, (rows, classes)."""
        stream = Stream(
            normalize=True,
            reads_squares=False,
            outputs=len(centers),
            temporaries=TEMPORARIES,
            scratch_bytes=self.scratch_bytes,
        )

        def terms(start: int, stop: int) -> TermList:
            return [lambda cosine, *_: cosine.clone()]

        return row_stream(rows, centers, terms, stream).to(working_dtype(rows.dtype, centers.dtype))


class Places(NamedTuple):
    """Where rows stand in the game: one column for each class, as many as there can be in the batch."""

    column: Tensor  # (rows,), of each row's class
    present: Tensor  # (columns,), whether a row has it
    classes: Tensor | None  # (columns,), their labels; None if columns are labels
    anchor: Tensor  # (rows,), whether a row is among the first of its class


def places_of(labels: Tensor, classes: int, anchors: int) -> Places:
    """Return the places of a batch; shapes depend on the number of rows and classes alone."""
    rows, number = len(labels), torch.arange(len(labels), device=labels.device)
    ranked, order = torch.sort(labels, stable=True)
    first = torch.ones_like(ranked, dtype=torch.bool)
    first[1:] = ranked[1:] != ranked[:-1]
    begin = torch.where(first, number, 0).cummax(0).values
    anchor = torch.zeros_like(first).scatter(0, order, number - begin < anchors)
    if classes <= rows:
        present = torch.zeros(classes, dtype=torch.bool, device=labels.device).scatter(0, labels, True)
        return Places(labels, present, None, anchor)
    rank = first.cumsum(0) - 1
    column = torch.zeros_like(labels).scatter(0, order, rank)
    return Places(column, number <= rank[-1], torch.zeros_like(labels).scatter(0, rank, ranked), anchor)
