"""Losses on a batch as large as a training set, beside the peer that has them. `python -m benchmarks.losses.large`

One step of each loss, forward and backward, in this process: the time that the processor spent on it, and the most
bytes of tensors that were alive at once beyond embeddings, labels and centers. Both are taken in one run, under the
counter of `memory/live_bytes.py`, which costs some tens of microseconds for each operation of either contender, and on
one thread: several wait for one another, and where the machine is busy that is most of what they are charged. A peer
that would need more than 6 GB, or than is free, is a row with what it would take. What the file has is not run again.
"""

import argparse
import csv
import datetime
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.losses.peers import PREFIX, THEIRS, make_loss, peer_bytes
from benchmarks.losses.plan import MEMORY_SHARE, this_machine
from benchmarks.memory.live_bytes import count_live_bytes
from shadowmetric.app.training.runs.origin import cpu_name
from shadowmetric.losses.catalogue import CONTROLS, LOSSES

COLUMNS = (
    "contender",
    "batch",
    "dim",
    "per_class",
    "cpu_seconds",
    "peak_mb",
    "value",
    "reason",
    "torch",
    "cpu",
    "date",
)
WARM_UP_ROWS = 64
MOST_OF_A_PEER = 6e9  # bytes


def inputs(batch: int, dim: int, per_class: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random rows, as a leaf that wants its gradient, and the labels of whole classes."""
    rows = torch.randn(batch, dim, generator=torch.Generator().manual_seed(0))
    return rows.requires_grad_(), torch.arange(batch) // per_class


def measure(name: str, batch: int, dim: int, per_class: int) -> dict[str, Any]:
    """Return the figures of one step, or the reason why there are none."""
    embeddings, labels = inputs(batch, dim, per_class)
    classes, free = int(labels.max()) + 1, this_machine().available_bytes
    if name.startswith(PREFIX):
        needed = peer_bytes(name.removeprefix(PREFIX), batch, classes)
        if needed > MOST_OF_A_PEER or (free is not None and needed > MEMORY_SHARE * free):
            return {"reason": f"cannot: needs about {needed / 1e9:,.0f} GB"}
    tiny, few = inputs(WARM_UP_ROWS, dim, 4)
    warm = make_loss(name, WARM_UP_ROWS // 4, dim)
    count_live_bytes(lambda: warm(tiny, few), [tiny, few, *warm.parameters()])
    loss, found = make_loss(name, classes, dim), []

    def step() -> torch.Tensor:
        found.append(loss(embeddings, labels))
        return found[0]

    start = time.process_time()
    try:
        count = count_live_bytes(step, [embeddings, labels, *loss.parameters()])
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        return {"reason": "cannot: " + str(error).split(". ")[0].rpartition("you tried")[2].strip()}
    seconds = time.process_time() - start
    return {"cpu_seconds": round(seconds, 2), "peak_mb": round(count.peak / 1e6, 1), "value": found[0].item()}


def main() -> None:
    """Measure what the command line names, and write a row for each as it finishes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--batch", type=int, default=5864)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--per-class", type=int, default=58)
    parser.add_argument(
        "--contender",
        nargs="+",
        default=[name for name in (*LOSSES, *(PREFIX + name for name in THEIRS)) if name not in CONTROLS],
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    sizes = {"batch": given.batch, "dim": given.dim, "per_class": given.per_class}
    done = set()
    if given.out.exists():
        with given.out.open(encoding="utf-8") as file:
            done = {tuple(row[column] for column in COLUMNS[:4]) for row in csv.DictReader(file)}
    with given.out.open("a", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        for name in given.contender:
            if (name, *(str(size) for size in sizes.values())) in done:
                continue
            date = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            where = {"torch": torch.__version__, "cpu": cpu_name(), "date": date}
            row: dict[str, Any] = {"contender": name} | sizes | measure(name, **sizes) | where
            writer.writerow(row)
            file.flush()
            print({column: row.get(column, "") for column in COLUMNS[:8]})


if __name__ == "__main__":
    main()
