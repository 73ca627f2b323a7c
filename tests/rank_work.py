"""What each rank does in test_gathered_loss.py; a module of its own, so that spawned processes can import it."""

import contextlib
from functools import cache
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from every_loss import CLASSES, LOSSES, of_distances
from torch import Tensor, nn
from torch.distributed import fsdp
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import shadowmetric as sm
from shadowmetric.app.training.steps.watch import look, some_of
from shadowmetric.batches.cached import run_cached_step
from shadowmetric.ops.ranks import broadcast_tensors, ranks_here, share

fully_shard: Any = getattr(fsdp, "fully_shard", None)  # before torch 2.6 it was elsewhere and wanted a GPU

IMAGES, DIM = 23, 5
SHARES = {1: [23], 2: [15, 8], 3: [4, 12, 7]}  # uneven on purpose
INSIDE = ("shadow/semi_hard", "multi_similarity", "foreign")  # losses tried inside of what is wrapped
COLLECTIVES = ("all_gather", "all_gather_into_tensor", "all_reduce", "reduce_scatter")


def embedder_of() -> nn.Module:
    """Numbers of few binary digits have exact products: equal images stay equal rows, however they are batched."""
    torch.manual_seed(1)
    embedder = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, DIM)).double()
    for parameter in embedder.parameters():
        parameter.data = (64 * parameter.data).round() / 64
    return embedder


def make_images(name: str = "") -> tuple[Tensor, Any]:
    torch.manual_seed(2)
    images = (16 * torch.randn(IMAGES, 7, dtype=torch.float64)).round() / 16
    if not of_distances(name):
        images[5], images[11], images[20] = images[4], images[2], images[2]  # equal rows, in one class and in two
    labels = torch.arange(IMAGES) * 5 % CLASSES
    labels[5] = labels[4]
    if name.startswith("relation"):
        return images, sm.LabelSets(torch.stack([labels % 2 == 0, labels % 3 == 0, labels > 3], 1), graded=True)
    return images, labels


class Foreign(nn.Module):
    """A loss that is no sum over anchors, with a parameter."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        same = labels[:, None] == labels
        return (self.scale * (embeddings @ embeddings.T) * same).tanh().std()


EVERY = LOSSES | {
    "foreign": lambda dim: Foreign(),
    "memory/shadow": lambda dim: sm.CrossBatchMemory(sm.ShadowLoss(miner="hard"), 30),
    "relation/triplet": lambda dim: sm.TripletLoss(0.6, miner="hard"),
    "relation/multi_similarity": lambda dim: sm.MultiSimilarityLoss(),
    "memory/multi_similarity": lambda dim: sm.CrossBatchMemory(sm.MultiSimilarityLoss(), 30),
}


def loss_of(name: str) -> nn.Module:
    torch.manual_seed(3)
    return EVERY[name](DIM).double()


def own_share() -> slice:
    rank, ranks = ranks_here()
    first = sum(SHARES[ranks][:rank])
    return slice(first, first + SHARES[ranks][rank])


@contextlib.contextmanager
def counted():
    """Count the collectives that this process takes part in, besides those of DistributedDataParallel."""
    counts = dict.fromkeys(COLLECTIVES, 0)

    def noting(name: str, call: Any) -> Any:
        def noted(*given: Any, **named: Any) -> Any:
            found = call(*given, **named)
            counts[name] += 1
            return found

        return noted

    with contextlib.ExitStack() as stack:
        for name in COLLECTIVES:
            stack.enter_context(mock.patch.object(dist, name, noting(name, getattr(dist, name))))
        yield counts


def averaged(loss: nn.Module) -> list[Tensor]:
    """Return the mean gradient of a loss's own parameters, as a training loop makes it."""
    found = []
    for parameter in loss.parameters():
        dist.all_reduce(parameter.grad)
        found.append(parameter.grad / dist.get_world_size())
    return found


def step(name: str, micro_batch: int | None) -> dict[str, Any]:
    """Take two steps (a memory is empty in the first) and return value, gradients and counts of the second."""
    images, labels = make_images(name)
    embedder = DistributedDataParallel(embedder_of())
    buckets = []
    embedder.register_comm_hook(None, lambda _, bucket: noted_mean(buckets, bucket))
    inner = loss_of(name)
    loss, own = sm.GatheredLoss(inner), own_share()
    found = {}
    for _ in range(2):
        embedder.zero_grad()
        inner.zero_grad()
        buckets.clear()
        with counted() as counts:
            if micro_batch is None:
                value = loss(embedder(images[own]), labels[own])
                value.backward()
            else:
                value = run_cached_step(embedder, images[own], labels[own], loss, micro_batch).value
        gradient = [parameter.grad.clone() for parameter in embedder.parameters()]
        found = {"value": value.detach(), "gradient": gradient, "counts": dict(counts), "buckets": len(buckets)}
        found["loss_gradient"] = averaged(inner)
    if isinstance(inner, sm.CrossBatchMemory):
        found["memory"] = inner.state_dict()
    return found


class Whole(nn.Module):
    """An embedder and its loss as one module, as trainers wrap them; the batch is embedded in micro-batches."""

    def __init__(self, name: str):
        super().__init__()
        self.embedder, self.loss = embedder_of(), sm.GatheredLoss(loss_of(name))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return self.loss(sm.cached_rows(self.embedder, images, 3), labels)


