"""A checked batch and what it is compared with, and which of the compared rows is the anchor itself.

    references None      the batch is compared with itself; row i is never its own positive
    references           others: a memory, another split. A reference that equals its anchor is taken for it
    anchors_at = k       the batch is rows k, k + 1, ... of the references, as a rank's rows are among those of all
                         ranks; an anchor is left out by its place, and equal rows elsewhere are rows of their own
    "elsewhere"          no reference is an anchor, however equal: those of another tower are not

Memory: two int64 for each row where there are references, and 768 KiB while they are made.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_anchors_at, check_batch, check_lengths, one_label_each, reads_values
from shadowmetric.ops.arrays import Array
from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.memory import Bytes
from shadowmetric.ops.nearest_beyond import BITS
from shadowmetric.ops.opaque import opaque
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.unit_matrix import UnitMatrix, unit_matrix
from shadowmetric.types import AnyLabels, Place, Triplets

NUMBERS_AT_ONCE = 2**15  # whose bits are mixed together
NOWHERE = -1  # the place of a row that is none of the references
NAMING = Bytes(fixed=24 * NUMBERS_AT_ONCE, row=8, reference=8)


@dataclass(frozen=True, eq=False)
class CheckedBatch:
    """A batch, and the references that it is compared with, if any."""

    embeddings: Tensor
    labels: AnyLabels
    references: Tensor | None = None
    reference_labels: AnyLabels | None = None
    anchors_at: Place | None = None
    made: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def finer(self) -> bool:
        """Return whether unit rows have a second part on the grid."""
        return working_dtype(self.embeddings.dtype, self.others.dtype) == torch.float64

    def grids(self, *, normalize: bool) -> tuple[GridRows, GridRows]:
        """Return both sides on the grid, made once; without references they are one."""
        if normalize not in self.made:
            finer = not normalize or self.finer
            sides = {"embeddings": self.embeddings, "references": self.references}
            made = [
                _check_grid(rows, name, normalize=normalize, finer=finer)
                for name, rows in sides.items()
                if rows is not None
            ]
            self.made[normalize] = made[0], made[-1]
        return self.made[normalize]

    def unit_matrix(self) -> UnitMatrix:
        """Return the distances of unit rows, all of them, of a small batch on a CPU; made once."""
        if UnitMatrix not in self.made:
            matrix = self.made[UnitMatrix] = unit_matrix(self.embeddings, self.references)
            check_zero_rows(matrix.length, "embeddings")
            check_zero_rows(matrix.other_length, "references")
        return self.made[UnitMatrix]

    def lengths(self) -> tuple[Tensor, Tensor]:
        """Return the lengths of the rows of both sides, which their unit rows were divided by."""
        if UnitMatrix in self.made:
            return torch.from_numpy(self.made[UnitMatrix].length), torch.from_numpy(self.made[UnitMatrix].other_length)
        left, right = self.grids(normalize=True)
        return left.length, right.length

    @property
    def others(self) -> Tensor:
        """Return the rows that anchors are compared with."""
        return self.embeddings if self.references is None else self.references

    def class_labels(self, what: str = "this") -> tuple[Tensor, Tensor | None]:
        """Return the labels of both sides; refuse a relation, for `what` needs one label for each row."""
        others = self.reference_labels
        return one_label_each(self.labels, what), None if others is None else one_label_each(others, what)

    def names(self) -> tuple[Tensor, Tensor] | None:
        """Return an int64 for each row of both sides, equal where a reference is the anchor; None without any."""
        if self.references is None:
            return None
        if self.anchors_at is not None:
            places = torch.arange(len(self.references), device=self.labels.device)
            if not isinstance(self.anchors_at, int):
                return torch.full((len(self.labels),), NOWHERE, device=places.device), places
            return places[self.anchors_at : self.anchors_at + len(self.labels)], places
        dtype = working_dtype(self.embeddings.dtype, self.references.dtype)
        return fingerprints(self.embeddings, dtype), fingerprints(self.references, dtype)


def as_checked_batch(
    embeddings: Tensor,
    labels: AnyLabels,
    references: Tensor | None = None,
    reference_labels: AnyLabels | None = None,
    anchors_at: Place | None = None,
    *,
    debug: bool = False,
) -> CheckedBatch:
    """Return what was given, checked, labels as int64."""
    labels, reference_labels = check_batch(embeddings, labels, references, reference_labels, debug=debug)
    check_anchors_at(anchors_at, labels, reference_labels, debug=debug)
    return CheckedBatch(embeddings, labels, references, reference_labels, anchors_at)


def _check_grid(rows: Tensor, name: str, *, normalize: bool, finer: bool) -> GridRows:
    """Return rows on the grid; refuse those too long to be compared as they are, and say once that some are zero."""
    grid = GridRows(rows, normalize=normalize, finer=finer)
    if not normalize:
        check_lengths(grid.length, rows.dtype, name)
    elif reads_values(rows):
        check_zero_rows(grid.length, name)
    return grid


_SAID: set[str] = set()


def check_zero_rows(length: Array, name: str) -> None:
    """Say, once in a process, that rows have no direction."""
    if not length.all() and not _SAID:
        _SAID.add(name)
        warnings.warn(
            f"{int((length == 0).sum())} of {len(length)} rows of {name} are zero: such a row has no direction, so it "
            "has cosine 0 with every row and gets no gradient; look for a dead layer. This is said once.",
            RuntimeWarning,
            stacklevel=2,
        )


class Mined(NamedTuple):
    """Triplets, and the squared distances (to the positive, to the negative) of each, if mining knows them."""

    triplets: Triplets
    squared: tuple[Tensor, Tensor] | None = None


@opaque("fingerprints", lambda rows, dtype: rows.new_empty(len(rows), dtype=torch.int64))
def fingerprints(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return an int64 for each row that equal rows share: 64 mixed bits, so that others practically never do.

    dtype: the type in which rows of both sides are compared.
    """
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (rows.shape[1],), generator=generator).to(rows.device) | 1
    prints = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    some = max(1, NUMBERS_AT_ONCE // rows.shape[1] if rows.device.type == "cpu" else len(rows))
    for start in range(0, len(rows), some):
        block = (rows[start : start + some].detach().to(dtype) + 0.0).contiguous()  # -0 becomes 0
        numbers = block.view(BITS[dtype]).long()
        for shift, factor in ((32, -7046029254386353131), (29, -4658895280553007687)):
            numbers.bitwise_xor_(numbers >> shift).mul_(factor)  # a sum alone would let two flipped signs cancel
        prints[start : start + some] = numbers.bitwise_xor_(numbers >> 32).mul_(factors).sum(1)
    return prints
