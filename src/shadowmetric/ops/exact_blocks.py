"""Exact blocks of whole rows of similarities or squared distances, from both sides on the grid.

    cosine(a, x)   = a . x + (1 - |a|^2) / 2 + (1 - |x|^2) / 2          |a|^2 of the rounded row, which is nearly 1
    squared(a, x)  = -2 (a . x - |a|^2 / 2 - |x|^2 / 2)

On the grid each term is exact, and so is their sum in any order: both constants are two more columns of the rows, and
a block is one product. Rows with a finer part (`grid_rows`) need several products, which are added in a fixed order.
Blocks are rounded to the type of who reads them.

Memory: the block, the rows it was made of, and all of the right side in float64 if that takes a quarter of the scratch.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.grid_rows import GridRows, GridSide
from shadowmetric.ops.opaque import opaque
from shadowmetric.ops.rows import Rows, working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, fitting_rows, row_height, scratch_on, whole_row_blocks


class Stream(NamedTuple):
    """How rows are streamed.

    normalize: unit rows; blocks of cosines, and squares of 1. Otherwise rows as they are: dot products.
    squared: blocks of squared distances instead.
    exact: the terms compute in float64; so they do for rows as they are, whose squares cancel.
    order: stream these rows of the embeddings instead.
    multiple: a block holds a multiple of so many rows, so that a term may combine neighbors to one row of output.
    reads_squares: whether terms read |row|^2 at all.
    outputs: numbers of each row of output.
    temporaries: how many tensors of the block's shape a term makes, forward and backward together.
    scratch_bytes: what blocks and temporaries may take on a CPU; other devices take 128 times as much.
    """

    normalize: bool
    squared: bool = False
    exact: bool = False
    order: Tensor | None = None
    multiple: int = 1
    reads_squares: bool = True
    outputs: int = 1
    temporaries: float = 8.0
    scratch_bytes: int = SCRATCH_BYTES


Grids = tuple[GridRows, GridRows]
Known = tuple[Tensor, Tensor]
"""|row|^2 on the grid, and |row| of the source."""

COPIED = 2**14  # numbers of both sides that a CPU copies rather than call twice


def both_grids(
    embeddings: Tensor, references: Tensor | None, *, normalize: bool, finer: bool, known: Sequence[Known] = ()
) -> Grids:
    """Return both sides on the grid; in one call where a call costs more than a copy of the rows.

    known: |row|^2 and |row| of both sides, or of the only one.
    """
    if references is None:
        grid = GridRows(embeddings, normalize=normalize, finer=finer, known=known[0] if known else None)
        return grid, grid
    numbers = embeddings.numel() + references.numel()
    if (numbers > COPIED and embeddings.device.type == "cpu") or torch.compiler.is_compiling():
        left, right = (
            GridRows(rows, normalize=normalize, finer=finer, known=own)
            for rows, own in zip((embeddings, references), known or (None, None), strict=True)
        )
        return left, right
    rows = torch.cat([embeddings.detach(), references.detach()])
    lengths = (
        (torch.cat([square for square, _ in known]), torch.cat([length for _, length in known])) if known else None
    )
    both = GridRows(rows, normalize=normalize, finer=finer, known=lengths)
    left, right = copy(both), copy(both)
    for name in ("first", "second", "square", "length"):
        part = getattr(both, name)
        for side, rows in ((left, slice(len(embeddings))), (right, slice(len(embeddings), None))):
            setattr(side, name, None if part is None else part[rows])
    return left, right


class Sides:
    """Both sides on the grid, and the type that the terms compute in."""

    def __init__(
        self,
        embeddings: Tensor,
        references: Tensor | None,
        stream: Stream,
        grids: Grids | None = None,
        known: Sequence[Known] = (),
    ):
        others = embeddings if references is None else references
        self.working = working_dtype(embeddings.dtype, others.dtype)
        self.finer = not stream.normalize or self.working == torch.float64
        self.dtype = torch.float64 if self.finer or stream.exact else torch.float32
        self.stream, self.device = stream, embeddings.device
        self.grids = grids or both_grids(
            embeddings, references, normalize=stream.normalize, finer=self.finer, known=known
        )
        self.left, self.right = self.grids
        self.sources = embeddings, others

    def __len__(self) -> int:
        return (self.left.first if self.stream.order is None else self.stream.order).shape[0]

    @property
    def kind(self) -> str:
        """Return what blocks hold."""
        return "squared" if self.stream.squared else "cosines" if self.stream.normalize else "dots"

    def squares(self) -> tuple[Tensor, Tensor]:
        """Return |row|^2 of rows as they are, (rows, 1) and (references,), and 1 for unit rows if a term reads it."""
        if self.stream.normalize and self.stream.reads_squares:
            one = torch.ones((), dtype=self.dtype, device=self.device)
            return one.expand(len(self), 1), one.expand(len(self.right))
        square = self.left.square if self.stream.order is None else self.left.square[self.stream.order]
        return square[:, None], self.right.square

    def working_rows(self) -> tuple[Tensor, Tensor]:
        """Return both sides as they are compared, in working precision."""
        rows = self.left.rows(self.sources[0], self.working)
        return rows, rows if self.right is self.left else self.right.rows(self.sources[1], self.working)

    def spans(self) -> list[tuple[int, int]]:
        """Return the rows [top, bottom) of each block."""
        width, temporaries = (
            (2 * self.left.dim, self.temporaries + 2) if self.finer else (self.left.dim + 2, self.temporaries)
        )
        fitting = fitting_rows(len(self.right), width, torch.float64.itemsize, self.scratch, temporaries)
        height = row_height(len(self), fitting, self.device, self.stream.multiple)
        return [(top, min(top + height, len(self))) for top in range(0, len(self), height)]

    def blocks(self) -> Iterator[tuple[int, int, Tensor]]:
        """Yield the rows [top, bottom) of blocks, and the blocks in the type of the terms."""
        spans = self.spans()
        if len(spans) == 1 and not self.finer and self.stream.order is None:
            yield *spans[0], self._whole().to(self.dtype)
            return
        for top, bottom, _, _, values in whole_row_blocks(
            *self._rows(),
            scratch_bytes=self.scratch,
            temporaries=self.temporaries,
            multiple=self.stream.multiple,
        ):
            yield top, bottom, values.to(self.dtype)

    def _whole(self) -> Tensor:
        """Return the only block, with as few calls as can be."""
        squared, left, right = self.stream.squared, self.left, self.right
        rows = left.first.to(torch.float64)
        others = rows if right is left else right.first.to(torch.float64)
        square, other = left.square, right.square
        if squared:
            return torch.addmm(other, rows, others.T, alpha=-2.0).add_(square[:, None])
        rest = 1.0 - square
        other_rest = rest if right is left else 1.0 - other
        return torch.addmm(other_rest, rows, others.T, beta=0.5).add_(rest[:, None], alpha=0.5)

    def block(self, top: int, bottom: int) -> Tensor:
        """Return one block in the type of the terms, without buffers: for compiled graphs."""
        order, left, right = self.stream.order, self.left, self.right
        selection = slice(top, bottom) if order is None else order[top:bottom]
        second = None if left.second is None else left.second[selection]
        rows = left.first[selection], second, left.square[selection]
        return exact_block(*rows, right.first, right.second, right.square, self.kind).to(self.dtype)

    @property
    def scratch(self) -> int:
        """Return the bytes that blocks may take."""
        return scratch_on(self.device, self.stream.scratch_bytes)

    @property
    def temporaries(self) -> float:
        """Return how many blocks of float64 the terms make of one."""
        half = self.dtype == torch.float32  # the terms' own type is half as wide as the exact block
        return self.stream.temporaries * 0.5 + 0.5 if half else self.stream.temporaries

    def _rows(self) -> tuple[Rows, Rows]:
        order, kind = self.stream.order, self.kind
        if self.finer:
            whole = 0 if self.device.type == "cpu" else self.scratch // 4  # loaded once where every call is a launch
            return GridSide(self.left, order, blocks=kind), GridSide(self.right, blocks=kind, whole_bytes=whole)
        constants = self._constants()
        left = _ConstantSide(self.left, constants[0], order, squared=self.stream.squared, first=True)
        right = _ConstantSide(self.right, constants[1], squared=self.stream.squared, first=False)
        return left, right.make_whole(self.scratch // 4)

    def _constants(self) -> tuple[Tensor, Tensor]:
        """Return what each row of both sides adds to its dot products, before they are multiplied."""
        squared, left, right = self.stream.squared, self.left, self.right
        constant = _constant(left, squared=squared)
        return constant, constant if right is left else _constant(right, squared=squared)


def _constant(grid: GridRows, *, squared: bool) -> Tensor:
    return grid.square * -0.5 if squared else (1.0 - grid.square).mul_(0.5)


class _ConstantSide(Rows):
    """One side of exact blocks: unit rows on the grid, and their constant as a column."""

    def __init__(self, grid: GridRows, constant: Tensor, order: Tensor | None = None, *, squared: bool, first: bool):
        one = torch.ones_like(constant)
        super().__init__(
            grid.first, order=order, tail=(constant, one) if first else (one, constant), dtype=torch.float64
        )
        self.alpha = -2.0 if squared else 1.0
        self.whole = None
        if self.source.device.type != "cpu":  # where every call is a launch
            self.whole = torch.cat([self.source, *(column[:, None] for column in self.tail)], 1)

    def load(self, start: int, stop: int) -> Tensor:
        """Return rows start to stop with their columns."""
        if self.whole is None:
            return super().load(start, stop)
        return self.whole[start:stop] if self.order is None else self.whole.index_select(0, self.order[start:stop])

    def multiply(self, rows: Tensor, other: Rows, columns: Tensor, top: int, first: int, out: Tensor) -> None:
        """Write the block of loaded rows and columns into `out`."""
        torch.addmm(out, rows, columns.T, beta=0, alpha=self.alpha, out=out)


def _empty_block(
    first: Tensor,
    second: Tensor | None,
    square: Tensor,
    other_first: Tensor,
    other_second: Tensor | None,
    other_square: Tensor,
    kind: str,
) -> Tensor:
    return first.new_empty(*first.shape[:-1], other_first.shape[-2], dtype=torch.float64)


@opaque("exact_block", _empty_block)
def exact_block(
    first: Tensor,
    second: Tensor | None,
    square: Tensor,
    other_first: Tensor,
    other_second: Tensor | None,
    other_square: Tensor,
    kind: str,
) -> Tensor:
    """Return the block of some rows on the grid and all of the other side: "squared", "cosines" or "dots".

    Of several matrices at once, where rows have a third dimension.
    """
    rows = first.to(torch.float64)
    others = rows if other_first is first else other_first.to(torch.float64)
    block = rows @ others.mT
    if second is not None and other_second is not None:
        block += rows @ other_second.to(torch.float64).mT + second.to(torch.float64) @ others.mT
    if kind == "dots":
        return block
    block = torch.sub(square[..., None] + other_square[..., None, :], block, alpha=2).clamp_min_(0.0)
    return block.mul_(-0.5).add_(1.0) if kind == "cosines" else block
