"""Batches on which other libraries are compared with ours: ordinary ones, and those where definitions part.

Rows are float64, so that two ways of computing a number do not part by rounding.
"""

import torch
from torch import Tensor

DIM = 6


def rows_around_classes(labels: list[int], seed: int, *, length: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return rows around a point for each class, in an order that is not that of classes."""
    generator = torch.Generator().manual_seed(seed)
    names = torch.tensor(labels)[torch.randperm(len(labels), generator=generator)]
    centers = torch.randn(max(labels) + 1, DIM, generator=generator, dtype=torch.float64)
    rows = centers[names] + torch.randn(len(labels), DIM, generator=generator, dtype=torch.float64)
    return length * rows, names


BATCHES: dict[str, tuple[Tensor, Tensor]] = {
    "even": rows_around_classes([0, 1, 2, 3, 4, 5] * 4, 0),
    "ragged": rows_around_classes([0] * 7 + [1] * 4 + [2] * 2 + [3] * 2, 1),
    "some alone": rows_around_classes([0] * 5 + [1] * 3 + [2, 3, 4, 5], 2),
    "long rows": rows_around_classes([0, 1, 2, 3] * 3, 3, length=10.0),
    "short rows": rows_around_classes([0, 1, 2, 3] * 3, 4, length=0.1),
    "one class": rows_around_classes([0] * 6, 5),
    "all alone": rows_around_classes([0, 1, 2, 3, 4, 5], 6),
    "one row": rows_around_classes([0], 7),
}
CLASSES = 6
