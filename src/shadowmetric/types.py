"""Names for the tensors of this library, with their shapes, and the protocols it is built on.

The shapes are jaxtyping annotations. They cost a user nothing: jaxtyping is loaded only by type
checkers and by pytest, whose plugin checks every annotated call at run time. Anywhere else the
names below are plain tensors, and `import shadowmetric` needs torch alone.

    batch        rows of one batch              references   rows that anchors are compared with
    dim          length of a row                pairs        chosen (anchor, other) pairs
    triplets     chosen triplets                rows         consecutive rows handled at once
"""

import copy
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int64

    Embeddings = Float[Tensor, "batch dim"]
    References = Float[Tensor, "references dim"]
    Labels = Int64[Tensor, "batch"]
    ReferenceLabels = Int64[Tensor, "references"]
    Lengths = Float[Tensor, "batch"]
    ReferenceLengths = Float[Tensor, "references"]
    RowNumbers = Int64[Tensor, "pairs"]
    PairValues = Float[Tensor, "pairs"]
    TripletNumbers = Int64[Tensor, "triplets"]
    TripletValues = Float[Tensor, "triplets"]
    BlockValues = Float[Tensor, "rows references"]
    BlockMask = Bool[Tensor, "rows references"]
    RowValues = Float[Tensor, "rows ..."]
    Scalar = Float[Tensor, ""]
else:
    Embeddings = References = Labels = ReferenceLabels = Lengths = ReferenceLengths = Tensor
    RowNumbers = PairValues = TripletNumbers = TripletValues = Tensor
    BlockValues = BlockMask = RowValues = Scalar = Tensor


Place = int | Literal["elsewhere"]
"""The row of the references at which the batch begins, or "elsewhere" if it is not among them."""

Hinge = Callable[[Tensor, Tensor], Tensor]
"""What was measured of positives and of negatives -> the values of triplets."""


class Triplets(NamedTuple):
    """Row numbers of (anchor, positive, negative), ordered by anchor, then positive.

    Anchors are rows of `embeddings`; positives and negatives are rows of `references` where a
    miner was given any, else of `embeddings` too.
    """

    anchor: TripletNumbers
    positive: TripletNumbers
    negative: TripletNumbers


SomeRelation = TypeVar("SomeRelation", bound="Relation")


class Relation:
    """What is known of each row where one label is not enough: which pairs are positive, and how much.

    It stands where labels stand. Subclasses give `measure` and `measure_pairs`, grades from what is known of rows.

    rows: (batch, ...), what is known of each. graded: margins grow with the difference of grades.
    positive_from: the least grade of a positive pair; None: any above 0. negative_below: the grade that a negative
    pair has less of; None: all that is not positive. What lies between is neither. largest: the highest grade.
    """

    rows: Tensor
    graded: bool = False
    positive_from: float | None = None
    negative_below: float | None = None
    largest: float = 1.0
    temporaries = 2.0  # blocks that grades and masks make beside a block of distances

    def measure(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the grade of each row with each other: (rows, others) float32."""
        raise NotImplementedError

    def measure_pairs(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the grade of each row with the other at its place: (rows,) float32."""
        raise NotImplementedError

    def tables(self) -> tuple[Tensor, ...]:
        """Return what all rows share, beside the settings."""
        return ()

    def grades(self, here: slice | Tensor, others: "Relation", there: slice = slice(None)) -> Tensor:
        """Return the grades of some rows with some others: (rows, others)."""
        return self.measure(self.rows[here], others.rows[there])

    def masks(self, here: slice | Tensor, others: "Relation", there: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Return which pairs of some rows with some others are positive, and which negative."""
        grades = self.grades(here, others, there)
        positive = grades > 0 if self.positive_from is None else grades >= self.positive_from
        return positive, ~positive if self.negative_below is None else grades < self.negative_below

    def with_rows(self: SomeRelation, rows: Tensor) -> SomeRelation:
        """Return the same relation of other rows."""
        other = copy.copy(self)
        other.rows = rows
        return other

    def joined(self: SomeRelation, other: "Relation") -> SomeRelation:
        """Return the relation of these rows and then those of another."""
        return self.with_rows(torch.cat([self.rows, other.rows]))

    def same_kind(self, other: object) -> bool:
        """Return whether the rows of another can be compared with these."""
        if not isinstance(other, type(self)) or self.rows.shape[1:] != other.rows.shape[1:]:
            return False
        mine, theirs = ((one.graded, one.positive_from, one.negative_below) for one in (self, other))
        tables = zip(self.tables(), other.tables(), strict=True)
        return mine == theirs and all(one is two or torch.equal(one, two) for one, two in tables)

    @property
    def device(self) -> torch.device:
        """Return where the rows are."""
        return self.rows.device

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self: SomeRelation, some: slice | Tensor | Sequence[int] | int) -> SomeRelation:
        if isinstance(some, int):
            raise TypeError(f"{type(self).__name__}[{some}] is one row; give a slice or row numbers.")
        return self.with_rows(self.rows[some])

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} rows"


AnyLabels = Tensor | Relation
"""One label for each row, (batch,) of integers; or a relation."""


@runtime_checkable
class Miner(Protocol):
    """Chooses triplets of a batch."""

    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
    ) -> Triplets:
        """Return the triplets of a batch, or of a batch against references."""
        ...


@runtime_checkable
class Loss(Protocol):
    """Turns a batch into one number with a gradient."""

    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        triplets: Sequence[Tensor] | None = None,
        *,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch."""
        ...
