"""A matrix product that rounds like no machine in particular: for proofs that results do not depend on rounding.

    with random_rounding(seed, ulps=2) as rounding:
        found = search(...)
    assert rounding.entries > 0  # else nothing was tried

Processors, libraries, block sizes and numbers of threads differ in the order in which a product adds, and so in its
last bits, even for equal rows of one product. Inside the block every entry of mm, addmm, bmm, baddbmm, mv, addmv and
dot (so of matmul, @, einsum and linear too; in place, and with out=) is moved at random by up to

    ulps x eps x sum |a| |b|        eps: of the product's type; sum |a| |b|: what rounding errors are in proportion to

by another amount in each call and at each place, the same ones for the same seed. Whatever comes out the same with
several seeds as without does not depend on the order of sums.

What no order can change stays: an entry of a float64 product is left alone if every sum of some of its terms is a
float64, that is if all terms are multiples of one power of 2 and sum |a| |b| is at most 2^53 times as much. Products
in float32 and in halves are always moved, but for zeros that have only zeros as terms: there are devices that round
even their factors.

numpy's products cannot be reached; `rounding.product(left, right)` is one for a test to put in the place of ours.

Memory and time: a few float64 tensors of the product's shape; 3 to 4 products, and dim passes over the entries where
the two sides are on finer grids than their product.
"""

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = ("mm", "bmm", "mv", "dot", "vdot")
SUMS = ("addmm", "baddbmm", "addmv")  # beta x first argument + alpha x product of the other two
NO_GRID = 2**20  # of zero: a multiple of every power of 2
DIGITS = 53  # of float64


class random_rounding(TorchDispatchMode):
    """Move the entries of products at random; see above. `calls`: products seen; `entries`: how many were moved."""

    def __init__(self, seed: int, ulps: float = 2.0):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.ulps = ulps
        self.calls = self.entries = 0
        self.exact = 0  # entries of float64 products that no order of sums can change

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run an operation; move what it returns if it is a product."""
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        if name not in PRODUCTS + SUMS:
            if getattr(func, "_can_decompose", bool)():  # in inference mode matmul comes whole; torch 2.4 can not say
                with self:
                    return func.decompose(*args, **kwargs)
            return func(*args, **kwargs)
        left, right = (side.double() for side in args[-2:])
        scale, grid = left.abs().matmul(right.abs()), None
        if args[-1].dtype == torch.float64:
            grid = product_grid(left, right, scale)
        if name in SUMS:  # read before it is written over
            alpha, beta = (torch.tensor(float(kwargs.get(part, 1))) for part in ("alpha", "beta"))
            other = args[0].double()
            if grid is not None:
                grid = torch.minimum(grid + grid_of(alpha), grid_of(other) + grid_of(beta))
            scale = scale * alpha.abs() + (other * beta).abs() if beta else scale * alpha.abs()
        result = func(*args, **kwargs)
        if result.is_floating_point():
            self.move(result, scale, grid)
        return result

    def move(self, result: Tensor, scale: Tensor, grid: Tensor | None) -> None:
        """Move the entries of a product in place."""
        noise = 2 * torch.rand(result.shape, dtype=torch.float64, generator=self.generator) - 1
        step = self.ulps * torch.finfo(result.dtype).eps * scale
        moved = (result.double() + noise.to(result.device) * step).to(result.dtype)
        kept = ~torch.isfinite(step)
        if grid is not None:
            exact = scale.log2() <= grid + DIGITS - 1e-9
            kept, self.exact = kept | exact, self.exact + int(exact.sum())
        moved = torch.where(kept, result, moved)
        self.calls += 1
        self.entries += int((moved != result).sum())
        result.copy_(moved)

    def product(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return left @ right with entries moved, for numpy."""
        with self:
            return torch.matmul(torch.tensor(left), torch.tensor(right)).numpy()


def grid_of(values: Tensor) -> Tensor:
    """Return for each entry the largest n such that it is a multiple of 2^n."""
    bits = values.double().view(torch.int64)
    exponent = (bits >> 52) & 0x7FF
    whole = (bits & (2**52 - 1)) | ((exponent > 0).long() << 52)
    lowest = (whole & -whole).double().log2().long()  # -inf of 0 becomes something that is not looked at
    return torch.where(whole == 0, NO_GRID, lowest + exponent.clamp_min(1) - 1075)


def product_grid(left: Tensor, right: Tensor, scale: Tensor) -> Tensor:
    """Return for each entry of left @ right an n such that each of its terms is a multiple of 2^n."""
    rows, columns = grid_of(left), grid_of(right)
    tall = right.ndim > 1
    grid = (rows.amin(-1)[..., None] if tall else rows.amin(-1)) + (
        columns.amin(-2)[..., None, :] if tall else columns.amin()
    )
    if bool((scale.log2() <= grid + DIGITS - 1e-9).all()):
        return grid
    grid = torch.full_like(grid, 2 * NO_GRID)  # the finest term of each entry, one column of terms after the other
    for place in range(left.shape[-1]):
        term = rows[..., place, None] + columns[..., place, None, :] if tall else rows[..., place] + columns[place]
        torch.minimum(grid, term, out=grid)
    return grid
