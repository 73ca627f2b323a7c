"""Weights averaged over the steps of a run: what is judged, kept and scored, while training goes on with its own.

    ema     average = d average + (1 - d) weights,  d = min(DECAY, (1 + step) / (10 + step))
    tail    the mean of the weights after each step of the second half; before that, the weights themselves

Memory: a copy of what is learned and of running statistics.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

AVERAGES = ("none", "ema", "tail")
DECAY = 0.99
TAIL = 0.5  # of the steps, after which the mean begins


class WeightAverage:
    """An average of a module's weights, which has a state as an optimizer has."""

    def __init__(self, module: nn.Module, kind: str, steps: int):
        self.module, self.kind, self.steps = module, kind, steps
        self.values = {name: value.detach().clone() for name, value in averaged(module).items()}

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        share = self.share_of_new(step)
        for name, value in averaged(self.module).items():
            self.values[name].lerp_(value.detach().to(self.values[name].dtype), share)

    def share_of_new(self, step: int) -> float:
        """Return what the weights of a step weigh in the average after it."""
        if self.kind == "ema":
            return 1 - min(DECAY, (1 + step) / (10 + step))
        first = round(TAIL * self.steps)
        return 1 / max(1, step - first)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the module have the averaged weights for a while."""
        own = {name: value.detach().clone() for name, value in averaged(self.module).items()}
        try:
            put(self.module, self.values)
            yield
        finally:
            put(self.module, own)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resume needs."""
        return dict(self.values)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for name, value in self.values.items():
            value.copy_(state[name])


def averaged(module: nn.Module) -> dict[str, Tensor]:
    """Return what can be averaged and changes: parameters that are trained, and buffers of numbers."""
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    return trained | {name: value for name, value in module.named_buffers() if value.is_floating_point()}


@torch.no_grad()
def put(module: nn.Module, values: dict[str, Tensor]) -> None:
    """Give a module these weights."""
    for name, value in averaged(module).items():
        value.copy_(values[name])
