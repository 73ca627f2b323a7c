"""Names for the tensors of this library, with their shapes, and the two protocols it is built on.

The shapes are jaxtyping annotations. They cost a user nothing: jaxtyping is loaded only by type
checkers and by pytest, whose plugin checks every annotated call at run time. Anywhere else the
names below are plain tensors, and `import shadowmetric` needs torch alone.

    batch        rows of one batch              references   rows that anchors are compared with
    dim          length of a row                pairs        chosen (anchor, other) pairs
    triplets     chosen triplets                rows         consecutive rows handled at once
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

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
