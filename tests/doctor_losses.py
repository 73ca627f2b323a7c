"""Losses that a user might bring to `doctor`: right ones, and wrong ones that must be found out."""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shadowmetric.losses.sums import Sums
from shadowmetric.ops.ranks import ranks_here


class Spread(nn.Module):
    """Right: no sum over anchors, with weights of its own, one unused, and a dependence on the order of rows."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(()))
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        print("a loss may print")
        same = labels[:, None] == labels
        order = torch.arange(len(labels), dtype=embeddings.dtype)
        return ((self.scale * (embeddings @ embeddings.T) * same).tanh() * order).std()


class Root(nn.Module):
    """Right, but where rows are equal rounding is magnified."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        unit = nn.functional.normalize(embeddings)
        other = (labels[:, None] == labels) & ~torch.eye(len(labels), dtype=torch.bool)
        return (2 - 2 * unit @ unit.T)[other].clamp_min(1e-30).sqrt().mean()


class ManyRows(nn.Module):
    """Right, but refuses few rows: those of one rank alone."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if len(labels) < 20:
            raise ValueError("give 20 rows")
        return embeddings.pow(2).mean()


class MeanAsTotal(nn.Module):
    """Wrong: a mean is given as a total, so that the means of ranks are added up."""

    def sums(self, embeddings: Tensor, labels: Tensor, triplets: Any = None, **given: Any) -> Sums:
        return Sums((embeddings.pow(2).sum(1) * (1 + labels)).mean()[None], torch.zeros(1))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.sums(embeddings, labels).value()


class OfRank(nn.Module):
    """Wrong: the value is right, and the gradient of a rank is off by a millionth."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        value = embeddings.pow(2).mean()
        return value + 1e-6 * ranks_here().rank * (value - value.detach())


class OwnValue(nn.Module):
    """Wrong: the gradient is right, and the value of a rank its own."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return embeddings.pow(2).mean() + ranks_here().rank


class OwnWeight(nn.Module):
    """Wrong: only the gradient of its own weight differs."""

    def __init__(self):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return embeddings.pow(2).mean() + self.offset * (1 + ranks_here().rank)


class OwnMemory(nn.Module):
    """Wrong: what is remembered differs between ranks, though no gradient shows it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.seen = torch.tensor(float(ranks_here().rank))
        return embeddings.pow(2).mean()


class EachTime(nn.Module):
    """Wrong: it is another loss each time."""

    calls = 0

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        EachTime.calls += 1
        return embeddings.pow(2).mean() * EachTime.calls


class Dead(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return embeddings.sum() * 0


class NotANumber(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return (embeddings.sum() - embeddings.sum()).sqrt()


class Rows(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return embeddings.sum(1)


class Detached(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return embeddings.detach().sum()


class Wide(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return (embeddings * torch.ones(64)).sum()


def hangs() -> nn.Module:
    """One rank waits for another that never comes."""
    rank, ranks = ranks_here()
    if rank == 1:
        time.sleep(1000)
    if ranks > 1:
        dist.barrier()
    return Dead()


def number() -> int:
    return 3


def needs_more(dim: int) -> nn.Module:
    return nn.Linear(dim, 1)
