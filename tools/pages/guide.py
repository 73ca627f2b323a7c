"""The tables of docs/choosing.md, which loss, miner, margin and batch: all from records, none typed by hand.

    make results        (python -m tools.pages.results)

Shares are in per cent, mean ± spread of the seeds where there are several. Memory: the records, a few megabytes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paper.beside import NONE, OLD_BASE, WORDS, caption, difference, format_difference, format_mean
from paper.record import Record
from paper.studies.differences import WAYS
from shadowmetric.app.report.tables import Table
from shadowmetric.runtime.files import read_rows
from tools.pages.record_files import record_file

MIDDLE = "as it is"
CONTENDERS = {"plain": "plain", "cached": "`cached_backward`", "pml": "plain, pytorch-metric-learning's loss"}
PEERS = {
    "bare-product": "the product E·Eᵀ alone",
    "ours": "shadowmetric",
    "algorithm-1": "Algorithm 1 of the paper",
    "st": "sentence-transformers",
    "pml": "pytorch-metric-learning",
}
MARGINS = {
    "0.2, semi-hard": "none",
    "0.8, semi-hard": "margin-0.8",
    "0.2, all triplets": "all",
    "0.2, hard": "hard",
    "0.05, batch-hard": "margin-0.05-batch-hard",
}
SWEEPS = {
    "recipe-scratch.csv": "--data fashion_mnist --images 60000",
    "recipe-pretrained.csv": "--data cub200 --backbone timm:tf_efficientnet_lite0 --weights FILE --size 64 "
    "--images 4000",
}
CHANGES = {"miner=batch_hard": "batch-hard mining", "freeze_batch_norm=False": "batch normalization not frozen"}


def guide_tables(root: Path, records: dict[str, Record]) -> list[Table]:
    """Return every table of the page, in its order; root: the clone, records: what paper/records/small holds."""
    return [
        losses_table(
            read_rows(record_file(root, "fashion-mnist.csv")), read_rows(record_file(root, "fashion-mnist-classes.csv"))
        ),
        photographs_table(records["cub200"]),
        miners_table(records),
        recipe_table(
            "Batch, rate, miner: from scratch",
            "recipe-scratch.csv",
            read_rows(record_file(root, "recipe-scratch.csv")),
            "Fashion-MNIST, small_cnn, 60,000 images seen. The middle: AdamW, rate 0.002, batch 64 with 4 per class, "
            "no augmentation, semi-hard mining",
        ),
        recipe_table(
            "Batch, rate, batch normalization: from pretrained weights",
            "recipe-pretrained.csv",
            read_rows(record_file(root, "recipe-pretrained.csv")),
            "CUB-200 at 64 pixels, EfficientNet-Lite0, 4,000 images seen. The middle: AdamW, rate 0.0001, head 0.001, "
            "batch 64 with 4 per class, random crops, batch normalization frozen",
        ),
        step_table(read_rows(record_file(root, "step.csv"))),
        peers_table(read_rows(record_file(root, "bench-peers.csv"))),
    ]


def over_seeds(rows: Sequence[dict[str, str]], name: str, figure: str) -> str:
    """Return the mean ± spread of a share, in per cent; the spread of one that never varies is left out."""
    values = [100 * float(row[figure]) for row in rows if row["name"] == name and row[figure]]
    if not values:
        return NONE
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.2f}" + (f" ± {spread:.2f}" if spread >= 0.005 else "")


def losses_table(known: Sequence[dict[str, str]], new: Sequence[dict[str, str]]) -> Table:
    """Return six losses on classes that training saw, and on classes that it did not."""
    names = {row["name"]: row["kind"] for row in known}
    rows = tuple(
        (
            WORDS.get(name, name),
            *(over_seeds(known, name, figure) for figure in ("recall_at_1", "map_at_r", "accuracy")),
            *(over_seeds(new, name, figure) for figure in ("recall_at_1", "map_at_r")),
        )
        for name in names
    )
    headings = ("per cent", "Recall@1", "MAP@R", "accuracy", "Recall@1, new classes", "MAP@R, new classes")
    words = (
        "*measured*: `shadowmetric compare --data fashion_mnist --mining-unit squared --epochs 2` and, five classes "
        "for training and the other five for the test, `--split classes --epochs 4`; small_cnn, three seeds. Rows: "
        "[fashion-mnist.csv](../paper/records/fashion-mnist.csv), "
        f"[fashion-mnist-classes.csv](../paper/records/fashion-mnist-classes.csv). {OLD_BASE}"
    )
    return Table("Losses", words, headings, rows, tuple(names.values()))


def photographs_table(record: Record) -> Table:
    """Return the losses on photographs, from pretrained weights, in a training that is far too short."""
    rows = tuple(
        (
            WORDS.get(loss, loss),
            format_mean(record, loss, "recall_at_1"),
            format_mean(record, loss, "map_at_r"),
            NONE
            if loss == "untrained"
            else format_difference(difference(record, "recall_at_1", loss, "untrained"), "recall_at_1"),
        )
        for loss in record.losses()
    )
    headings = ("CUB-200, per cent", "Recall@1", "MAP@R", "Recall@1 less untrained's (95 %)")
    words = f"{caption(record)} Rows: [cub200.json](../paper/records/small/cub200.json)."
    return Table("Photographs", words, headings, rows, tuple(record.kind(loss) for loss in record.losses()))


def miners_table(records: dict[str, Record]) -> Table:
    """Return Shadow and Triplet with each miner, margin and kind of rows that was tried."""
    rows = []
    for words, bed in WAYS.items():
        if bed.name in records:
            record = records[bed.name]
            cells = (
                format_mean(record, loss, "recall_at_1") for loss in ("shadow", "triplet", "untrained", "raw_pixels")
            )
            link = f"[{bed.name}.json](../paper/records/small/{bed.name}.json)"
            rows.append((words, str(len(record.values("shadow", "recall_at_1"))), *cells, link))
    headings = ("Fashion-MNIST, Recall@1, per cent", "seeds", "Shadow", "Triplet", "untrained", "raw pixels", "rows")
    words = (
        "*measured*: `python -m paper differences --scale small`; small_cnn, 600 batches of 32, margin 0.2 and "
        "semi-hard mining unless the row says otherwise; miners compare unit rows, also where rows are of free length. "
        "Trainings are short: raw pixels have the better Recall@1 throughout. They compare settings, and show no good "
        "embedder."
    )
    return Table("Miners, margins, lengths of rows", words, headings, tuple(rows), ("",) * len(rows))


def margins_table(records: dict[str, Record]) -> Table:
    """Return margins and miners on unit rows, with the share of pairs that mining found a negative for."""
    rows, paper = [], records[WAYS["the paper's: unit rows, semi-hard, Adam"].name]
    for words, name in MARGINS.items():
        record = records[f"way-{name}"]
        active = record.values("shadow", "active").values()
        cells = (format_mean(record, loss, "recall_at_1") for loss in ("shadow", "triplet"))
        share = f"{100 * np.mean(list(active)):.0f} %" if active and "batch" not in name else ""
        rows.append((words, *cells, share, f"[way-{name}](../paper/records/small/way-{name}.json)"))
    rows += [(WORDS[name], format_mean(paper, name, "recall_at_1"), "", "", "") for name in ("untrained", "raw_pixels")]
    words = (
        "*measured*: `python -m paper differences --scale small`; small_cnn from scratch, 600 batches of 32, "
        "three seeds, mean ± spread. Raw pixels are above all of them: the rows compare settings, and show no good "
        "embedder."
    )
    headings = ("Fashion-MNIST, Recall@1, per cent", "Shadow", "Triplet", "pairs with a negative", "record")
    return Table("", words, headings, tuple(rows), ("",) * len(rows))


def recipe_table(title: str, name: str, rows: Sequence[dict[str, str]], middle: str) -> Table:
    """Return what one change of the recipe does to Recall@1 on validation images."""
    scores = {row["change"]: 100 * float(row["validation_recall_at_1"]) for row in rows}
    cells = tuple(
        (format_change(change), f"{value:.1f}", f"{value - scores[MIDDLE]:+.1f}".replace("-", "−"))
        for change, value in scores.items()
    )
    words = (
        f"*measured*: `python -m paper.recipe_sweep {SWEEPS[name]}`, Shadow, one seed, {middle}. "
        f"Rows: [{name}](../paper/records/{name})."
    )
    return Table(title, words, ("one change", "validation Recall@1, per cent", "points"), cells, ("",) * len(cells))


def format_change(change: str) -> str:
    """Return a change in words."""
    if change == MIDDLE:
        return "none: the middle"
    rate, _, head = change.partition(" head_learning_rate=")
    change = rate if head and rate == f"learning_rate={head}" else change
    return CHANGES.get(change, change.replace("_", " ").replace("=", " "))


def step_table(rows: Sequence[dict[str, str]]) -> Table:
    """Return what a whole training step takes."""
    cells = tuple(
        (
            row["batch"],
            row["size"],
            CONTENDERS[row["contender"]] + (f", {row['micro_batch']} at a time" if row["micro_batch"] else ""),
            f"{float(row['peak_extra_mb']) / 1000:.2f} GB",
            f"{float(row['images_per_second']):.1f}",
        )
        for row in rows
    )
    words = (
        "*measured*: `python -m benchmarks step`, and `python -m benchmarks step --size 224 --plain 32 --cached 128 "
        "--peer 32`; resnet18, memory above the idle process, two cores; the last row, the largest power of two "
        "that fits 24 GiB, is of another machine. Rows: [step.csv](../benchmarks/records/step.csv)."
    )
    headings = ("batch", "pixels", "step", "memory", "images a second")
    return Table("Memory of a step", words, headings, cells, ("",) * len(cells))


def peers_table(rows: Sequence[dict[str, str]]) -> Table:
    """Return what semi-hard mining and the loss take, the embedder apart."""
    cells = tuple(
        (PEERS[row["contender"]], f"{float(row['total_ms']):,.0f} ms", f"{float(row['peak_extra_mb']):,.0f} MB")
        for row in rows
    )
    sizes = f"{int(rows[0]['batch']):,} rows of {rows[0]['dim']}"
    words = (
        f"*measured*: `python -m benchmarks losses`; semi-hard mining, loss and gradient of {sizes}, random rows. "
        "Rows: [bench-peers.csv](../benchmarks/records/bench-peers.csv)."
    )
    return Table("Memory of mining and loss", words, ("who", "time", "memory"), cells, ("",) * len(cells))
