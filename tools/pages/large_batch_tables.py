"""Tables of batches as large as a training set: what losses take there, and whether they learn more from them.

From the rows of `python -m benchmarks.losses.large` and of `python -m benchmarks.batch_sizes`.
"""

from collections.abc import Sequence

import numpy as np

from shadowmetric.app.report.tables import Table, plain_table

Rows = Sequence[dict[str, str]]
PEER = "pml:"
SIZES = ("5864", "16384")
BATCHES = {"64": "64", "512": "512", "0": "all"}
FLOOR = "features"  # as they are
DATA = {"cub200-96": "CUB-200", "glyphs-64": "glyphs"}
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # 95 %, by the number of seeds


def large_losses_table(rows: Rows) -> Table:
    """Return time and peak of each loss at both sizes, beside the peer's."""
    measured = {(row["contender"], row["batch"]): row for row in rows}
    names = dict.fromkeys(row["contender"] for row in rows if not row["contender"].startswith(PEER))
    cells = [
        (
            f"`{name}`",
            *(cost(measured.get((prefix + name, size))) for size in SIZES for prefix in ("", PEER)),
        )
        for name in names
    ]
    caption = (
        "*measured*: `python -m benchmarks.losses.large OUT.csv` and the same with `--batch 16384`; rows of 128 random "
        "numbers, 58 of a class; seconds of one thread's processor time, and the most bytes of tensors beyond rows, "
        "labels and centers. A peer that would take more than 6 GB is not run; empty: it has no such loss, or "
        "nobody measured it. `clustering` chooses its medoids in numpy, whose arrays, within the scratch of 32 MB, are "
        "not counted. Rows: [losses-large.csv](../benchmarks/records/losses-large.csv)."
    )
    peer = "pytorch-metric-learning"
    headings = ("loss", "5,864 rows", f"{peer}, 5,864", "16,384 rows", f"{peer}, 16,384")
    return plain_table(caption, headings, cells)


def cost(row: dict[str, str] | None) -> str:
    """Return time and memory in words, or why there are none."""
    if row is None:
        return ""
    if row["reason"]:
        return row["reason"]
    megabytes = float(row["peak_mb"])
    memory = f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"
    return f"{float(row['cpu_seconds']):.1f} s, {memory}"


def batch_sizes_table(rows: Rows) -> Table:
    """Return MAP@R of each loss by batch, at the rate that held-out classes choose, and what all rows bring."""
    cells = []
    for data in DATA:
        of_data = [row for row in rows if row["data"] == data]
        for row in of_data:
            if row["loss"] == FLOOR:
                floor = f"{100 * float(row['map_at_r']):.2f}"
                cells.append((f"{DATA[data]}, features without a head", floor, floor, floor, ""))
        of_data = [row for row in of_data if row["loss"] != FLOOR]
        for loss in dict.fromkeys(row["loss"] for row in of_data):
            scores = {batch: chosen(of_data, loss, batch) for batch in BATCHES}
            both = sorted(set(scores["64"]) & set(scores["0"]))
            gain = [scores["0"][seed] - scores["64"][seed] for seed in both]
            cells.append(
                (f"{DATA[data]}, `{loss}`", *(over_seeds(list(scores[b].values())) for b in BATCHES), interval(gain))
            )
    seeds = " and ".join(dict.fromkeys(str(count) for count in seeds_of(rows).values()))
    most = {row["data"]: row["most_per_class"] for row in rows}
    count = {row["data"]: row["rows"] for row in rows}
    all_rows = " and ".join(
        f"{int(count[data]):,} of {DATA[data]} (at most {most[data]} of a class)" for data in DATA if data in count
    )
    caption = (
        f"*measured*: `python -m benchmarks.batch_sizes OUT.csv --features FILE`; {seeds} seeds, mean ± spread, test "
        f"images of new classes, features of EfficientNet-Lite0; all are {all_rows}. The last column is the mean "
        "of the difference over seeds with its 95 % interval. "
        "Rows: [batch-sizes.csv](../benchmarks/records/batch-sizes.csv)."
    )
    headings = ("MAP@R, per cent", *(f"batch {name}" for name in BATCHES.values()), "all less 64")
    return plain_table(caption, headings, cells)


def seeds_of(rows: Rows) -> dict[str, int]:
    """Return how many seeds every loss and batch of a set has."""
    counts: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        if row["seed"]:
            counts.setdefault((row["data"], row["loss"], row["batch"], row["rate"]), set()).add(row["seed"])
    return {
        data: min(len(some) for key, some in counts.items() if key[0] == data)
        for data in DATA
        if any(key[0] == data for key in counts)
    }


def chosen(rows: Rows, loss: str, batch: str) -> dict[str, float]:
    """Return the MAP@R of each seed, per cent, at the rate with the best mean on held-out classes."""
    mine = [row for row in rows if (row["loss"], row["batch"]) == (loss, batch)]
    by_rate = {rate: [row for row in mine if row["rate"] == rate] for rate in {row["rate"] for row in mine}}
    if not by_rate:
        return {}
    fewest = min(len(some) for some in by_rate.values())
    best = max(sorted(by_rate), key=lambda rate: np.mean([float(row["held_map"]) for row in by_rate[rate][:fewest]]))
    return {row["seed"]: 100 * float(row["map_at_r"]) for row in by_rate[best]}


def over_seeds(values: Sequence[float]) -> str:
    """Return the mean ± spread."""
    if not values:
        return ""
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"


def interval(gains: Sequence[float]) -> str:
    """Return the mean of paired differences and its 95 % interval over seeds."""
    if len(gains) < 2:
        return ""
    reach = STUDENT[len(gains)] * float(np.std(gains, ddof=1)) / len(gains) ** 0.5
    mean = float(np.mean(gains))
    return f"{mean:+.2f} ({mean - reach:+.2f} to {mean + reach:+.2f})".replace("-", "−")
