"""Losses as steps: built for a batch, and called with their weights as arguments."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Step = Callable[..., Tensor]  # step(embeddings, labels, *weights)


def split_weights(loss: nn.Module) -> tuple[Step, list[Tensor]]:
    """Return step(embeddings, labels, *weights) of a loss, and its weights."""
    names = [name for name, _ in loss.named_parameters()]

    def step(embeddings: Tensor, labels: Tensor, *weights: Tensor) -> Tensor:
        if not names:
            return loss(embeddings, labels)
        return torch.func.functional_call(loss, dict(zip(names, weights, strict=True)), (embeddings, labels))

    return step, [weight.detach() for weight in loss.parameters()]
