"""The measured side of `costs.py`: gloo ranks on this machine, calibrated part by part, then run as a whole.

Processes are started once; the same ones form groups of 3, 2 and 1 ranks, one thread each. Parts and whole are timed
apart, so that a prediction is a sum of parts that never saw a whole step:

    alone        one rank: micro-batches embedded twice, as a cached step does; the loss of all rows and of a quarter of
                 them against all; the optimizer's step
    together     two ranks: the same micro-batches at once (cores slow one another), and an all-gather of few
                 rows and of many: latency and bandwidth

A whole step is what `train` does with micro-batches: cached_step under DistributedDataParallel with
GatheredLoss(ShadowLoss), and Adam. Of the repeats the fastest counts, since what else the machine does only adds to
it. What is computed is also timed in seconds of a core, which are the same on a busy machine, or nearly.

Traffic is found twice. Counted: what each call of torch.distributed must receive, from the shapes of its tensors.
Loopback: what the kernel says went through the loopback device, divided by ranks; other programs count there too.
"""

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.scale.costs import NUMBER, Machine, Network, Step, backward_flops, product_flops
from benchmarks.scale.rank_counters import cores_here, count_collectives, fastest, loopback_bytes, middle_peak
from shadowmetric.app.models import Embedder, build_embedder
from shadowmetric.batches import GatheredLoss
from shadowmetric.batches.budget import probe_embedder
from shadowmetric.batches.cached import run_cached_step
from shadowmetric.losses import ShadowLoss
from shadowmetric.ops.ranks import ranks_here, share

BACKBONE, PIXELS = "small_cnn", 28
WARM_UP = 2
FEW, MANY = 64, 2**20  # bytes of an all-gather: of latency alone, and of bandwidth
PIECES = 4  # micro-batches whose memory is measured: as in a step, they follow one another
LEAST = 10  # of a time that is said to grow with a size, at least one part in so many does: noise makes nothing free

Figures = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """What is run: a batch over ranks."""

    batch: int = 1024
    dim: int = 64
    micro_batch: int = 64
    per_class: int = 4
    repeats: int = 5
    ranks: tuple[int, ...] = (1, 2, 3)

    @property
    def some(self) -> int:
        """Return a quarter of the batch."""
        return -(-self.batch // 4)

    def step(self, ranks: int) -> Step:
        """Return the step of the model."""
        return Step(self.batch, self.dim, ranks, self.micro_batch, self.per_class)


def measure_ranks(what: Trial, say: Say = lambda sentence: None) -> dict[int, list[Figures]]:
    """Return what each rank of each group found: {ranks: [of rank 0, of rank 1, ...]}."""
    groups = sorted({*what.ranks, 1, 2}, reverse=True)  # ranks that are done end, and take no time from the others
    with tempfile.TemporaryDirectory() as folder:
        processes = spawn(_begin, (groups, folder, asdict(what)), nprocs=groups[0], join=False)
        assert processes is not None
        count = 0
        try:
            while not processes.join(timeout=0.2):
                notes = [ranks for ranks in groups if Path(folder, f"{ranks}.begun").exists()]
                for ranks in notes[count:]:
                    say(f"{ranks} rank(s)")
                count = len(notes)
        finally:
            for process in filter(None, processes.processes):
                process.terminate()
        return {ranks: [torch.load(Path(folder) / f"{ranks}-{rank}.pt") for rank in range(ranks)] for ranks in groups}


def _begin(rank: int, groups: list[int], folder: str, what: Figures) -> None:
    torch.set_num_threads(1)
    for ranks in groups:
        if rank >= ranks:
            return
        if rank == 0:
            Path(folder, f"{ranks}.begun").touch()
        dist.init_process_group("gloo", init_method=f"file://{folder}/{ranks}", rank=rank, world_size=ranks)
        torch.save(on_a_rank(Trial(**what)), Path(folder) / f"{ranks}-{rank}.pt")
        dist.barrier()
        dist.destroy_process_group()


def on_a_rank(what: Trial) -> Figures:
    """Return what this rank finds: parts on one and two ranks, and whole steps."""
    rank, ranks = ranks_here()
    embedder, images, labels = make_subject(what)
    figures: Figures = {}
    if ranks <= 2:
        figures["embedder"] = fastest(lambda: embed_twice(embedder, images, what.micro_batch), what.repeats).core
    if ranks == 2:
        for name, size in (("few", FEW), ("many", MANY)):
            figures[name] = fastest(gather_of(size), 4 * what.repeats).clock
    if ranks == 1:
        figures |= alone(embedder, images, labels, what)
    if ranks in what.ranks:
        own = share(what.batch, rank, ranks)
        own = slice(own.start, own.stop)
        figures |= whole_steps(embedder, images[own], labels[own], what)
    return figures


def make_subject(what: Trial) -> tuple[Embedder, Tensor, Tensor]:
    """Return an embedder, and a batch of random images."""
    embedder = build_embedder(BACKBONE, dim=what.dim, channels=1, size=PIXELS)
    embedder.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (what.batch, 1, PIXELS, PIXELS), dtype=torch.uint8, generator=random)
    return embedder.train(), images, torch.arange(what.batch) // what.per_class


