"""Tables of trainings in other libraries, of two towers, and of a newcomer's first steps.

Functions of rows of records; `measured_tables.py` says which page has which. Memory: the rows, some kilobytes.
"""

from shadowmetric.app.report.tables import Table, plain_table
from tools.pages.guide import over_seeds

Rows = list[dict[str, str]]
TOWER_LOSSES = {
    "shadow": "Shadow, margin 0.2",
    "triplet": "Triplet, margin 0.4",
    "multi_similarity": "Multi-Similarity, base 0.5",
}


def trainers_table(rows: Rows, trainer: str) -> Table:
    """Return what a library's trainer learns with its losses and with ours, below the plain loop."""
    named = [{**row, "name": row["loss"]} for row in rows if row["trainer"] == trainer]
    loop = [{**row, "name": "Shadow in a plain loop"} for row in rows if row["trainer"] == "a plain loop"]
    names = dict.fromkeys(row["name"] for row in named + loop)
    cells = [
        ("untrained", *(over_seeds(loop, loop[0]["name"], f"{one}_before") for one in ("recall_at_1", "map_at_r")))
    ]
    cells += [(name, *(over_seeds(named + loop, name, one) for one in ("recall_at_1", "map_at_r"))) for name in names]
    seeds = len({row["seed"] for row in loop})
    caption = (
        f"*measured*: `python examples/trainers.py`, {loop[0]['steps']} steps of 60 digits, {seeds} seeds, mean ± "
        "spread, test images. Rows: [trainers.csv](../benchmarks/records/trainers.csv)."
    )
    return plain_table(caption, (f"per cent, {trainer}", "Recall@1", "MAP@R"), cells, ("floor", *("",) * len(names)))


def make_comparison_table(rows: Rows) -> Table:
    """Return losses of pytorch-metric-learning beside ours in our own training."""
    kinds = {row["name"]: row["kind"] for row in rows}
    cells = [
        (name, *(over_seeds(rows, name, one) for one in ("recall_at_1", "map_at_r", "accuracy"))) for name in kinds
    ]
    caption = (
        "*measured*: `shadowmetric compare --data digits --losses shadow triplet pml:TripletMarginLoss "
        "pml:MultiSimilarityLoss --mining-unit squared --seeds 3 --epochs 3 --no-controls`; per cent, mean ± spread of "
        "three seeds. Rows: [pml.csv](../benchmarks/records/pml.csv)."
    )
    return plain_table(caption, ("loss", "Recall@1", "MAP@R", "accuracy"), cells, tuple(kinds.values()))


def sentences_table(rows: Rows) -> Table:
    """Return what a text model learns of sentences, with each loss and seed."""
    cells = []
    for name in dict.fromkeys(row["loss"] for row in rows):
        own = [row for row in rows if row["loss"] == name]
        values = [sorted({f"{100 * float(row['recall_at_1']):.1f}" for row in own})]
        values.append([f"{100 * float(row['map_at_r']):.1f}" for row in own])
        cells.append((name, *(", ".join(some) for some in values)))
    caption = (
        "*measured*: `python examples/sentences.py`; per cent, seeds 0, 1, 2. Rows: "
        "[sentences.csv](../benchmarks/records/sentences.csv)."
    )
    return plain_table(caption, ("loss", "Recall@1, each seed alike", "MAP@R"), cells)


def sentences_memory_table(rows: Rows) -> Table:
    """Return what a step of a text model adds to the memory of the process."""
    cells = [
        (
            row["sentences"],
            f"{row['micro_batch']} at a time" if row["micro_batch"] else "at once",
            f"{float(row['peak_extra_mb']):.0f} MB",
        )
        for row in rows
    ]
    caption = (
        "*measured*: `python examples/sentences.py --memory`, letters of at most 32 tokens. Rows: "
        "[sentences-memory.csv](../benchmarks/records/sentences-memory.csv)."
    )
    return plain_table(caption, ("sentences", "embedded", "a step adds"), cells)


def towers_table(rows: Rows) -> Table:
    """Return Recall@K both ways of two towers, untrained and with three losses."""
    cells = []
    for figure in dict.fromkeys(row["figure"] for row in rows):
        own = [{**row, "name": row["loss"]} for row in rows if row["figure"] == figure]
        before = over_seeds([row for row in own if row["loss"] == "shadow"], "shadow", "before")
        cells.append(
            (figure, figure.rpartition("@")[2], before, *(over_seeds(own, one, "after") for one in TOWER_LOSSES))
        )
    caption = (
        "*measured*: `python examples/two_towers.py --loss NAME --seed SEED`, per cent, mean ± spread of the seeds 0, "
        "1 and 2. Rows: [two-towers.csv](../benchmarks/records/two-towers.csv)."
    )
    return plain_table(caption, ("numbers, Recall@K", "chance", "untrained", *TOWER_LOSSES.values()), cells)


def first_steps_table(rows: Rows) -> Table:
    """Return how long each step of a newcomer takes."""
    cells = [(row["step"], f"{float(row['seconds']):.1f}") for row in rows]
    caption = (
        "*measured*: `python tools/time_first_steps.py`, two cores that did nothing else, 240 images of 32 pixels, a "
        "registry of packages near by: over the internet the gigabytes of `make setup` take minutes. "
        f"{sum(float(row['seconds']) for row in rows) / 60:.1f} minutes in all. Rows: "
        "[first-steps.csv](../benchmarks/records/first-steps.csv)."
    )
    return plain_table(caption, ("step", "seconds"), cells)
