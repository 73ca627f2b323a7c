"""The paper's memory table: what a training step holds, and how much of it is the loss's.

    python -m paper memory

The paper (tab. memory; batch 32, D = 64, Inception, Adam): peak VRAM of 8.62 to 8.94 GB with Shadow, 10.31 to 10.72
with Triplet; at D = 128 9.17 against 12.41. The reason it gives is the loss's buffer, O(S·D) before, O(S) with Shadow.
Here GoogLeNet, 224 pixels, batch 32, 5 of a class, the six losses. Memory does not depend on values, so weights and
images are random. Only the number of triplets would: hard mining makes one of each pair (anchor, positive), 122,
whatever the rows are.

    embedder_kept   bytes autograd keeps of the embedder alone, distinct storages, weights and images left out
    loss_kept       bytes a loss keeps beyond the embeddings: ours, and the two forms that gather rows
                      shadow_rows    Algorithm 1 as printed, on three gathered (triplets, D) tensors
                      triplet_rows   the squared Triplet loss on the same three tensors
    step_peak       how far memory rises in one step (images, embedding, loss, backward, Adam), in a process of its
                    own, after a step of four images: weights and Adam's moments are there by then

Found (--scale small, paper/records/small/memory.json, a CPU; every loss, two processes each):

    step_peak       1,569.4 to 1,571.0 MB at D = 64, 1,569.6 to 1,570.9 MB at D = 128: Shadow and Triplet differ by no
                    more than two runs of one of them do, and the gathered forms are among them. SoftTriple is highest
    embedder_kept   1,541.4 MB: what a step holds is the embedder's
    loss_kept       at D = 64 12,340 bytes of Shadow and 11,356 of Triplet, the same at D = 8 and at D = 4,096. Gathered
                    100,040 and 65,880, linear in D: O(S·D) as printed, and more for Shadow (three tensors) than for
                    Triplet (two differences)

So O(S) is true of ours and not of the algorithm as printed, it is as true of Triplet, and at this size it is 0.006 % of
a step. The paper's difference would take two million gathered triplets; its batch has 3,300. SoftTriple's centers, with
gradient and moments, are 1 MB at D = 64, where the paper has 0.6 GB above Triplet.

Cost: one process takes about 20 seconds, most of it imports and one step, and 1.6 GB. Small is 32 of them, two at a
time: 22 minutes here, on two cores with a load of 6. Nothing is reduced but the repeats: 2, and 5 at --scale paper.
Smoke: four processes, 16 pixels.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from paper.studies.memory_tables import NAMES
from paper.studies.memory_tables import tables as tables
from shadowmetric.app.compare.cells import cores
from shadowmetric.app.models import build_embedder
from shadowmetric.app.training.interrupt import end_with_parent
from shadowmetric.batches.budget import kept_bytes
from shadowmetric.batches.meter import give_back_at_once, peak_extra_bytes
from shadowmetric.losses.catalogue import PAPER_LOSSES, build_loss
from shadowmetric.losses.shadow import shadow_loss_rows
from shadowmetric.mining import HardMiner
from shadowmetric.progress import Report, silent

CLASSES = 98  # of SoftTriple's centers: those of CARS196's training half
MARGIN = 0.2
EVERY_DIM = (8, 64, 128, 512, 4096)
GATHERED = tuple(NAMES)


@dataclass(frozen=True)
class Scale:
    """What is measured, and how often."""

    backbone: str
    size: int
    batch: int
    per_class: int
    dims: tuple[int, ...]
    losses: tuple[str, ...]  # whose steps are measured
    repeats: int


SCALES = {
    "smoke": Scale("small_cnn", 16, 32, 5, (8, 16), ("shadow",), 1),
    "small": Scale("googlenet", 224, 32, 5, (64, 128), (*PAPER_LOSSES, *GATHERED), 2),
    "paper": Scale("googlenet", 224, 32, 5, (64, 128), (*PAPER_LOSSES, *GATHERED), 5),
}


class Gathered(nn.Module):
    """A loss that gathers the rows of its triplets, as it is usually written."""

    def __init__(self, of_rows: Callable[[Tensor, Tensor, Tensor], Tensor]):
        super().__init__()
        self.of_rows = of_rows

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of the mined triplets."""
        anchor, positive, negative = HardMiner()(embeddings.detach(), labels)
        return self.of_rows(embeddings[anchor], embeddings[positive], embeddings[negative])


class OfRows(nn.Module):
    """A loss as a function of the embeddings alone."""

    def __init__(self, loss: nn.Module, labels: Tensor):
        super().__init__()
        self.loss = loss
        self.register_buffer("labels", labels)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the loss."""
        return self.loss(embeddings, self.labels)


def triplet_loss_rows(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Return the squared Triplet loss of three (triplets, dim) tensors."""
    closer, farther = ((anchor - other).square().sum(1) for other in (positive, negative))
    return torch.relu(closer - farther + MARGIN).mean()


