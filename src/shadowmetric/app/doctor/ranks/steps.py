"""The two steps by which a loss is judged: a fixed embedder and batch in float64, on one process or on each of several.

41 rows in classes of 1 to 13, shared unevenly; some rows are equal, within a class and across classes. Images and
weights are multiples of 1/16, so that embeddings are exact whatever the order of sums, and equal rows are equal to
the last bit on every machine: what differs is the loss's doing. The second step has other images and the same weights,
so that a memory has something in it. Four forms:

    whole      one process with all rows: what the others are compared with
    gathered   GatheredLoss under DistributedDataParallel
    cached     the same, embedded 3 images at a time
    apart      the control: each rank compares its own rows alone, and DistributedDataParallel takes the mean
"""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from shadowmetric.app.doctor.ranks.subject import CLASS_SIZES, CLASSES, ROWS, Subject
from shadowmetric.batches import GatheredLoss
from shadowmetric.batches.cached import run_cached_step
from shadowmetric.errors import Mistake
from shadowmetric.ops.ranks import ranks_here

NUMBERS, HIDDEN = 7, 9  # of an image, of the layer between
STEPS, MICRO_BATCH = 2, 3
GRID = 1 / 16
OFF_GRID = 1 / 512  # products are multiples of 1/256: so no sum is 0, where ReLU has its corner
UNEVEN = (3, 1, 2)  # parts that ranks take in turn
EQUAL_ROWS = ((5, 4), (11, 2), (20, 2), (38, 2))
COLLECTIVES = (
    *("all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "barrier"),
    *("broadcast", "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter"),
)


class Taken(NamedTuple):
    """What the steps gave on one process. counts: collectives of the last step. state: a digest, or nothing."""

    values: Tensor  # (steps,)
    gradient: Tensor  # (steps, weights)
    loss_gradient: Tensor  # (steps, weights of the loss)
    counts: dict[str, int]
    state: str


def shares(ranks: int) -> list[int]:
    """Return how many rows each rank has."""
    parts = [UNEVEN[rank % len(UNEVEN)] for rank in range(ranks)]
    stops = [ROWS * sum(parts[:count]) // sum(parts) for count in range(ranks + 1)]
    return [stop - start for start, stop in itertools.pairwise(stops)]


def batch(step: int, *, equal_rows: bool) -> tuple[Tensor, Tensor]:
    """Return images and labels of a step."""
    numbers = torch.Generator().manual_seed(10 + step)
    images = on_grid(torch.randn(ROWS, NUMBERS, dtype=torch.float64, generator=numbers))
    labels = torch.repeat_interleave(torch.arange(CLASSES), torch.tensor(CLASS_SIZES))
    labels = labels[torch.randperm(ROWS, generator=numbers)]
    for one, other in EQUAL_ROWS if equal_rows else ():
        images[one] = images[other]
    labels[5] = labels[4]
    return images, labels


def embedder_for(subject: Subject, moved: float = 0.0, seed: int = 0) -> nn.Module:
    """Return the embedder; moved: by which share its weights are off, up or down."""
    torch.manual_seed(1)
    embedder = nn.Sequential(nn.Linear(NUMBERS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, subject.dim)).double()
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in embedder.parameters():
            up = torch.randint(2, weight.shape, generator=numbers).double() * 2 - 1
            off = OFF_GRID if weight.ndim == 1 else 0.0
            weight.copy_((on_grid(weight) + off) * (1 + moved * up))
    return embedder


def on_grid(numbers: Tensor) -> Tensor:
    """Return the nearest multiples of 1/16."""
    return (numbers / GRID).round() * GRID


def take_steps(subject: Subject, form: str, *, equal_rows: bool, moved: float = 0.0, seed: int = 0) -> Taken | None:
    """Return what the steps give on this process; None if the control cannot be computed on some rank."""
    embedder, loss = embedder_for(subject, moved, seed), subject.build()
    rank, ranks = ranks_here()
    weights = list(embedder.parameters())
    if dist.is_available() and dist.is_initialized():
        embedder = DistributedDataParallel(embedder)
        embedder.register_comm_hook(None, allreduce_hook)  # what it does anyway, but where it can be counted
    before = sum(shares(ranks)[:rank])
    own = slice(before, before + shares(ranks)[rank])
    values, gradients, loss_gradients, counts = [], [], [], []
    for number in range(STEPS):
        images, labels = (part[own] for part in batch(number, equal_rows=equal_rows))
        embedder.zero_grad()
        loss.zero_grad()
        with count_collectives() as noted:
            value = take_step(subject, embedder, loss, images, labels, form)
            if value is None:
                return None
            loss_gradients.append(mean_gradient(loss))
        values.append(value)
        counts.append(noted)
        gradients.append(flat(weights))
    return Taken(torch.stack(values), torch.stack(gradients), torch.stack(loss_gradients), counts[-1], state_of(loss))


def take_step(
    subject: Subject, embedder: nn.Module, loss: nn.Module, images: Tensor, labels: Tensor, form: str
) -> Tensor | None:
    """Give the weights their gradient; return the value, or None if the control failed on some rank."""

    def value_of(embeddings: Tensor, labels: Tensor) -> Tensor:
        value = (GatheredLoss(loss) if form in ("gathered", "cached") else loss)(embeddings, labels)
        return check_value(value, subject)

    if form == "cached":
        return run_cached_step(embedder, images, labels, value_of, MICRO_BATCH).value
    embeddings = embedder(images)
    if form == "apart":
        value = value_on_all_ranks(value_of, embeddings, labels)
        if value is None:
            return None
    else:
        value = value_of(embeddings, labels)
    value.backward()
    return value.detach()


def value_on_all_ranks(value_of: Any, embeddings: Tensor, labels: Tensor) -> Tensor | None:
    """Return the value, or None on every rank if one of them has none: few rows may be too few for a loss."""
    try:
        value = value_of(embeddings, labels)
    except Exception:
        value = None
    without = torch.tensor([float(value is None)])
    if dist.group.WORLD is not None:
        dist.group.WORLD.allreduce([without]).wait()  # not counted: no training sends it
    return None if without.item() else value


def check_value(value: object, subject: Subject) -> Tensor:
    """Refuse what is no number with a gradient."""
    if not isinstance(value, Tensor) or value.ndim:
        what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise Mistake(f"--loss {subject.name} gave {what}; it must give a tensor of one number and no dimension.")
    if not value.requires_grad:
        raise Mistake(f"--loss {subject.name} gave a number without a gradient; compute it from the embeddings.")
    return value


def mean_gradient(loss: nn.Module) -> Tensor:
    """Return the gradient of the loss's own weights, averaged over ranks as `train` does."""
    gradient, ranks = flat(list(loss.parameters())), ranks_here().ranks
    if ranks > 1 and len(gradient):
        dist.all_reduce(gradient)
    return gradient / ranks


def flat(weights: list[nn.Parameter]) -> Tensor:
    """Return the gradients of all weights in one row; 0 where there is none."""
    parts = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    return torch.cat([part.flatten().double() for part in [torch.zeros(0), *parts]])


def state_of(loss: nn.Module) -> str:
    """Return a digest of what a loss remembers besides its weights; nothing if it has no memory."""
    weights = {name for name, _ in loss.named_parameters()}
    kept = {name: value for name, value in loss.state_dict().items() if name not in weights}
    if not kept:
        return ""
    digest = hashlib.sha256()
    for name, value in sorted(kept.items()):
        data = (
            value.detach().cpu().contiguous().numpy().tobytes() if isinstance(value, Tensor) else repr(value).encode()
        )
        digest.update(name.encode() + data)
    return digest.hexdigest()


@contextlib.contextmanager
def count_collectives() -> Iterator[dict[str, int]]:
    """Count the collectives that this process takes part in."""
    counts: dict[str, int] = {}
    real = {name: getattr(dist, name) for name in COLLECTIVES if hasattr(dist, name)}

    def noting(name: str, call: Any) -> Any:
        def noted(*args: Any, **named: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return call(*args, **named)

        return noted

    for name, call in real.items():
        setattr(dist, name, noting(name, call))
    try:
        yield counts
    finally:
        for name, call in real.items():
            setattr(dist, name, call)
