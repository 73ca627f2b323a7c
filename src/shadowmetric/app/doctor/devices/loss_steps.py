"""Losses as steps: built for a batch, called with their weights as arguments, and the batch itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.losses.catalogue import build_loss

Step = Callable[..., Tensor]  # step(embeddings, labels, *weights)
MARGIN = 0.2
MINED = ("shadow", "triplet", "soft_margin_triplet", "angular_triplet")


@dataclass(frozen=True)
class Case:
    """A loss and its miner, at a size. miner: "" of losses that have none."""

    loss: str
    miner: str
    batch: int
    dim: int = 128
    per_class: int = 4

    def build(self, *, slots: bool = False) -> nn.Module:
        """Return the loss. slots: it is told how many positives a row has."""
        torch.manual_seed(0)
        classes = -(-self.batch // self.per_class)
        loss = build_loss(self.loss, margin=MARGIN, miner=self.miner or "semi_hard", classes=classes, dim=self.dim)
        if slots:
            set_slots(loss, self.per_class - 1)
        return loss

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Return random rows, and labels of whole classes in mixed order."""
        generator = torch.Generator().manual_seed(0)
        labels = (torch.arange(self.batch) // self.per_class)[torch.randperm(self.batch, generator=generator)]
        return torch.randn(self.batch, self.dim, generator=generator), labels


def cases(losses: tuple[str, ...], miners: tuple[str, ...], batch: int, dim: int, per_class: int) -> list[Case]:
    """Return every loss, those of triplets with every miner."""
    return [
        Case(loss, miner, batch, dim, per_class) for loss in losses for miner in (miners if loss in MINED else ("",))
    ]


def takes_slots(loss: nn.Module) -> bool:
    """Return whether a loss can be told how many positives a row has, so that it need not ask the device."""
    return hasattr(loss, "slots")


def set_slots(loss: Any, slots: int) -> None:
    """Tell a loss that can be told how many positives a row has at most."""
    if takes_slots(loss):
        loss.slots = slots


def split_weights(loss: nn.Module) -> tuple[Step, list[Tensor]]:
    """Return step(embeddings, labels, *weights) of a loss, and its weights."""
    names = [name for name, _ in loss.named_parameters()]

    def step(embeddings: Tensor, labels: Tensor, *weights: Tensor) -> Tensor:
        if not names:
            return loss(embeddings, labels)
        return torch.func.functional_call(loss, dict(zip(names, weights, strict=True)), (embeddings, labels))

    return step, [weight.detach() for weight in loss.parameters()]
