"""A checked batch and what it is compared with, and which of the compared rows is the anchor itself.

    references None      the batch is compared with itself; row i is never its own positive
    references           others: a memory, another split. A reference that equals its anchor is taken for it
    anchors_at = k       the batch is rows k, k + 1, ... of the references, as a rank's rows are among those of all
                         ranks; an anchor is left out by its place, and equal rows elsewhere are rows of their own

Memory: two int64 for each row where there are references.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_anchors_at, check_batch
from shadowmetric.ops.nearest_beyond import BITS
from shadowmetric.ops.rows import working_dtype
from shadowmetric.types import Triplets

ROWS_AT_ONCE = 256


class Given(NamedTuple):
    """A batch, and the references that it is compared with, if any."""

    embeddings: Tensor
    labels: Tensor
    references: Tensor | None = None
    reference_labels: Tensor | None = None
    anchors_at: int | None = None

    @property
    def others(self) -> Tensor:
        """Return the rows that anchors are compared with."""
        return self.embeddings if self.references is None else self.references

    def names(self) -> tuple[Tensor, Tensor] | None:
        """Return an int64 for each row of both sides, equal where a reference is the anchor; None without any."""
        if self.references is None:
            return None
        if self.anchors_at is not None:
            places = torch.arange(len(self.references), device=self.labels.device)
            return places[self.anchors_at : self.anchors_at + len(self.labels)], places
        dtype = working_dtype(self.embeddings.dtype, self.references.dtype)
        return fingerprints(self.embeddings, dtype), fingerprints(self.references, dtype)


def check_given(
    embeddings: Tensor,
    labels: Tensor,
    references: Tensor | None = None,
    reference_labels: Tensor | None = None,
    anchors_at: int | None = None,
    *,
    debug: bool = False,
) -> Given:
    """Return what was given, checked, labels as int64."""
    labels, reference_labels = check_batch(embeddings, labels, references, reference_labels, debug=debug)
    check_anchors_at(anchors_at, labels, reference_labels, debug=debug)
    return Given(embeddings, labels, references, reference_labels, anchors_at)


class GivenMiner:
    """A miner: checks what it is given. Subclasses say which triplets they choose."""

    debug: bool

    def choose(self, given: Given) -> Triplets:
        """Return the triplets of a checked batch."""
        raise NotImplementedError

    @torch.no_grad()
    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
        *,
        anchors_at: int | None = None,
    ) -> Triplets:
        """Return the triplets of a batch, or of a batch against references."""
        return self.choose(check_given(embeddings, labels, references, reference_labels, anchors_at, debug=self.debug))


def fingerprints(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return an int64 for each row that equal rows share: 64 mixed bits, so that others practically never do.

    dtype: the type in which rows of both sides are compared.
    """
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (rows.shape[1],), generator=generator).to(rows.device) | 1
    prints = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = (rows[start : start + ROWS_AT_ONCE].detach().to(dtype) + 0.0).contiguous()  # -0 becomes 0
        numbers = block.view(BITS[dtype]).long()
        for shift, factor in ((32, -7046029254386353131), (29, -4658895280553007687)):
            numbers = (numbers ^ (numbers >> shift)) * factor  # a sum alone would let two flipped signs cancel
        prints[start : start + ROWS_AT_ONCE] = ((numbers ^ (numbers >> 32)) * factors).sum(1)
    return prints
