"""The table of small embedders from scratch beside plain scripts, from the rows of `python -m benchmarks from-scratch`.

Per cent, mean ± spread of the seeds; a floor that no seed changes has no spread. The best of the trained is bold.
"""

from collections.abc import Sequence

import numpy as np

from paper.beside import TITLES
from shadowmetric.app.report.tables import Table, plain_table

FIGURES = {"recall_at_1": "Recall@1", "map_at_r": "MAP@R", "nearest": "nearest training image"}
CONTENDERS = {
    "ours": "`train`",
    "cross_entropy": "script, cross-entropy",
    "triplet": "script, triplet",
    "untrained": "untrained",
    "raw_pixels": "raw pixels",
}
TRAINED = ("ours", "cross_entropy", "triplet")
ROUND = "final"
Rows = Sequence[dict[str, str]]


def from_scratch_table(rows: Rows) -> Table:
    """Return the table: a row for each set and figure, a column for each contender."""
    final = [row for row in rows if row["round"] == ROUND]
    beds = dict.fromkeys(row["bed"] for row in final)
    cells = [
        (f"{TITLES.get(bed, bed.capitalize())}, {words}", *contender_cells(final, bed, figure))
        for figure, words in FIGURES.items()
        for bed in beds
        if any(row["bed"] == bed and row[figure] for row in final)
    ]
    seeds = len({row["seed"] for row in final})
    seconds = "".join(dict.fromkeys(f"{float(row['seconds']):g}" for row in final))
    caption = (
        f"*measured*: `python -m benchmarks from-scratch final --seconds {seconds} --seeds {seeds}`; as many steps as "
        f"go into {seconds} s of one thread, test images, up to 300 training images of a class. "
        "Rows: [from-scratch.csv](../benchmarks/records/from-scratch.csv)."
    )
    return plain_table(caption, ("per cent", *CONTENDERS.values()), cells)


def contender_cells(rows: Rows, bed: str, figure: str) -> list[str]:
    """Return what each contender reached, the best of the trained in bold."""
    values = {
        name: [
            100 * float(row[figure]) for row in rows if (row["bed"], row["contender"]) == (bed, name) and row[figure]
        ]
        for name in CONTENDERS
    }
    best = max((float(np.mean(values[name])) for name in TRAINED if values[name]), default=None)
    return [
        f"**{over_seeds(some)}**" if name in TRAINED and some and float(np.mean(some)) == best else over_seeds(some)
        for name, some in values.items()
    ]


def over_seeds(values: Sequence[float]) -> str:
    """Return the mean ± spread; nothing for no value."""
    if not values:
        return ""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.1f}" + (f" ± {spread:.1f}" if spread >= 0.05 else "")
