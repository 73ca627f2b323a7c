"""The one sentence for those who differentiate a gradient."""

import torch


def refuse_second_derivative() -> None:
    """Raise if a backward pass is itself being recorded (create_graph=True)."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "shadowmetric's losses have no second derivative: they keep row numbers instead of rows, "
            "so call backward() or autograd.grad() without create_graph=True."
        )
