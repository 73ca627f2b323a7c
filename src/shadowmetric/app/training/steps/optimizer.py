"""The optimizer, with one rate for the backbone, one for the head and one for the centers of a loss that has them.

The backbone's may fall towards its first layers (`first_layer_rate`), which have the least to learn anew.

    rate(step) = peak * (step + 1) / warm-up steps                                   while warming up
               = peak * (1 + cos(pi * share of the remaining steps that is done)) / 2      afterwards

The rate is a function of the step, so that a resumed run needs no state of a scheduler.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn

from shadowmetric.app.models import Embedder, parameter_groups
from shadowmetric.app.training.runs.recipes import Recipe

LAYERS = 8  # groups of a backbone's layers that have a rate each
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": lambda groups, weight_decay: torch.optim.SGD(groups, momentum=0.9, weight_decay=weight_decay),
}


def build_optimizer(embedder: Embedder, loss: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Return the optimizer of everything that is learned."""
    rates = {"backbone": recipe.learning_rate, "head": recipe.head_learning_rate}
    first = {"backbone": recipe.first_layer_rate, "head": 1.0}
    groups: list[dict[str, Any]] = [
        {"params": parameters, "lr": rates[part] * share}
        for part, pairs in parameter_groups(embedder).items()
        for share, parameters in by_layer([one for _, one in pairs], first[part])
    ]
    own_groups = getattr(loss, "parameter_groups", None)
    if callable(own_groups):
        groups += cast("list[dict[str, Any]]", own_groups())
    for group in groups:
        group["peak"] = group["lr"]
    return OPTIMIZERS[recipe.optimizer](groups, weight_decay=recipe.weight_decay)


def by_layer(parameters: list[nn.Parameter], first: float) -> list[tuple[float, list[nn.Parameter]]]:
    """Return parameters in groups from the last layers to the first ones, each with its share of the rate.

    The shares rise from `first` to 1 evenly in their logarithm, in LAYERS steps of about as many tensors.
    """
    if not parameters or first == 1:
        return [(1.0, parameters)] if parameters else []
    layers = min(LAYERS, len(parameters))
    groups: list[list[nn.Parameter]] = [[] for _ in range(layers)]
    for place, parameter in enumerate(parameters):
        groups[place * layers // len(parameters)].append(parameter)
    shares = [first ** (1 - layer / max(1, layers - 1)) for layer in range(layers)]
    return list(zip(shares, groups, strict=True))[::-1]


def share_of_peak(step: int, steps: int, warmup: float) -> float:
    """Return what the rates of a step, counted from 0, are of their peaks."""
    rising = round(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    return (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising))) / 2


def set_rates(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set the rate of each group."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share
