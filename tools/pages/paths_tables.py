"""The tables of small batches and devices, from the rows of `python -m benchmarks paths`.

kernels    what a step asks of a device, a row for each loss and miner, a column for each size
times      a step on a CPU over the quicker of a plain dense program and pytorch-metric-learning, in one run
"""

from collections.abc import Sequence

from shadowmetric.app.report.tables import Table, plain_table

Rows = Sequence[dict[str, str]]
OURS, SLOTS, DENSE, PML = "ours", "ours, slots", "dense", "pml"
BUDGET = {32: 150, 1024: 150, 4096: 250, 16384: 400}
COUNTED = "python -m benchmarks paths --losses all --miners semi_hard hard batch_hard all"


def kernels_table(rows: Rows) -> Table:
    """Return the kernels of a step by size, those above the budget in bold, and how often the host waits."""
    sizes = sizes_of(rows)
    lines = [("*budget*", *(f"*{BUDGET[size]}*" for size in sizes), "*0*")]
    for loss, miner in cases_of(rows):
        counted = [find(rows, loss, miner, size, SLOTS) or find(rows, loss, miner, size, OURS) for size in sizes]
        cells = [above(row["kernels"], size) for row, size in zip(counted, sizes, strict=True) if row]
        waits = {row["waits"] for row in counted if row and row["waits"]}
        lines.append((name_of(loss, miner), *cells, " to ".join(sorted(waits))))
    peers = [
        (f"{words}, {loss}, {miner}".rstrip(", "), *peer_cells(rows, loss, miner, sizes, peer))
        for peer, words in ((DENSE, "dense program"), (PML, "pytorch-metric-learning"))
        for loss, miner in cases_of(rows)
        if loss in ("shadow", "multi_similarity") and any(find(rows, loss, miner, size, peer) for size in sizes)
    ]
    first = rows[0]
    command = f"{COUNTED} --sizes {' '.join(map(str, sizes))} --per-class {first['per_class']} --rounds 0"
    caption = (
        f"*counted*: `{command}`; forward and backward, D = {first['dim']}, slots given, a center for every class of "
        "the batch. Rows, those without slots too: [paths-counts.csv](../benchmarks/records/paths-counts.csv)."
    )
    return plain_table(caption, ("loss, miner", *(f"S = {size:,}" for size in sizes), "waits"), [*lines, *peers])


def times_table(rows: Rows) -> Table:
    """Return a step's time over that of the quicker other, with the way that the CPU takes."""
    sizes = sizes_of(rows)
    lines = []
    for loss, miner in cases_of(rows):
        for contender, words in ((OURS, "ours"), (DENSE, "dense program"), (PML, "pytorch-metric-learning")):
            found = [find(rows, loss, miner, size, contender) for size in sizes]
            if any(row and row["total_us"] for row in found):
                lines.append((f"{name_of(loss, miner)}: {words}", *map(time_cell, found)))
    first = rows[0]
    command = (
        f"python -m benchmarks paths --sizes {' '.join(map(str, sizes))} --per-class {first['per_class']} --rounds 4"
    )
    losses = " ".join(dict.fromkeys(row["loss"] for row in rows))
    caption = (
        f"*measured*: `{command} --losses {losses}`; forward and backward, one thread, {first['cpu']}, on a machine "
        "with other work: only ratios mean anything. Each cell is the time over that of the quicker of the two others, "
        "and of ours also the way. Rows: [paths.csv](../benchmarks/records/paths.csv)."
    )
    return plain_table(caption, ("loss, miner", *(f"S = {size:,}" for size in sizes)), lines)


def sizes_of(rows: Rows) -> list[int]:
    """Return the sizes in their order."""
    return list(dict.fromkeys(int(row["batch"]) for row in rows))


def cases_of(rows: Rows) -> list[tuple[str, str]]:
    """Return the losses and miners in their order."""
    return list(dict.fromkeys((row["loss"], row["miner"]) for row in rows))


def find(rows: Rows, loss: str, miner: str, size: int, contender: str) -> dict[str, str] | None:
    """Return the row of a contender."""
    wanted = (loss, miner, str(size), contender)
    return next((row for row in rows if (row["loss"], row["miner"], row["batch"], row["contender"]) == wanted), None)


def peer_cells(rows: Rows, loss: str, miner: str, sizes: Sequence[int], peer: str) -> list[str]:
    """Return a peer's kernels by size, and its waits."""
    found = [find(rows, loss, miner, size, peer) for size in sizes]
    waits = [int(row["waits"]) for row in found if row and row["waits"]]
    cells = [f"{int(row['kernels']):,}" if row and row["kernels"] else "not run" for row in found]
    return [*cells, " to ".join(f"{number:,}" for number in sorted({min(waits), max(waits)})) if waits else ""]


def time_cell(row: dict[str, str] | None) -> str:
    """Return the ratio of a row, and its way."""
    if row is None or not row["ratio"]:
        return "not run"
    return f"{float(row['ratio']):.2f}" + (f" ({row['way']})" if row["way"] else "")


def above(kernels: str, size: int) -> str:
    """Return the number of kernels, bold if it is above the budget of its size; a dash where none were counted."""
    if not kernels:
        return "–"
    return f"{int(kernels):,}" if int(kernels) <= BUDGET[size] else f"**{int(kernels):,}**"


def name_of(loss: str, miner: str) -> str:
    """Return a loss and its miner in words."""
    words = loss.replace("_", " ")
    return f"{words}, {miner.replace('_', '-')}" if miner else words
