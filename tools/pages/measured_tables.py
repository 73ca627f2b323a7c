"""Every table that a page quotes beside its prose; here those of speed and memory beside the peers.

    make results        (python -m tools.pages.results)

Each is a function of records, which its caption names with the command that made them. Where a size was
measured in several files, the table gives the range, and ratios are taken within a file, which is one run.

Shares are in per cent, mean ± spread of the seeds. Memory: the rows, some kilobytes.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from shadowmetric.app.report.tables import Table, plain_table
from shadowmetric.runtime.files import read_rows
from tools.pages.demo_table import demo_table, read_demo
from tools.pages.from_scratch_table import from_scratch_table
from tools.pages.guide import losses_table, peers_table, step_table
from tools.pages.integration_tables import (
    first_steps_table,
    make_comparison_table,
    sentences_memory_table,
    sentences_table,
    towers_table,
    trainers_table,
)
from tools.pages.large_batch_tables import batch_sizes_table, large_losses_table
from tools.pages.record_files import record_file
from tools.pages.serving_tables import connections_table, device_table, load_table, parity_table, search_table

Rows = list[dict[str, str]]
NONE = ""
BENCHES = ("bench-peers.csv", "bench-product.csv", "bench-sizes.csv", "bench-65536.csv")
SIZES = ((4096, 128), (8192, 128), (8192, 512), (8192, 2048), (16384, 128), (65536, 128))
PEERS = {"pml": "pytorch-metric-learning 2.9", "st": "sentence-transformers 6.2", "algorithm-1": "Algorithm 1"}
FIGURES = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "silhouette")


def make_measured_tables(root: Path) -> dict[str, dict[str, Table]]:
    """Return the tables of each page, by their marks; root: the clone."""

    def rows(name: str) -> Rows:
        return read_rows(record_file(root, name))

    trainers = rows("trainers.csv")
    return {
        "README.md": {"peers": beside_table([rows(name) for name in BENCHES])},
        "docs/measured.md": {
            "step": drop_title(step_table(rows("step.csv"))),
            "large": large_losses_table(rows("losses-large.csv")),
            "batch-sizes": batch_sizes_table(rows("batch-sizes.csv")),
            "evaluation": evaluation_table(rows("bench-evaluation.csv") + rows("bench-evaluation-200k.csv")),
            "training": drop_title(losses_table(rows("fashion-mnist.csv"), rows("fashion-mnist-classes.csv"))),
        },
        "docs/memory.md": {"step": drop_title(step_table(rows("step.csv")))},
        "docs/pytorch-metric-learning.md": {
            "trainers": trainers_table(trainers, "pytorch-metric-learning"),
            "pml": make_comparison_table(rows("pml.csv")),
        },
        "docs/training.md": {"from-scratch": from_scratch_table(rows("from-scratch.csv"))},
        "docs/lightning.md": {"trainers": trainers_table(trainers, "Lightning")},
        "docs/transformers.md": {"trainers": trainers_table(trainers, "Hugging Face Trainer")},
        "docs/sentence-transformers.md": {
            "sentences": sentences_table(rows("sentences.csv")),
            "memory": sentences_memory_table(rows("sentences-memory.csv")),
            "loss": drop_title(peers_table(rows("bench-peers.csv"))),
        },
        "docs/two-towers.md": {"towers": towers_table(rows("two-towers.csv"))},
        "docs/first-steps.md": {
            "steps": first_steps_table(rows("first-steps.csv")),
            "demo": demo_table(read_demo(root)),
        },
        "docs/serving.md": {
            "parity": parity_table(json.loads(record_file(root, "export.json").read_text(encoding="utf-8"))),
            "device": device_table(rows("device.csv")),
            "search": search_table(rows("search.csv")),
            "load": load_table(rows("load.csv")),
            "connections": connections_table(rows("connections.csv")),
        },
    }


def drop_title(table: Table) -> Table:
    """Return a table of another page without its title."""
    return plain_table(table.caption, table.headings, table.rows, table.kinds)


def format_range(values: Iterable[float], formatter: Callable[[float], str]) -> str:
    """Return the range of some values in words, or the one value."""
    words = [formatter(value) for value in sorted(values)]
    if not words or words[0] == words[-1]:
        return words[0] if words else NONE
    number = words[0].rstrip("×GMBms ")  # said without its unit if the last has the same
    return f"{number if words[-1].endswith(words[0].removeprefix(number)) else words[0]} to {words[-1]}"


def format_time(milliseconds: float) -> str:
    """Return a time with two or three digits."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"
    return f"{milliseconds / 1000:.1f} s"


