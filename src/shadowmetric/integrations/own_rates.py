"""What a loss learns (centers, proxies) has a rate of its own, wherever an optimizer is made for it."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn


def parameter_groups(loss: nn.Module) -> list[dict[str, Any]]:
    """Return the groups of a loss's own parameters; of losses within losses the outermost speaks for the rest."""
    if hasattr(loss, "parameter_groups"):
        return loss.parameter_groups()  # pyright: ignore
    return [group for part in loss.children() for group in parameter_groups(part)]


def all_but(groups: list[dict[str, Any]], parameters: Iterable[Tensor]) -> list[Tensor]:
    """Return the parameters that are in none of the groups."""
    taken = {id(parameter) for group in groups for parameter in group["params"]}
    return [parameter for parameter in parameters if id(parameter) not in taken]
