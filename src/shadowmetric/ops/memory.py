"""Bytes as a formula: what a loss or a miner promises to stay within, and prints.

    kept    held between forward and backward, beyond embeddings, labels and parameters: no term with D
    peak    the most that is held at once in forward and backward, beyond the same inputs, and with the gradients
            of embeddings, references and parameters, which are what backward is for

    S   rows of the batch            P   positive pairs (anchor, positive) of the batch, each direction counted
    R   references; S if there are none  T   triplets, where a list of them is made
    D   numbers in a row             C   learned centers
    N   rows of batch and references     G   classes that so many can have: the smaller of N and C

A peak is the largest of a few phases (mining, forward, backward), and a phase is a sum. Its first part is the memory
of blocks: the scratch, or the thinnest block of whole rows where that is more. Coefficients are bytes for one type of
embeddings: 4 and 8 in them are mostly float32 (float64: 8) and int64.

What is promised: tensors, as torch hands them out. Buffers inside BLAS, Python's own objects and an allocator's
rounding are not tensors. Not promised: the lines of a block that hold equal distances are copied (`ops/arg_min`), so
a batch of mostly equal rows in mixed order may need several times the scratch.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from shadowmetric.ops.grid_rows import GATHERED_AT_ONCE
from shadowmetric.ops.row_lengths import MADE_AT_ONCE
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SHORTEST_SIDE

KEPT_SLOPES = 2**14  # similarities of a small batch: 128 rows, 64 KiB
AT_ONCE = max(GATHERED_AT_ONCE, MADE_AT_ONCE)
PAIRS_OF_A_ROW = 8  # at most, that are gathered by a miner, or by the regularizer of centers
HALF_UP = 1 + 2.0**-40  # halves are rounded up, as the calculator of the page does
SMALL = 2**14  # scalars, and the few numbers that each of them takes
UNITS = {
    "center": "C",
    "row": "S",
    "reference": "R",
    "positive": "P",
    "triplet": "T",
    "center_number": "C D",
    "number": "S D",
    "reference_number": "R D",
    "row_class": "N G",
}


class Sizes(NamedTuple):
    """The sizes of a batch that formulas are about."""

    rows: int
    dim: int
    positives: int = 0
    triplets: int = 0
    references: int | None = None
    centers: int = 0

    def count(self, unit: str) -> int:
        """Return how many there are of a unit of `Bytes`."""
        references = self.rows if self.references is None else self.references
        things = {
            "row": self.rows,
            "reference": references,
            "positive": self.positives,
            "triplet": self.triplets,
            "center": self.centers,
            "row_class": (players := self.rows + (self.references or 0)) * min(players, self.centers),
        }
        if unit.endswith("number"):
            return self.dim * things[unit.removesuffix("number").rstrip("_") or "row"]
        return things[unit]


class Width(NamedTuple):
    """Bytes of a number: in the embeddings as given, and in the type that sums are made in."""

    given: int
    working: int


def width_of(dtype: torch.dtype) -> Width:
    """Return the widths for embeddings of a type."""
    return Width(dtype.itemsize, working_dtype(dtype).itemsize)


@dataclass(frozen=True)
class Bytes:
    """A sum: bytes for each unit, beside the blocks."""

    scratch: int | float = 0.0  # what blocks may take
    thinnest: int | float = 0.0  # bytes for each column (reference or center) of the thinnest block of whole rows
    columns: str = "reference"
    fixed: int | float = 0.0
    center: int | float = 0.0
    row: int | float = 0.0
    reference: int | float = 0.0
    positive: int | float = 0.0
    triplet: int | float = 0.0
    center_number: int | float = 0.0
    number: int | float = 0.0
    reference_number: int | float = 0.0
    row_class: int | float = 0.0
    made: int | float = (
        0.0  # bytes for each number of all rows, or few pairs, of which at most AT_ONCE are made at once
    )
    gathered: int | float = (
        0.0  # bytes for each number of the pairs' rows, of which at most AT_ONCE are gathered at once
    )

    def __add__(self, other: "Bytes") -> "Bytes":
        """Return the sum of two that are held at once; the blocks are those of whichever has any."""
        names = [*UNITS, "scratch", "thinnest", "fixed", "made", "gathered"]
        return replace(
            self if self.scratch else other, **{name: getattr(self, name) + getattr(other, name) for name in names}
        )

    def at(self, sizes: Sizes) -> int:
        """Return the bytes of a batch of these sizes."""
        blocks = max(self.scratch, self.thinnest * sizes.count(self.columns))
        few = sizes.positives if sizes.positives <= PAIRS_OF_A_ROW * sizes.rows else 0
        rows = max(sizes.rows, sizes.references or 0, few, PAIRS_OF_A_ROW * sizes.centers)
        row_numbers, gathered = (
            min(sizes.dim * count, AT_ONCE) for count in (rows, 2 * max(sizes.positives, sizes.triplets))
        )
        each = sum(getattr(self, unit) * sizes.count(unit) for unit in UNITS)
        return int(SMALL + blocks + self.fixed + self.made * row_numbers + self.gathered * gathered + each)

    def own(self) -> "Bytes":
        """Return the same where the batch is compared with itself: R is S."""
        columns = "row" if self.columns == "reference" else self.columns
        row, number = self.row + self.reference, self.number + self.reference_number
        return replace(self, columns=columns, row=row, number=number, reference=0.0, reference_number=0.0)

    def __str__(self) -> str:
        blocks = format_bytes(self.scratch) if self.scratch else ""
        if self.thinnest:
            blocks = f"max({blocks}, {self.thinnest:g} {UNITS[self.columns]})"
        fixed = self.fixed + (self.made + self.gathered) * AT_ONCE
        fixed = format_bytes(fixed) if fixed else ""
        parts = [f"{getattr(self, unit):g} {letter}" for unit, letter in UNITS.items() if getattr(self, unit)]
        return " + ".join(part for part in (blocks, fixed, *parts) if part) or format_bytes(SMALL)


NOTHING = Bytes()


def each(unit: str, count: int | float) -> Bytes:
    """Return so many bytes for each of a unit that is known by its name."""
    return replace(NOTHING, **{unit: count})


def format_bytes(count: int | float) -> str:
    """Return a number of bytes in the largest unit that keeps it whole enough to read."""
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size * HALF_UP:.4g} {unit}"
    return f"{count:g} bytes"


class Cost(NamedTuple):
    """What is kept for backward, and the phases whose largest is the peak."""

    kept: Bytes
    phases: tuple[Bytes, ...]

    def peak(self, sizes: Sizes) -> int:
        """Return the most bytes held at once, gradients included."""
        return max(phase.at(sizes) for phase in self.phases)

    def own(self) -> "Cost":
        """Return the same for a batch compared with itself."""
        return Cost(self.kept.own(), tuple(phase.own() for phase in self.phases))

    def __str__(self) -> str:
        phases = [str(phase) for phase in dict.fromkeys(self.phases)]
        return phases[0] if len(phases) == 1 else f"the largest of {'; '.join(phases)}"


def on_grid(dtype: torch.dtype, *, normalize: bool = True, references: bool = False, making: bool = False) -> Bytes:
    """Return what rows on the grid take (`grid_rows`). making: and what is held while they are made or gathered."""
    held = 16.0 if dtype == torch.float64 else 4.0 if normalize else 8.0
    other = (held, 16.0) if references else (0.0, 0.0)
    overhead = (96.0 if dtype == torch.float64 else 32.0 if normalize else 72.0) if making else 0.0
    return Bytes(number=held, row=16.0, reference_number=other[0], reference=other[1], made=overhead)


def streaming_phases(
    scratch_bytes: int,
    dtype: torch.dtype,
    temporaries: float,
    *,
    normalize: bool = True,
    exact: bool = False,
    columns: str = "reference",
    pairs: bool = False,
    references: bool = False,
) -> tuple[Bytes, ...]:
    """Return the phases of `row_stream`: the blocks beside the gradients of both sides, then the gradients added up.

    normalize, exact: as the stream has them. Halves have their gradients beside the blocks in both types.
    pairs: measures of pairs are made too, and have a gradient that waits.
    references: both sides have gradients of their own.
    """
    input_bytes, working = width_of(dtype)
    finer = not normalize or dtype == torch.float64
    number = 8 if finer or exact else 4
    half, waiting = input_bytes != working, input_bytes if pairs else 0
    other = "center_number" if columns == "center" else "reference_number"
    converted = input_bytes if half else 0
    several = columns == "center" or references
    grid = on_grid(dtype, normalize=normalize, references=references)
    if columns == "center":
        grid = grid + each(other, 4.0 if dtype != torch.float64 else 16.0) + Bytes(center=16.0)
    blocks = each(other, (working + converted) if several else 0.0) + Bytes(
        scratch=scratch_bytes,
        thinnest=SHORTEST_SIDE * (8 * (3 if finer else 1) + number * temporaries + 4),  # and four masks
        columns=columns,
        row=8 * number,
        reference=4 * number,
        number=working + waiting + converted,
    )
    added = each(other, 4 * input_bytes if several else 0) + Bytes(row=8 * working, number=3 * input_bytes + waiting)
    making = grid + Bytes(made=on_grid(dtype, normalize=normalize, making=True).made)
    measured = gathering_phases(dtype, normalize=normalize, references=references) if pairs else ()
    return blocks + grid, added + grid, making, *measured


KNOWN_LENGTHS = 16.0  # bytes of a row: its squared length on the grid and its length, which `row_stream` keeps


def slopes_of_small(dtype: torch.dtype, *, normalize: bool = True) -> Bytes:
    """Return what `row_stream` keeps of a small batch that has one output for each row."""
    return Bytes(fixed=4.0 * KEPT_SLOPES) if normalize and dtype != torch.float64 else NOTHING


def gathering_phases(dtype: torch.dtype, *, normalize: bool = True, references: bool = False) -> tuple[Bytes, Bytes]:
    """Return the phases of `pair_measures`, without the pairs: rows gathered, then the gradients added up."""
    working = width_of(dtype).working
    held = 2.0 * (dtype.itemsize if dtype == torch.float64 else 4.0) + 16.0
    at_once = held if normalize and dtype != torch.float64 else 2 * held + 24.0
    number = 3.0 * working
    grid = on_grid(dtype, normalize=normalize, references=references)
    gathering = grid + Bytes(gathered=at_once, row=4.0 * working)
    return gathering, Bytes(row=56.0, reference=40.0, number=number, reference_number=number if references else 0.0)
