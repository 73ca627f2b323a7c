"""Tables of records, the paper's figures beside ours.

A figure of ours is the mean over seeds ± their spread. Differences are Shadow's less another's, seed by seed, with the
95 % interval of Student's t over the seeds: with three seeds it is wide, and that is the truth about three seeds.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from paper.quoted import find_quoted
from paper.record import Record
from shadowmetric.app.compare.seed_intervals import Difference, interval
from shadowmetric.app.report.tables import Table

WORDS = {
    "shadow": "Shadow",
    "triplet": "Triplet",
    "soft_margin_triplet": "Soft-margin triplet",
    "angular_triplet": "Angular triplet",
    "soft_triple": "SoftTriple",
    "multi_similarity": "Multi-Similarity",
    "triplet_control": "Triplet, margin 2m, same triplets",
    "double_shadow": "twice Shadow",
    "raw_pixels": "raw pixels",
    "untrained": "untrained",
    "features": "pooled features",
}
HEADINGS = {
    "recall_at_1": "Recall@1, %",
    "recall_at_2": "Recall@2, %",
    "recall_at_4": "Recall@4, %",
    "recall_at_8": "Recall@8, %",
    "silhouette": "silhouette",
    "convergence_epoch": "plateau, epoch",
    "accuracy": "accuracy, %",
    "macro_f1": "macro-F1, %",
}
TITLES = {
    "cifar10": "CIFAR-10",
    "fashion_mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "cifar100": "CIFAR-100",
    "tiny_imagenet": "Tiny-ImageNet",
    "cub200": "CUB-200",
    "cars196": "CARS196",
    "sop": "Stanford Online Products",
    "inshop": "In-Shop Clothes",
    "ham10000": "HAM10000",
    "odir5k": "ODIR-5K",
    "glyphs": "Glyphs",
}
PER_CENT = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "accuracy", "macro_f1", "map_at_r")
DIGITS = {"silhouette": 3, "convergence_epoch": 1, "mean_variance": 4, "anchor_gradient": 3, "effective_rank": 1}
NONE = "–"


OLD_BASE = (
    "Multi-Similarity was trained at base 1.0, which its paper prints and at which its negatives hardly count; the "
    "default is now 0.5, as in its authors' code."
)


def difference(record: Record, figure: str, first: str = "shadow", second: str = "triplet") -> Difference | None:
    """Return first less second over the seeds that both have."""
    differences = seed_differences(record, figure, first, second)
    return interval(differences) if differences else None


def seed_differences(record: Record, figure: str, first: str = "shadow", second: str = "triplet") -> list[float]:
    """Return first less second, one for each seed that both have."""
    mine, theirs = record.values(first, figure), record.values(second, figure)
    return [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]


def format_figure(value: float, figure: str) -> str:
    """Return a figure as people read it."""
    return f"{100 * value:.2f}" if figure in PER_CENT else f"{value:.{DIGITS.get(figure, 3)}f}"


def format_mean(record: Record, loss: str, figure: str) -> str:
    """Return the mean ± spread over seeds."""
    values = list(record.values(loss, figure).values())
    if not values:
        return NONE
    spread = format_figure(float(np.std(values, ddof=1)), figure) if len(values) > 1 else "0"
    return format_figure(float(np.mean(values)), figure) + (f" ± {spread}" if float(spread) else "")


def format_difference(estimate: Difference | None, figure: str) -> str:
    """Return a difference with its interval."""
    if estimate is None:
        return NONE
    scale, digits = (100, 2) if figure in PER_CENT else (1, DIGITS.get(figure, 3))

    def signed(value: float) -> str:
        return f"{round(scale * value, digits) + 0.0:+.{digits}f}".replace("-", "−")  # and no −0.00

    if estimate.low is None or estimate.high is None:
        return signed(estimate.mean)
    return f"{signed(estimate.mean)} ({signed(estimate.low)} to {signed(estimate.high)})"


def caption(record: Record) -> str:
    """Return how a record was made, in sentences."""
    facts = record.facts
    seeds = max((len(record.values(loss, "recall_at_1")) for loss in record.losses("loss")), default=0)
    where = f"*measured* at scale {facts['scale']}, {seeds} seed{'s' if seeds != 1 else ''}, mean ± spread"
    origin = facts.get("origin", {})
    provenance = (
        f"`{facts['command']}`, commit {origin.get('commit', 'unknown')}, {origin.get('machine', 'unknown machine')}"
    )
    parts = f"{where}: {provenance}.", facts.get("reduced", ""), *facts.get("notes", []), base_note(record)
    return " ".join(part for part in parts if part)


def base_note(record: Record) -> str:
    """Say that Multi-Similarity had another base in a record; its default is 0.5 since settings name mining_unit."""
    settings = record.facts["settings"]
    old = "multi_similarity" in record.losses() and "mining_unit" not in settings and "mining" not in settings
    return OLD_BASE if old else ""


def beside_paper(
    record: Record,
    table: str,
    figures: Sequence[str],
    *,
    dataset: str | None = None,
    called: dict[str, str] | None = None,
) -> Table:
    """Return a row a loss, and for each figure what the paper states and what we measured.

    dataset: what the paper's rows are called, if not by the data. called: other names of figures there.
    """
    data = dataset or record.facts["data"]
    stated = {(one.loss, one.figure): one.words for one in find_quoted(table, data)}
    columns = [figure for figure in figures if any(record.values(loss, figure) for loss in record.losses())]
    if not columns:
        return Table(record.facts["bed"], caption(record), ("loss",), (), ())
    rows, kinds = [], []
    for loss in record.losses():
        cells = []
        for figure in columns:
            paper = stated.get((loss, (called or {}).get(figure, figure)))
            cells += [NONE if paper is None else paper, format_mean(record, loss, figure)]
        rows.append((WORDS.get(loss, loss), *cells, beside_shadow(record, loss, columns[0])))
        kinds.append(record.kind(loss))
    pairs = [
        heading for figure in columns for heading in (f"{HEADINGS[figure]}, quoted", f"{HEADINGS[figure]}, measured")
    ]
    unit = ", points" if columns[0] in PER_CENT else ""
    headings = ("loss", *pairs, f"Shadow's {HEADINGS[columns[0]].split(',')[0]} less this{unit}")
    title = str(TITLES.get(record.facts["data"], record.facts["data"])) + (f", {dataset}" if dataset else "")
    return without_empty(Table(title, caption(record), headings, tuple(rows), tuple(kinds)))


def tables_of(table: str, figures: Mapping[str, Sequence[str]]) -> Callable[[dict[str, Record]], list[Table]]:
    """Return what makes a table for each bed that has a record; figures: by the name of the bed."""
    return lambda records: [
        beside_paper(records[bed], table, shown) for bed, shown in figures.items() if bed in records
    ]


def beside_shadow(record: Record, loss: str, figure: str) -> str:
    """Return Shadow's figure less another's."""
    return NONE if loss == "shadow" else format_difference(difference(record, figure, "shadow", loss), figure)


def without_empty(table: Table) -> Table:
    """Return the table without columns that hold nothing."""
    kept = [column for column in range(len(table.headings)) if any(row[column] != NONE for row in table.rows)]
    rows = tuple(tuple(row[column] for column in kept) for row in table.rows)
    return Table(table.title, table.caption, tuple(table.headings[column] for column in kept), rows, table.kinds)


def ways_table(records: dict[str, Record]) -> Table:
    """Return a row for each way in which Shadow can differ from Triplet."""
    rows = []
    for words, record in records.items():
        differences = (
            format_difference(difference(record, "recall_at_1", "shadow", other), "recall_at_1")
            for other in ("triplet", "triplet_control", "double_shadow", "untrained", "raw_pixels")
        )
        seeds = str(len(record.values("shadow", "recall_at_1")))
        rows.append((words, seeds, format_mean(record, "shadow", "recall_at_1"), *differences))
    headings = ("setting", "seeds", "Shadow's Recall@1, %", "less Triplet's", "less Triplet's at margin 2m")
    headings = (*headings, "less twice Shadow's", "less untrained", "less raw pixels")
    words = (
        caption(next(iter(records.values()))).replace(" seeds,", " seeds unless the row says more,", 1)
        if records
        else ""
    )
    return Table("Four ways in which Shadow can differ", words, headings, tuple(rows), ("",) * len(rows))


def collapse_table(pairs: dict[str, tuple[Record | None, ...]]) -> Table:
    """Return variance and accuracy without and with the price on length."""
    stated = {(one.loss, one.figure): one.words for one in find_quoted("collapse")}
    rows, words = [], ""
    for rows_are, (without, penalized) in pairs.items():
        for loss in ("shadow", "triplet", "triplet_control"):
            if without is None or penalized is None or not without.values(loss, "mean_variance"):
                continue
            words = words or caption(penalized)
            change = differing(penalized, without, loss, "accuracy")
            unit = rows_are == "unit rows"
            paper = (stated.get((loss, "variance"), NONE), stated.get((loss, "variance_penalized"), NONE))
            rows.append(
                (
                    f"{WORDS[loss]}, {rows_are}",
                    paper[0] if unit else NONE,
                    format_mean(without, loss, "mean_variance"),
                    paper[1] if unit else NONE,
                    format_mean(penalized, loss, "mean_variance"),
                    stated.get((loss, "accuracy_change"), NONE) if unit else NONE,
                    format_difference(change, "accuracy"),
                )
            )
    headings = ("loss and rows", "variance, quoted", "variance, measured", "with penalty, quoted")
    headings = (*headings, "with penalty, measured", "accuracy change, points, quoted", "accuracy change, measured")
    return Table("Collapse: variance of the embeddings", words, headings, tuple(rows), ("",) * len(rows))


def differing(after: Record, before: Record, loss: str, figure: str) -> Difference | None:
    """Return how a figure of a loss changes between two records."""
    mine, theirs = after.values(loss, figure), before.values(loss, figure)
    differences = [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]
    return interval(differences) if differences else None


def gradient_ratio(record: Record) -> float | None:
    """Return the mean over seeds of Shadow's anchor gradient over Triplet's, if known."""
    mine, theirs = (record.values(loss, "anchor_gradient") for loss in ("shadow", "triplet"))
    ratios = [mine[seed] / theirs[seed] for seed in mine.keys() & theirs.keys() if theirs[seed]]
    return float(np.mean(ratios)) if ratios else None


def gradients_table(records: dict[str, Record]) -> Table:
    """Return the mean anchor gradient of both losses, and their ratio."""
    stated = {one.loss: one.value for one in find_quoted("gradients")}
    paper = f"{stated['shadow']:.2f}", f"{stated['triplet']:.2f}", f"{stated['shadow'] / stated['triplet']:.2f}"
    rows: list[tuple[str, ...]] = [("CARS196, the paper's, quoted", *paper)]
    for words, record in records.items():
        mean_ratio = gradient_ratio(record)
        ratio = NONE if mean_ratio is None else f"{mean_ratio:.2f}"
        cells = (format_mean(record, loss, "anchor_gradient") for loss in ("shadow", "triplet"))
        rows.append((f"{words}, measured", *cells, ratio))
    headings = ("data and rows", "Shadow", "Triplet", "ratio")
    words = caption(next(iter(records.values()))) if records else ""
    return Table("Length of a triplet's gradient to its anchor", words, headings, tuple(rows), ("",) * len(rows))
