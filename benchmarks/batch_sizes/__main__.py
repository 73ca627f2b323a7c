"""Which losses gain from a batch of 64, 512, all rows: `python -m benchmarks.batch_sizes OUT.csv --features FILE`.

A linear head to unit rows, trained on pooled features (`features.py`) with AdamW at two learning rates, each batch for
more steps than it needs: of rates and of twenty looks the one with the best MAP@R on held-out classes is tested. Each
batch thus does its best, at very different work: 200 steps of 64 rows read 12,800, 20 steps of 5,000 read 100,000. One
row of the CSV for each training, written as it ends; what is there already is not trained again. One thread.
"""

import argparse
import copy
import csv
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import shadowmetric as sm
from shadowmetric.losses.catalogue import build_loss

COLUMNS = ("data", "loss", "batch", "seed", "rate", "most_per_class", "steps", "best_step", "held_map", "recall_at_1")
COLUMNS = (*COLUMNS, "map_at_r", "rows", "cpu_seconds")
LOSSES = ("shadow", "multi_similarity", "sup_con", "info_nce", "circle", "fast_ap", "histogram", "global")
LOSSES = (*LOSSES, "smooth_ap", "recall_at_k", "group", "normalized_softmax")
STEPS = {64: 200, 512: 40, 0: 20}  # by batch; 0: all rows
RATES, SEEDS = (1e-3, 3e-3), 5
PER_CLASS, DIM, LOOKS = 4, 64, 20
CENTER_RATE = 1e-2
FLOOR = "features"  # as they are, without a head


class Features(NamedTuple):
    """Standardized rows and labels of the three parts."""

    train: Tensor
    train_labels: Tensor
    held: Tensor
    held_labels: Tensor
    test: Tensor
    test_labels: Tensor


def load(file: Path, most_per_class: int) -> Features:
    """Return the features, at most so many training rows of each class; 0 for all."""
    with np.load(file) as arrays:
        parts = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    rows, labels = parts["train_features"].float(), parts["train_labels"]
    kept = parts["kept"]
    if most_per_class:
        kept = torch.cat([kept[labels[kept] == label][:most_per_class] for label in labels[kept].unique()])
    mean, deviation = rows[kept].mean(0), rows[kept].std(0).clamp_min(1e-6)
    rows, test = (rows - mean) / deviation, (parts["test_features"].float() - mean) / deviation
    classes = torch.unique(labels[kept], return_inverse=True)[1]
    return Features(rows[kept], classes, rows[parts["held"]], labels[parts["held"]], test, parts["test_labels"])


def draw(labels: Tensor, batch: int, generator: torch.Generator) -> Tensor:
    """Return the row numbers of a batch: as many rows of each of some classes; all rows in a new order for 0."""
    if batch == 0:
        return torch.randperm(len(labels), generator=generator)
    classes = torch.unique(labels)
    few = min(len(classes), batch // PER_CLASS)
    drawn = classes[torch.randperm(len(classes), generator=generator)[:few]]
    rows = [(labels == label).nonzero()[:, 0] for label in drawn]
    rows = [own[torch.randperm(len(own), generator=generator)[: -(-batch // few)]] for own in rows]
    return torch.cat(rows)[:batch]


def map_at_r(rows: Tensor, labels: Tensor) -> float:
    """Return the mean average precision at R."""
    return sm.evaluate(rows, labels, measures=["map_at_r"], progress=False).map_at_r


def train(features: Features, name: str, batch: int, seed: int, rate: float) -> dict[str, Any]:
    """Return the scores of one training, at its best step."""
    start = time.process_time()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    head = nn.Linear(features.train.shape[1], DIM)
    classes = int(features.train_labels.max()) + 1
    loss = build_loss(name, margin=0.2, miner="semi_hard", classes=classes, dim=DIM)
    groups = [{"params": list(head.parameters()), "lr": rate}]
    if any(True for _ in loss.parameters()):
        groups.append({"params": list(loss.parameters()), "lr": CENTER_RATE})
    optimizer = torch.optim.AdamW(groups, weight_decay=1e-4)
    steps = STEPS[batch]
    best, best_step, state = -1.0, 0, copy.deepcopy(head.state_dict())
    for step in range(1, steps + 1):
        rows = draw(features.train_labels, batch, generator)
        optimizer.zero_grad()
        loss(head(features.train[rows]), features.train_labels[rows]).backward()
        optimizer.step()
        if step % (steps // LOOKS) == 0:
            with torch.no_grad():
                held = map_at_r(head(features.held), features.held_labels)
            if held > best:
                best, best_step, state = held, step, copy.deepcopy(head.state_dict())
    head.load_state_dict(state)
    with torch.no_grad():
        scores = score(head(features.test), features.test_labels)
    spent = round(time.process_time() - start, 1)
    return {
        "best_step": best_step,
        "held_map": round(best, 5),
        "cpu_seconds": spent,
        "rows": len(features.train),
    } | scores


def score(rows: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the scores of test rows."""
    scores = sm.evaluate(rows, labels, measures=["recall_at", "map_at_r"], progress=False)
    return {"recall_at_1": round(scores.recall_at[1], 5), "map_at_r": round(scores.map_at_r, 5)}


def main() -> None:
    """Train what the CSV has not yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--batches", nargs="+", type=int, choices=STEPS, default=list(STEPS), help="0: all rows")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--most-per-class", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    features, data = load(given.features, given.most_per_class), given.features.stem
    cells = [
        (name, batch, seed, rate)
        for seed in range(given.seeds)
        for batch in given.batches
        for name in given.losses
        for rate in RATES
    ]
    done = set()
    if given.out.exists():
        with given.out.open(encoding="utf-8") as file:
            done = {tuple(row[column] for column in COLUMNS[:7]) for row in csv.DictReader(file)}
    with given.out.open("a", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        floor = {"data": data, "loss": FLOOR, "most_per_class": given.most_per_class, "rows": len(features.train)}
        if not any(key[:2] == (data, FLOOR) for key in done):
            writer.writerow(floor | score(features.test, features.test_labels))
        for name, batch, seed, rate in cells:
            key = dict(
                zip(COLUMNS[:7], (data, name, batch, seed, rate, given.most_per_class, STEPS[batch]), strict=True)
            )
            if tuple(str(value) for value in key.values()) in done:
                continue
            row = key | train(features, name, batch, seed, rate)
            writer.writerow(row)
            file.flush()
            print(row, flush=True)


if __name__ == "__main__":
    main()
