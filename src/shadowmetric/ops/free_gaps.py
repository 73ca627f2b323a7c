"""Gaps of rows as they are, times the anchor's length: what miners compare for Shadow where rows have any length.

    |a| gap(a, x) = | |a|^2 - a . x |          of rows on the grid (`grid_rows`), and so the same on every machine

For one anchor it has the order of the gaps; it is not the same from x to a, so that blocks serve one direction only.
A zero row has gap 0 from every row.

Memory: as the blocks and the pairs of `grid_rows`.
"""

from torch import Tensor

from shadowmetric.ops.grid_rows import ExactSide, GridRows, GridSide, pair_dots_of
from shadowmetric.ops.rows import Rows


def pair_gaps(left: GridRows, right: GridRows, row: Tensor, other: Tensor) -> Tensor:
    """Return |a| gap(a, x) of each pair: (pairs,) float64."""
    return pair_dots_of(left, right, row, other).sub_(left.square.index_select(0, row)).abs_()


def gap_block(left: ExactSide, here: slice, right: ExactSide) -> Tensor:
    """Return |a| gap(a, x) of some rows and all of the other side: float64. Both are of rows as they are."""
    assert left.second is not None
    assert right.second is not None
    cross = left.first[here] @ right.second.T + left.second[here] @ right.first.T
    return (left.first[here] @ right.first.T + cross).sub_(left.grid.square[here, None]).abs_()


class GapSide(GridSide):
    """One side of a block loop whose blocks are |a| gap(a, x)."""

    def __init__(self, grid: GridRows, order: Tensor | None = None, *, whole_bytes: int = 0):
        super().__init__(grid, order, blocks="dots", whole_bytes=whole_bytes)

    def multiply(self, rows: Tensor, other: Rows, columns: Tensor, top: int, first: int, out: Tensor) -> None:
        """Write the block of loaded rows and columns, which stand at `top` and `first` of their sides, into `out`."""
        super().multiply(rows, other, columns, top, first, out)
        out.sub_(self.square[top : top + len(rows), None]).abs_()
