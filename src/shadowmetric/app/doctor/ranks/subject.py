"""A loss that `doctor` judges: one of the catalogue by its name, or a user's own as module:factory.

A factory is called without arguments, on every process, after the same seed; it gives an nn.Module that is called with
(embeddings, labels). What a user got wrong is one sentence.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from shadowmetric.batches import CrossBatchMemory
from shadowmetric.errors import Mistake
from shadowmetric.losses.catalogue import LOSSES, build_loss
from shadowmetric.losses.mined import MINERS

CLASS_SIZES = (13, 10, 8, 6, 3, 1)  # of the batch that a loss is judged by
ROWS, CLASSES = sum(CLASS_SIZES), len(CLASS_SIZES)


@dataclass(frozen=True)
class Subject:
    """A loss to judge: one of the catalogue, or a user's own as module:factory."""

    name: str
    margin: float = 0.2
    miner: str = "semi_hard"
    memory: int = 0
    dim: int = 8

    @property
    def is_own(self) -> bool:
        """Return whether it is the user's."""
        return ":" in self.name

    def build(self) -> nn.Module:
        """Return the loss in float64, the same on every process; a mistake if there is none."""
        torch.manual_seed(3)
        if not self.is_own:
            check_names(self)
        try:
            loss = import_loss(self.name) if self.is_own else self._of_catalogue()
            return (CrossBatchMemory(loss, self.memory) if self.memory else loss).double()
        except ValueError as error:
            raise Mistake(one_line(error)) from None

    def _of_catalogue(self) -> nn.Module:
        return build_loss(self.name, margin=self.margin, miner=self.miner, classes=CLASSES, dim=self.dim)


def check_names(subject: Subject) -> None:
    """Refuse names that the catalogue does not have."""
    if subject.name not in LOSSES:
        raise Mistake(
            f"--loss is {subject.name!r}; choose from {', '.join(LOSSES)}, or name your own as module:factory."
        )
    if subject.miner not in MINERS:
        raise Mistake(f"--miner is {subject.miner!r}; choose one of {', '.join(MINERS)}.")


def import_loss(name: str) -> nn.Module:
    """Import module:factory and call it, or say why not."""
    module, _, factory = name.partition(":")
    try:
        target: Any = importlib.import_module(module)
    except Exception as error:
        raise Mistake(
            f"--loss {name}: {module!r} could not be imported ({describe_error(error)}); run this in the folder that holds it."
        ) from None
    for part in factory.split("."):
        if not hasattr(target, part):
            raise Mistake(f"--loss {name}: {module} has no {factory!r}; name a function or a class there.")
        target = getattr(target, part)
    try:
        loss = target()
    except Exception as error:
        raise Mistake(
            f"--loss {name}: {factory}() failed ({describe_error(error)}); it must give the loss without arguments."
        ) from None
    if not isinstance(loss, nn.Module):
        raise Mistake(f"--loss {name}: {factory}() gave a {type(loss).__name__}; it must give an nn.Module.")
    return loss


def describe_error(error: BaseException) -> str:
    """Return an exception as one line."""
    return f"{type(error).__name__}: {one_line(error)}".removesuffix(": ")


def one_line(error: BaseException) -> str:
    """Return the first line of what an exception says."""
    return next(iter(str(error).strip().splitlines()), "")


@contextlib.contextmanager
def folder_on_path() -> Iterator[None]:
    """Let modules of the current folder be imported."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
