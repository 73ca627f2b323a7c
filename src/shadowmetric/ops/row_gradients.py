"""From gradients of unit rows to those of the rows as they were given.

    u = x / |x|:   grad_x = (grad_u - (grad_u . u) u) / |x|          zero for a zero row, which has no direction

Who knows grad_u . u, since it is a sum of slopes times cosines, passes it to `add_along`. Without lengths the rows are
as they were given, and `along` is a factor of the row itself.
"""

import torch
from torch import Tensor


def inverse_lengths(length: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 / length, and 0 for zero rows; clamped to what the type holds."""
    inverse = length.reciprocal().nan_to_num_(posinf=0.0)
    return inverse.clamp_max_(torch.finfo(dtype).max).to(dtype)


def add_along(grad: Tensor, rows: Tensor, along: Tensor, length: Tensor | None) -> Tensor:
    """Return (grad + along * u) / |x| for unit rows u of rows x, or without lengths grad + along * x; in place."""
    if length is None:
        return grad.addcmul_(along[:, None], rows.to(grad.dtype))
    inverse = inverse_lengths(length, grad.dtype)
    return grad.addcmul_((along * inverse)[:, None], rows.to(grad.dtype)).mul_(inverse[:, None])


def of_given_rows(grad: Tensor, rows: Tensor, grad_square: Tensor | None, inverse: Tensor | None) -> Tensor:
    """Return the gradient of rows as given, from that of the rows as they are compared; in place.

    Of unit rows (there are inverse lengths) what lies along a row does not count; of rows as they are, |row|^2 has one.
    """
    if inverse is not None:
        along = (grad * rows).sum(1, keepdim=True)
        return grad.addcmul_(along, rows, value=-1).mul_(inverse[:, None])
    return grad if grad_square is None else grad.addcmul_(grad_square.to(grad.dtype)[:, None], rows, value=2)
