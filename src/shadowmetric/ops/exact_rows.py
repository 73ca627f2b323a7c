"""Unit rows whose dot products are exact, so that no cosine depends on how a product was cut into blocks.

A float32 product rounds as it sums, and the order of its sums depends on the shape of the block and on where in
it a row stands: equal rows may get different cosines, and whether two items tie becomes chance. Here the entries of
unit rows are rounded to multiples of 2^-24. Products of two such numbers are multiples of 2^-48, sums of them stay
near 1 in size, and float64 holds 53 binary places: every sum is exact, in any order, on any device that has float64.

The price: an entry moves by at most 2^-25 = 3e-8, half of float32's own rounding at 1, and a cosine by about 2e-8
(by up to 2e-6 where every entry rounds the same way, as in rows of ±1 of 2,048 numbers);
and products in float64 take twice the time of float32.

Memory: as `Rows`; made whole they take 8 bytes an entry, or 4 if that is all that fits (float32 holds them exactly).
"""

import torch
from torch import Tensor

from shadowmetric.ops.row_lengths import row_lengths_of
from shadowmetric.ops.rows import Rows

GRID = 2.0**24


class ExactUnitRows(Rows):
    """Rows of length 1 (zero rows stay zero) in multiples of 2^-24, and perhaps a number after each.

    scale: a power of 2 that all of it but the number is multiplied by.
    """

    def __init__(self, source: Tensor, order: Tensor | None = None, *, tail: float | None = None, scale: float = 1.0):
        length = row_lengths_of(source)
        length = torch.where(length > 0, length, 1.0)
        columns = () if tail is None else (torch.full_like(length, tail),)
        super().__init__(source, order=order, divisor=length.div_(GRID), tail=columns, dtype=torch.float64)
        self.scale = scale

    def load(self, start: int, stop: int) -> Tensor:
        """Return rows start to stop; valid until the next call."""
        rows = super().load(start, stop)
        rows[:, : self.source.shape[1]].round_().mul_(self.scale / GRID)
        return rows

    def make_whole(self, most_bytes: int) -> Rows:
        """Return the same rows made once and for all, if they take at most so many bytes in float64 or float32."""
        entries = len(self) * self.width
        kept = self.dtype if entries * self.dtype.itemsize <= most_bytes else torch.float32
        if entries * kept.itemsize > most_bytes:
            return self
        whole = torch.empty(len(self), self.width, dtype=kept, device=self.source.device)
        some = max(1, most_bytes // (64 * self.width))
        for start in range(0, len(self), some):
            stop = min(start + some, len(self))
            whole[start:stop] = self.load(start, stop)
        return Rows(whole, dtype=self.dtype)