def loss_of(name: str, dim: int) -> nn.Module:
    """Return a loss by its name: ours, or one that gathers."""
    if name in GATHERED:
        return Gathered(shadow_loss_rows if name == "shadow_rows" else triplet_loss_rows)
    return build_loss(name, margin=MARGIN, miner="hard", classes=CLASSES, dim=dim)


def measure(scale: str, tell: Report | None = None) -> dict[str, Any]:
    """Count what is kept, then measure the steps; return all of it as plain JSON."""
    workload, device = SCALES[scale], find_device()
    say: Report = tell or silent
    steps: dict[tuple[str, int], list[int | None]] = {}
    with fresh_processes() as pool:
        say(f"{workload.backbone} alone", 0.0)
        embedder = list(pool.map(embedder_figures, [workload] * len(workload.dims), workload.dims))
        for loss, dim, peak in step_peaks(workload, pool, say):
            steps.setdefault((loss, dim), []).append(peak)
    return {
        "study": "memory",
        "scale": scale,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "setting": asdict(workload) | {"dims": list(workload.dims), "losses": list(workload.losses)},
        "embedder": embedder,
        "step_peak": [{"loss": loss, "dim": dim, "bytes": peaks} for (loss, dim), peaks in steps.items()],
    } | loss_figures(workload)


def loss_figures(scale: Scale) -> dict[str, Any]:
    """Return how many triplets a batch has, mined and in all, and what each loss keeps of it at each dimension."""
    labels = labels_of(scale.batch, scale.per_class)
    same = labels[:, None] == labels
    dims = sorted({*EVERY_DIM, *scale.dims})
    return {
        "triplets": len(HardMiner()(random_rows(scale.batch, 8), labels).anchor),
        "every_triplet": int(((same.sum(1) - 1) * (~same).sum(1)).sum()),
        "loss_kept": [count_kept(name, dim, labels) for name in (*PAPER_LOSSES, *GATHERED) for dim in dims],
    }


def fresh_processes() -> ProcessPoolExecutor:
    """Return a pool that starts a process for each task: one on each core at a time, or one at a time on a GPU."""
    workers = 1 if find_device().type == "cuda" else cores()
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, initializer=end_with_parent, max_tasks_per_child=1)


def embedder_figures(scale: Scale, dim: int) -> dict[str, int]:
    """Return the bytes of the embedder's weights, and what autograd keeps of it."""
    embedder = build_embedder(scale.backbone, dim=dim, size=scale.size).train()
    weights = sum(parameter.numel() * parameter.element_size() for parameter in embedder.parameters())
    kept = sum(kept_bytes(embedder, make_images(scale.batch, scale.size)))
    return {"dim": dim, "weights_bytes": weights, "kept_bytes": kept}


def count_kept(name: str, dim: int, labels: Tensor) -> dict[str, Any]:
    """Return what a loss keeps of unit rows and their labels, besides them and its own parameters."""
    loss = OfRows(loss_of(name, dim), labels)
    return {"loss": name, "dim": dim, "bytes": sum(kept_bytes(loss, random_rows(len(labels), dim).requires_grad_()))}


def step_peaks(scale: Scale, pool: ProcessPoolExecutor, say: Report) -> Iterator[tuple[str, int, int | None]]:
    """Yield the loss, the dimension and the peak of each step."""
    steps = [(loss, dim) for _ in range(scale.repeats) for dim in scale.dims for loss in scale.losses]
    peaks = pool.map(step_peak, [scale] * len(steps), *zip(*steps, strict=True))
    for done, ((loss, dim), peak) in enumerate(zip(steps, peaks, strict=True)):
        say(f"{loss}, D = {dim}", (done + 1) / len(steps))
        yield loss, dim, peak


def step_peak(scale: Scale, name: str, dim: int) -> int | None:
    """Return by how many bytes memory rises in a step. The process that calls it should do nothing else."""
    torch.set_num_threads(1)
    give_back_at_once()  # else what C's allocator keeps back adds 50 to 110 MB, another figure in each process
    device = find_device()
    embedder = build_embedder(scale.backbone, dim=dim, size=scale.size).to(device).train()
    loss = loss_of(name, dim).to(device)
    optimizer = torch.optim.Adam([*embedder.parameters(), *loss.parameters()])

    def take(batch: int, per_class: int) -> None:
        images, labels = make_images(batch, scale.size).to(device), labels_of(batch, per_class).to(device)
        loss(embedder(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    take(4, 2)
    return peak_extra_bytes(lambda: take(scale.batch, scale.per_class), device)


def make_images(batch: int, size: int) -> Tensor:
    """Return random images."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8, generator=generator)


def random_rows(rows: int, dim: int) -> Tensor:
    """Return random unit rows."""
    return nn.functional.normalize(torch.randn(rows, dim, generator=torch.Generator().manual_seed(0)))


def labels_of(batch: int, per_class: int) -> Tensor:
    """Return the labels of a batch: so many of a class, and what is left of a last one."""
    return torch.arange(batch) // per_class


def find_device() -> torch.device:
    """Return the GPU, if there is one whose memory can be told."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
