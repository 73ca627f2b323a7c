"""Squared distances of all pairs of unit rows of a small batch on a CPU, exact, as one numpy array.

    distance(a, x) = |a|^2 + |x|^2 - 2 a . x          of rows in whole steps of 2^-24 (`grid_rows`)

Bit for bit those of `grid_rows`, which keeps rows for blocks and pairs; this one forgets them. At 32 rows a step is a
few dozen calls and little else, and a call of numpy costs a third of one of torch. The product is torch's all the same:
numpy's has threads of its own, which stand in the way of torch's.

Memory: the rows of both sides in float64, and the result.
"""

from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from shadowmetric.ops.arrays import Array, to_array
from shadowmetric.ops.grid_rows import GRID, in_grid_steps
from shadowmetric.ops.row_lengths import measure_rows

STEP_SQUARED = GRID**-2


class UnitMatrix(NamedTuple):
    """Squared distances (rows, references), and the lengths of the rows as they were given."""

    squared: Array
    length: Array
    other_length: Array


def unit_matrix(embeddings: Tensor, references: Tensor | None) -> UnitMatrix:
    """Return the squared distances of all pairs; references None compares the rows with themselves."""
    rows, length = _whole_steps(embeddings)
    others, other_length = (rows, length) if references is None else _whole_steps(references)
    squared = torch.mm(torch.from_numpy(rows), torch.from_numpy(others).T).numpy()
    squared *= -2 * STEP_SQUARED  # exact, as all that follows: so no order of these matters
    if others is rows:
        square = other_square = squared.diagonal() * -0.5
    else:
        square, other_square = (numpy.einsum("ij,ij->i", side, side) * STEP_SQUARED for side in (rows, others))
    for lengths, squares in ((length, square), (other_length, other_square)):
        if not lengths.all():
            squares[lengths == 0] = 1.0  # as if it had a direction: cosine 0 with every row
    squared += square[:, None]
    squared += other_square
    return UnitMatrix(squared, length, other_length)


def _whole_steps(source: Tensor) -> tuple[Array, Array]:
    """Return unit rows in steps of the grid, and the lengths that they had."""
    rows, scaled, length = map(to_array, measure_rows(source.detach()))
    rows = in_grid_steps(rows, scaled)
    return numpy.rint(rows, out=rows), length
