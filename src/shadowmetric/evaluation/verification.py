"""Verification: are two rows of one class? Accept the pair if its cosine is at least a threshold.

A pair is genuine if its labels are equal, an impostor if not. For a threshold t

    FAR(t) = share of the impostors with cosine >= t      (false accepts)
    FRR(t) = share of the genuine pairs with cosine < t   (false rejects), TAR(t) = 1 - FRR(t)

    roc_auc               P(genuine > impostor) + P(genuine = impostor) / 2
    true_accepts[f]       the largest TAR(t) with FAR(t) <= f
    equal_error_rate      (FAR + FRR) / 2 where |FAR - FRR| is least, at the smallest such threshold

Naive program: the sorted cosines of all pairs. Here pairs are counted in two histograms, a block of the product
at a time. Cosines are compared in steps of 2^-19, each rounded to the nearest step, and `roc_auc_error` says how
much that can matter.

The cosines are those of `ops/exact_rows`: entries of unit rows are rounded to multiples of 2^-24, and then every sum
of products is exact in float64. The product is made to yield the number of the bin (scaled rows, and a column for
the offset), which is exact as well. So no figure depends on how the product is cut into blocks, nor on whose matrix
product it is.

Rows are arranged by class, so that few blocks hold genuine pairs and have to compare labels.

Shared by the ranks of torch.distributed, each counts the pairs of its own part of the arranged rows. Where each two
rows are a pair once, the first rows have the most pairs, so the parts grow: equal areas of the triangle above the
diagonal. The histograms are summed, 16 MB sent once.

Memory: the scratch, 16 MB of histograms and about 40 MB to read them; a few numbers for each row. Rows are read a
block at a time, so a memory-mapped file stays on disk. Time: the product in float64, and 4 to 5 ns to count a pair.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shadowmetric.checks import check_batch, check_labels, check_scratch, one_label_each
from shadowmetric.evaluation.accept_curve import AcceptCurve, roc_auc, tied_share
from shadowmetric.evaluation.sharing import ranks_of, total
from shadowmetric.ops.exact_rows import ExactUnitRows
from shadowmetric.ops.ranks import Ranks, share
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, Block, Progress, similarity_blocks
from shadowmetric.ops.top_k import write_at

STEPS = 2**19  # of the cosine between 0 and 1
BINS = 2 * STEPS + 1  # the multiples of a step from -1 to 1
NOT_A_PAIR = 0  # the bin of entries that do not count; the cosine -1 has bin 1
ALL = slice(None)
GENUINE = BINS + 1  # how much further the bins of genuine pairs lie


@dataclass(frozen=True)
class Verification:
    """How well one threshold tells genuine pairs from impostors. NaN where one kind of pair is missing."""

    genuine_pairs: int
    impostor_pairs: int
    roc_auc: float
    roc_auc_error: float
    """The most that steps of 2^-19 can have moved roc_auc: half the share of (genuine, impostor) in one step."""
    equal_error_rate: float
    equal_error_threshold: float
    true_accepts: dict[float, float]
    """For each false accept rate the largest true accept rate."""
    thresholds: dict[float, float]
    """For each false accept rate its threshold: half a step below the lowest accepted cosine."""


def verification(
    embeddings: Tensor,
    labels: Tensor,
    *,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    own: Tensor | None = None,
    false_accept_rates: Sequence[float] = (0.1, 0.01, 0.001, 0.0001),
    scratch_bytes: int = SCRATCH_BYTES,
    progress: Progress | None = None,
    shared: bool = False,
) -> Verification:
    """Return the figures of all pairs: each two rows once, or each row with each row of the gallery.

    own: (batch,) int64, for each row the gallery row that is the row itself and no pair with it, or -1.
    progress: told the share that is done, after each block.
    shared: every rank of torch.distributed gives the same rows, counts a part of the pairs, and gets the same figures.

    A false accept rate f needs 1 / f impostors or more to be measured: where f * impostor_pairs < 1 the threshold
    admits no impostor at all. Where no genuine pair can be accepted the threshold lies above the highest impostor,
    and refuses everything.
    """
    _check_rates(false_accept_rates)
    genuine, impostor = pair_histograms(
        embeddings,
        labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        own=own,
        scratch_bytes=scratch_bytes,
        progress=progress,
        shared=shared,
    )
    return _figures(genuine, impostor, false_accept_rates)


def pair_histograms(
    embeddings: Tensor,
    labels: Tensor,
    *,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    own: Tensor | None = None,
    scratch_bytes: int = SCRATCH_BYTES,
    progress: Progress | None = None,
    shared: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return how many genuine pairs and how many impostors have each cosine, (BINS,) int64; arguments as above."""
    check_scratch(scratch_bytes)
    known, others = check_batch(embeddings, labels, gallery, gallery_labels, other="gallery")
    labels = one_label_each(known, "verification")
    gallery_labels = None if others is None else one_label_each(others, "verification")
    _check_own(own, embeddings, gallery)
    if gallery is None or gallery_labels is None:
        mine, columns = _part_of_triangle(len(labels), ranks_of(shared)), _Arranged(embeddings, labels, tail=1.0)
    else:
        mine, columns = _part(len(labels), ranks_of(shared)), _Arranged(gallery, gallery_labels, tail=1.0)
    rows = _Arranged(embeddings, labels, mine, tail=STEPS + 1.5, scale=float(STEPS))  # times columns: the cosine's bin
    own_column = None if own is None else columns.places(own)[rows.arrangement]
    counts = _Counts(embeddings.device)
    blocks = similarity_blocks(
        rows,
        columns,
        scratch_bytes=scratch_bytes,
        reach=(lambda top, _: (mine.start + top, len(columns))) if gallery is None else None,
        temporaries=1.25,
        progress=progress,
    )
    for block in blocks:
        index = counts.index_of(block)
        if rows.shares_class(columns, block):
            same = rows.labels[block.top : block.bottom, None] == columns.labels[block.first : block.last]
            index.add_(same, alpha=GENUINE)
        if gallery is None and block.first < mine.start + block.bottom:  # on the diagonal
            index.triu_(mine.start + block.top - block.first + 1)
        if own_column is not None:
            write_at(index, own_column[block.top : block.bottom] - block.first, float(NOT_A_PAIR))
        counts.add(index)
    return counts.genuine_and_impostor(shared)