def inside(name: str) -> dict[str, Any]:
    """Return value and gradients where DistributedDataParallel wraps what calls cached_rows."""
    images, labels = make_images(name)
    whole, own = DistributedDataParallel(Whole(name)), own_share()
    value = whole(images[own], labels[own])
    value.backward()
    gradient = [parameter.grad.clone() for parameter in whole.module.embedder.parameters()]
    return {"value": value.detach(), "gradient": gradient}


def towers() -> dict[str, Any]:
    """Return value and gradients of two towers; the second has its images in another order, and some twice."""
    torch.manual_seed(5)
    images, labels = make_images()
    order = torch.randperm(IMAGES)
    first, second = embedder_of(), nn.Linear(7, DIM).double()
    loss = sm.TwoTowerLoss(sm.ShadowLoss(miner="hard"))
    if dist.is_initialized():
        first, second = DistributedDataParallel(first), DistributedDataParallel(second)
        own = own_share()
        images, labels, order = images[own], labels[own], order[own]
    everything, all_labels = make_images()
    value = loss(first(images), second(everything[order]), labels, all_labels[order])
    value.backward()
    gradient = [parameter.grad.clone() for tower in (first, second) for parameter in tower.parameters()]
    return {"value": value.detach(), "gradient": gradient}


def sharded() -> dict[str, Any]:
    """Return the gradient of weights that FSDP shards, cached, and what cached_rows says of them; shares are even.

    FSDP gathers weights in every forward pass, so ranks must have as many micro-batches.
    """
    images, labels = make_images()
    half = IMAGES // 2
    own = slice(half * ranks_here().rank, half * (ranks_here().rank + 1))
    embedder = fully_shard(embedder_of(), mesh=init_device_mesh("cpu", (2,)))
    loss = sm.GatheredLoss(loss_of("shadow/semi_hard"))
    try:
        loss(sm.cached_rows(embedder, images[own], 4), labels[own]).backward()
        said = "nothing"
    except RuntimeError as error:
        said = str(error)
    embedder.zero_grad()
    sm.cached_backward(embedder, images[own], labels[own], loss, micro_batch=4)
    return {"said": said, "gradient": [parameter.grad.full_tensor() for parameter in embedder.parameters()]}


def noted_mean(buckets: list[int], bucket: Any) -> Any:
    buckets.append(bucket.index())
    done = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return done.then(lambda future: future.value()[0] / dist.get_world_size())


def every_step() -> dict[str, dict[str, Any]]:
    """Return what each loss gives, plain and cached."""
    found = {name: step(name, None) for name in EVERY}
    return found | {f"{name}, cached": step(name, 3) for name in EVERY}


@cache
def one_process(name: str) -> dict[str, Any]:
    """Return what one process gives with the whole batch."""
    images, labels = make_images(name)
    embedder, loss = embedder_of(), loss_of(name)
    value = torch.zeros(())
    for _ in range(2):
        embedder.zero_grad()
        loss.zero_grad()
        value = loss(embedder(images), labels)
        value.backward()
    found = {"value": value.detach(), "gradient": [parameter.grad for parameter in embedder.parameters()]}
    found["loss_gradient"] = [parameter.grad for parameter in loss.parameters()]
    if isinstance(loss, sm.CrossBatchMemory):
        found["memory"] = loss.state_dict()
    return found


def work_of_anchors() -> list[int]:
    """Return how many anchors each rank mined, and against how many rows."""
    images, labels = make_images()
    seen = []

    class Noting(sm.HardMiner):
        def mine_in_matrix(self, search):
            seen.append((len(search.batch.embeddings), len(search.batch.others)))
            return super().mine_in_matrix(search)

    own = own_share()
    sm.GatheredLoss(sm.ShadowLoss(miner=Noting()))(images[own], labels[own])
    return seen


def empty_rank() -> str:
    """Return what a rank without rows is told, and the others too."""
    rank, _ = ranks_here()
    images, labels = make_images()
    own = slice(0, 0) if rank == 1 else slice(0, 10)
    try:
        sm.GatheredLoss(sm.ShadowLoss())(images[own], labels[own])
    except ValueError as error:
        return str(error)
    return "nothing"


def shares() -> list[int]:
    rank, ranks = ranks_here()
    return list(share(10, rank, ranks))


def from_first() -> list[float]:
    """Return what tensors hold after the first rank's were sent: a buffer in place, and a parameter."""
    tensors = [torch.full((2,), float(ranks_here().rank)), nn.Parameter(torch.tensor([ranks_here().rank + 0.5]))]
    broadcast_tensors(tensors)
    return [tensor.sum().item() for tensor in tensors]


def looked_at() -> list[tuple[list[int], float]]:
    """Return the labels that a look sees of a large batch in class order, and their mean cosine."""
    labels = torch.arange(3000) // 300
    rows = nn.functional.one_hot(labels, 10).float()
    own = share(len(labels), *ranks_here())
    found = some_of(rows[own.start : own.stop], labels[own.start : own.stop])
    return [(found[1].unique().tolist(), look(*found, sm.ShadowLoss()).mean_cosine)]


def all_work() -> dict[str, Any]:
    """Return everything that a rank is tried with, in one process."""
    found = {"steps": every_step(), "anchors": work_of_anchors(), "shares": shares()}
    found |= {"from_first": from_first(), "looked_at": looked_at(), "towers": towers()}
    found["inside"] = {name: inside(name) for name in INSIDE}
    found["sharded"] = sharded() if fully_shard and ranks_here().ranks == 2 else None
    return found | {"empty": empty_rank() if ranks_here().ranks > 1 else ""}