def format_memory(megabytes: float) -> str:
    """Return so many megabytes, or gigabytes from one on."""
    return f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"


def beside_table(files: Sequence[Rows]) -> Table:
    """Return our step beside the peers' and beside one bare product, a row a size."""

    def found(size: tuple[int, int], contender: str) -> list[tuple[Rows, dict[str, str]]]:
        fits = ((rows, row) for rows in files for row in rows if (int(row["batch"]), int(row["dim"])) == size)
        return [(rows, row) for rows, row in fits if row["contender"] == contender]

    def cell(size: tuple[int, int], contender: str) -> str:
        several = found(size, contender)
        done = [(rows, row) for rows, row in several if row["total_ms"]]
        if not done:
            return "skipped: " + several[0][1]["reason"].split(": ")[-1].split(",")[0] if several else NONE
        time = format_range((float(row["total_ms"]) for _, row in done), format_time)
        memory = format_range((float(row["peak_extra_mb"]) for _, row in done), format_memory)
        if contender == "ours":
            return f"{time}, {memory}"
        ratios = [
            float(row["total_ms"]) / float(own["total_ms"])
            for rows, row in done
            for other_rows, own in found(size, "ours")
            if own["total_ms"] and other_rows is rows
        ]
        return f"{time}, {memory} ({format_range(ratios, '{:.0f}×'.format if min(ratios) > 3 else '{:.1f}×'.format)})"

    def product(size: tuple[int, int]) -> str:
        return format_range((float(row["ratio_to_product"]) for _, row in found(size, "ours")), "{:.2f}×".format)

    rows = [
        (f"{batch:,}", f"{dim:,}", *(cell((batch, dim), name) for name in ("ours", *PEERS)), product((batch, dim)))
        for batch, dim in SIZES
    ]
    caption = (
        "*measured*: `python -m benchmarks losses` ([rows](benchmarks/records/bench-peers.csv), "
        "[all commands](docs/measured.md#losses)). Memory is what the "
        "step adds at its peak, the gradient included; in parentheses the time over ours."
    )
    return plain_table(caption, ("S", "D", "ours", *PEERS.values(), "ours over one bare product E·Eᵀ"), rows)


def evaluation_table(rows: Rows) -> Table:
    """Return our evaluation beside faiss and scikit-learn."""
    cells = []
    for ours, peers in zip(rows[::2], rows[1::2], strict=True):
        apart = max(abs(float(ours[name]) - float(peers[name])) for name in FIGURES if ours[name])
        took = [f"{float(row['total_s']):,.0f} s, {float(row['peak_extra_mb']):.0f} MB" for row in (ours, peers)]
        if peers["extrapolated"] == "True":
            took[1] = f"{float(peers['total_s']):,.0f} s, extrapolated from {int(peers['queries']):,} queries"
        without = "" if ours["silhouette"] else " (no silhouette)"
        size = f"{int(ours['rows']):,} × {ours['dim']}, {int(ours['classes']):,}{without}"
        cells.append((size, *took, f"{float(ours['total_s']) / float(peers['total_s']):.2f}×", f"{apart:.1g}"))
    caption = (
        "*measured*: `python -m benchmarks evaluation --rows 60000 --dim 64 --classes 10 10000` "
        "([rows](../benchmarks/records/bench-evaluation.csv)); "
        "`--rows 200000 --dim 128 --classes 10000 --measures recall-map` "
        "and `--classes 10 --measures recall-map --queries 2000` "
        "([rows](../benchmarks/records/bench-evaluation-200k.csv))."
    )
    headings = ("rows × dim, classes", "ours", "faiss + scikit-learn", "time", "largest difference of a figure")
    return plain_table(caption, headings, cells)