def alone(embedder: Embedder, images: Tensor, labels: Tensor, what: Trial) -> Figures:
    """Return the parts of a step in one process, and what the model wants to know of the embedder."""
    with torch.no_grad():
        rows = torch.cat([embedder(part) for part in images.split(what.micro_batch)])
    figures: Figures = {
        name: fastest(lambda count=count: compare_share(rows, labels, count), 2 * what.repeats).core
        for name, count in (("loss", what.batch), ("loss_of_some", what.some))
    }
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        embedder(images[:2])
    probe = probe_embedder(embedder, images[: what.micro_batch], most=2**30)
    some = images[: PIECES * what.micro_batch]
    peak = middle_peak(lambda: embed_twice(embedder, some, what.micro_batch))
    optimizer = torch.optim.Adam(embedder.parameters())
    embedder(images[:2]).sum().backward()
    figures |= {"update": fastest(optimizer.step, what.repeats).core, "flops": counter.get_total_flops() / 2}
    embedder.zero_grad(set_to_none=True)
    some_bytes = probe.per_image * len(images[: what.micro_batch]) + NUMBER * what.dim * len(some)
    return figures | {
        "kept_bytes": probe.per_image,
        "step_bytes": probe.step if peak is None else peak - some_bytes,
        "weights": sum(parameter.numel() for parameter in embedder.parameters()),
        "pixel_bytes": images[0].numel(),
        "buffer_bytes": sum(buffer.numel() * buffer.element_size() for buffer in embedder.buffers()),
    }


def embed_twice(embedder: nn.Module, images: Tensor, micro_batch: int) -> None:
    """Do what a cached step does with the embedder: forward without a graph; forward and backward."""
    with torch.no_grad():
        rows = torch.cat([embedder(part) for part in images.split(micro_batch)])
    for part, gradient in zip(images.split(micro_batch), rows.split(micro_batch), strict=True):
        embedder(part).backward(gradient)
    embedder.zero_grad(set_to_none=True)


def compare_share(rows: Tensor, labels: Tensor, count: int) -> None:
    """Compare the first rows with all, as a rank does, forward and backward."""
    own, others = rows[:count].clone().requires_grad_(), rows.clone().requires_grad_()
    sums = ShadowLoss().sums(own, labels[:count], references=others, reference_labels=labels, anchors_at=0)
    sums.value().backward()


def gather_of(size: int) -> Callable[[], object]:
    """Return an all-gather of so many bytes from each rank."""
    rows = torch.zeros(size // 4)
    buffers = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    return lambda: dist.all_gather(buffers, rows)


def whole_steps(embedder: Embedder, images: Tensor, labels: Tensor, what: Trial) -> Figures:
    """Return seconds, bytes above idle and traffic of training steps."""
    ranks = ranks_here().ranks
    wrapped = DistributedDataParallel(embedder) if ranks > 1 else embedder
    optimizer = torch.optim.Adam(embedder.parameters())
    loss = GatheredLoss(ShadowLoss())

    def step() -> None:
        run_cached_step(wrapped, images, labels, loss, what.micro_batch)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(WARM_UP):
        step()
    dist.barrier()
    before = loopback_bytes()
    took = fastest(step, what.repeats, warm_up=0)
    dist.barrier()
    after = loopback_bytes()
    figures: Figures = {"seconds": took.clock, "core_seconds": took.core, "extra_bytes": middle_peak(step)}
    if before is not None and after is not None:
        figures["loopback_bytes"] = (after - before) / what.repeats / ranks
    dist.barrier()
    if isinstance(wrapped, DistributedDataParallel):
        wrapped.register_comm_hook(None, lambda _, bucket: _send_gradients(bucket))
    with count_collectives() as counts:
        step()
    return figures | {"received_bytes": counts["bytes"], "collectives": counts["calls"]}


def _send_gradients(bucket: Any) -> Any:
    """Send gradients as DistributedDataParallel does, by a call that can be counted."""
    done = dist.all_reduce(bucket.buffer(), async_op=True)
    assert done is not None
    return done.get_future().then(lambda future: future.value()[0] / dist.get_world_size())


def calibrate(measurements: dict[int, list[Figures]], what: Trial) -> tuple[Machine, Network]:
    """Return this machine and the embedder as the parts show them."""
    one, two = measurements[1][0], measurements[2]
    network = Network(
        f"{BACKBONE}, {PIXELS} pixels",
        one["flops"],
        float(one["kept_bytes"]),
        one["weights"],
        float(one["pixel_bytes"]),
        float(max(one["step_bytes"] - NUMBER * one["weights"], 0)),
        float(one["buffer_bytes"]),
    )
    half = what.step(2)
    flops = (product_flops(half) + backward_flops(half)) * what.batch / half.rows  # of all rows against all
    growth = (one["loss"] - one["loss_of_some"]) * what.batch / (what.batch - what.some)
    pairs = max(growth, one["loss"] / LEAST)
    together = statistics.mean(rank["embedder"] for rank in two) / one["embedder"]
    few, many = (statistics.mean(rank[name] for rank in two) for name in ("few", "many"))
    machine = Machine(
        "this machine",
        embedder=4 * one["flops"] * what.batch / one["embedder"],
        product=flops / pairs,
        link=MANY / max(many - few, many / LEAST),
        latency=few,
        cores=float(cores_here()),
        together=max(together, 1.0),
        call=max(one["loss"] - pairs, 0.0),
        update=one["update"],
        scatter=2,
    )
    return machine, network
