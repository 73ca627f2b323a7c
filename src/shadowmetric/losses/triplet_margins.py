"""Margins that are not one number: by the class of the anchor, and by the grades of a relation.

    margin(a, p, n) = margin of a's class * (grade(a, p) - grade(a, n)) / highest grade

With one label for each row all grades differ by 1; a relation that is not graded counts as one. What a loss adds to
its hinge is the difference to its own margin, which is the largest: max(closer + (margin(a, p, n) - margin) - farther
+ margin, 0).

Memory: a few numbers for each triplet, and what is known of its rows, ROWS_AT_ONCE at a time; where every triplet is
streamed, a block of grades.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.types import Relation, Triplets

Margin = float | Mapping[int, float] | Tensor
"""One for all; or one for the anchors of each class, by label or as (classes,)."""

ROWS_AT_ONCE = 2**16


class ClassMargins(NamedTuple):
    """Labels ascending, and the margin of each."""

    labels: Tensor  # (classes,) int64
    margins: Tensor  # (classes,) float64

    def of(self, labels: Tensor) -> Tensor:
        """Return the margin of each label; refuse one that has none."""
        known, margins = self.labels.to(labels.device), self.margins.to(labels.device)
        place = torch.searchsorted(known, labels).clamp_max(len(known) - 1)
        without = (known[place] != labels).nonzero()
        if len(without):
            raise ValueError(f"margin has none for label {int(labels[without[0, 0]])}; give one for each class.")
        return margins[place]


def class_margins(margin: Mapping[int, float] | Tensor) -> ClassMargins:
    """Return the margins by class, checked."""
    if isinstance(margin, Tensor):
        if margin.ndim != 1 or not margin.is_floating_point():
            raise ValueError(f"margin is {margin.dtype} of shape {tuple(margin.shape)}; give (classes,) of floats.")
        margin = dict(enumerate(margin.tolist()))
    if not margin:
        raise ValueError("margin has no class; give one for each, or a single number.")
    labels = sorted(margin)
    values = [check_margin(float(margin[label]), name=f"margin of class {label}") for label in labels]
    return ClassMargins(torch.tensor(labels), torch.tensor(values, dtype=torch.float64))


def widened(closer: Tensor, more: Tensor | float) -> Tensor:
    """Return what was measured of positives, and more, in its own type."""
    return closer + (more.to(closer.dtype) if isinstance(more, Tensor) else more)


class TripletMargins:
    """What a batch's triplets have more than the largest margin: a number below 0, or 0.

    by_class: None if all classes have `largest`.
    """

    def __init__(self, batch: CheckedBatch, largest: float, by_class: ClassMargins | None):
        self.largest = largest
        self.own = None if by_class is None else by_class.of(batch.class_labels("a margin by class")[0])
        graded = isinstance(batch.labels, Relation) and batch.labels.graded
        self.relation = batch.labels if graded and isinstance(batch.labels, Relation) else None
        others = batch.labels if batch.reference_labels is None else batch.reference_labels
        self.others = others if isinstance(others, Relation) else None

    def of_triplets(self, triplets: Triplets) -> Tensor | float:
        """Return it for a list: (triplets,)."""
        margin = self.largest if self.own is None else self.own[triplets.anchor]
        if self.relation is None:
            return margin - self.largest
        return margin * self._differences(self.relation, triplets) - self.largest

    def of_block(self, here: slice) -> Callable[[Tensor], Tensor | float]:
        """Return it for some rows, as a function of their positives: (rows, slots or 1, references or 1)."""
        margin = self.largest if self.own is None else self.own[here, None, None]
        if self.relation is None or self.others is None:
            return lambda partner: margin - self.largest
        grades = self.relation.grades(here, self.others) / self.relation.largest

        def more(partner: Tensor) -> Tensor:
            return margin * (grades.gather(1, partner)[:, :, None] - grades[:, None]) - self.largest

        return more

    def _differences(self, relation: Relation, triplets: Triplets) -> Tensor:
        """Return the positive's grade less the negative's, as shares of the highest."""
        assert self.others is not None
        known, others = relation.rows, self.others.rows
        parts = [torch.zeros(0, device=relation.device)]
        for some in zip(*(numbers.split(ROWS_AT_ONCE) for numbers in triplets), strict=True):
            anchor, positive, negative = some
            closer = relation.measure_pairs(known[anchor], others[positive])
            parts.append((closer - relation.measure_pairs(known[anchor], others[negative])) / relation.largest)
        return torch.cat(parts)