def _part(rows: int, here: Ranks) -> slice:
    """Return the rows of a rank; perhaps none."""
    mine = share(rows, *here)
    return slice(mine.start, mine.stop)


def _part_of_triangle(rows: int, here: Ranks) -> slice:
    """Return the rows of a rank, so that each has as many of the pairs (row, later row) as any other."""
    rank, ranks = here
    first, last = (rows - round(rows * math.sqrt(1 - number / ranks)) for number in (rank, rank + 1))
    return slice(first, last)


class _Arranged(ExactUnitRows):
    """Exact unit rows arranged by class, or some of the arranged ones, with their labels."""

    def __init__(self, source: Tensor, labels: Tensor, some: slice = ALL, *, tail: float, scale: float = 1.0):
        self.labels, self.arrangement = (arranged[some] for arranged in torch.sort(labels, stable=True))
        self.labels_at_hand = self.labels.cpu()
        super().__init__(source, self.arrangement, tail=tail, scale=scale)

    def places(self, numbers: Tensor) -> Tensor:
        """Return where some rows stand in the arrangement of all; -1 for -1."""
        place = torch.empty_like(self.arrangement)
        place[self.arrangement] = torch.arange(len(place), device=place.device)
        return torch.where(numbers < 0, -1, place[numbers.clamp_min(0)])

    def shares_class(self, columns: "_Arranged", block: Block) -> bool:
        """Return whether a block may hold genuine pairs."""
        mine, theirs = self.labels_at_hand, columns.labels_at_hand
        return bool(mine[block.top] <= theirs[block.last - 1] and theirs[block.first] <= mine[block.bottom - 1])


class _Counts:
    """How many pairs of each kind have each cosine."""

    def __init__(self, device: torch.device):
        self.counts = torch.zeros(GENUINE + BINS + 1, dtype=torch.int64, device=device)
        self.one = torch.ones(1, dtype=torch.int64, device=device)
        self.index = torch.empty(0, dtype=torch.int32, device=device)

    def index_of(self, block: Block) -> Tensor:
        """Return the bin of each entry of a block; valid until the next call."""
        size = block.values.numel()
        if len(self.index) < size:
            self.index = self.index.new_empty(size)
        values = block.values.clamp_(1, BINS)  # a rounded row may be longer than 1 by a step or two
        return self.index[:size].view(values.shape).copy_(values)

    def add(self, index: Tensor) -> None:
        """Count the entries of a block."""
        self.counts.index_add_(0, index.view(-1), self.one.expand(index.numel()))

    def genuine_and_impostor(self, shared: bool) -> tuple[Tensor, Tensor]:
        """Return both histograms, on the CPU; those of all ranks if they share the pairs."""
        counts = total(self.counts, shared).cpu()
        return counts[GENUINE + 1 :], counts[1:GENUINE]


def _figures(genuine: Tensor, impostor: Tensor, rates: Sequence[float]) -> Verification:
    """Read the figures from the two histograms."""
    pairs, impostors = int(genuine.sum()), int(impostor.sum())
    if not pairs or not impostors:
        none = dict.fromkeys(rates, math.nan)
        return Verification(pairs, impostors, math.nan, math.nan, math.nan, math.nan, none, dict(none))
    curve = AcceptCurve(genuine, impostor)
    points = {rate: curve.at_rate(rate) for rate in rates}
    equal_error = curve.equal_error()
    return Verification(
        genuine_pairs=pairs,
        impostor_pairs=impostors,
        roc_auc=roc_auc(genuine, impostor),
        roc_auc_error=tied_share(genuine, impostor) / 2,
        equal_error_rate=equal_error.share,
        equal_error_threshold=lower_edge(equal_error.bin_number),
        true_accepts={rate: point.share for rate, point in points.items()},
        thresholds={rate: lower_edge(point.bin_number) for rate, point in points.items()},
    )


def lower_edge(bin_number: int) -> float:
    """Return the cosine at which a bin begins."""
    return (bin_number - STEPS - 0.5) / STEPS


def _check_rates(rates: Sequence[float]) -> None:
    for rate in rates:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise ValueError(f"a false accept rate is {rate!r}; it must be a share from 0 to 1, such as 0.001.")


def _check_own(own: Tensor | None, embeddings: Tensor, gallery: Tensor | None) -> None:
    if own is None:
        return
    if gallery is None:
        raise ValueError("own was given without a gallery; it names gallery rows, so pass both or neither.")
    check_labels(own, embeddings, "own")
    if not -1 <= int(own.min()) <= int(own.max()) < len(gallery):
        wrong = int(own.min()) if int(own.min()) < -1 else int(own.max())
        raise ValueError(f"own names row {wrong}; the gallery's rows are 0 to {len(gallery) - 1}, and -1 is none.")
