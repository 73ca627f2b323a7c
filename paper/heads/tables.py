"""Tables of heads: the paper's protocol with its floors and its tests of equality, and free rows setting by setting."""

from collections.abc import Mapping

import numpy as np

from paper.beside import NONE, TITLES, format_difference, format_mean, seed_differences
from paper.heads.comparisons import FIGURE, FREE, PROTOCOL, Comparison, Stores
from paper.heads.store import Store
from shadowmetric.app.compare.seed_intervals import Difference, interval
from shadowmetric.app.compare.seed_tests import Equivalence, equivalence
from shadowmetric.app.report.tables import Table

BOUND = 0.005  # half a point: what "the same" means here
COLUMNS = ("features", "untrained", "shadow", "triplet", "triplet_control")
PROTOCOL_HEADINGS = ("Recall@1, per cent", "seeds", "pooled features", "untrained head", "Shadow", "Triplet", "control")
PROTOCOL_HEADINGS = (*PROTOCOL_HEADINGS, "Shadow − Triplet, points (95 %)", "within ± 0.5 points")
FREE_HEADINGS = ("rows of free length, Recall@1, per cent", "seeds", "Shadow", "Triplet", "Triplet's setting")
FREE_HEADINGS = (*FREE_HEADINGS, "Shadow − Triplet, points (95 %)", "corrected (Holm)")
WORDS = {"shadow ": "", "own": "mined by its own measure", "euclid ": "mined by Euclidean distance "}
WORDS |= {"direction": "mined by direction", "semi_hard": ", semi-hard", "batch_hard": ", batch-hard"}
WORDS |= {" price": ", with a price on length", "euclidean_triplet": "Euclidean Triplet", "triplet ": "squared, "}


def protocol_table(stores: Stores) -> Table:
    """Return the paper's protocol on heads: floors, three losses, their difference and whether they are the same."""
    rows = []
    for name, store in stores.items():
        record = store.record(PROTOCOL)
        values = seed_differences(record, FIGURE)
        if values:
            cells = (format_mean(record, loss, FIGURE) for loss in COLUMNS)
            difference = format_difference(interval(values), FIGURE)
            verdict = format_equivalence(equivalence(values, BOUND))
            rows.append((TITLES[name], str(len(values)), *cells, difference, verdict))
    words = (
        "*measured*: `python -m paper.heads protocol`; unit rows, semi-hard mining in squared distance at margin 0.2, "
        "Adam with weight decay 1e-4, 300 batches of 64, a linear head of 256 dimensions on pooled features of "
        "EfficientNet-Lite0. The control is Triplet at margin 0.4 with the same triplets. Two one-sided tests at 5 %."
    )
    return Table("The same under the paper's protocol", words, PROTOCOL_HEADINGS, tuple(rows), ("",) * len(rows))


def free_table(comparisons: list[Comparison]) -> Table:
    """Return every comparison on rows of free length."""
    rows = []
    for one in comparisons:
        means = (f"{100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1):.2f}" for values in one.values)
        chosen = "best on validation images: " if one.chosen else ""
        differences = (format_difference(estimate, FIGURE) for estimate in (one.plain, one.corrected))
        setting = f"{TITLES[one.bed]}, {chosen}{setting_words(one.shadow)}"
        rows.append((setting, str(one.plain.seeds), *means, setting_words(one.triplet), *differences))
    words = (
        "*measured*: `python -m paper.heads free`; 200 batches of 64, Adam, a linear head of 256 dimensions on pooled "
        "features of EfficientNet-Lite0; each setting with the best margin of a ladder, by validation images and a "
        f"seed that is not scored. Corrected for all {len(comparisons)} rows. Seeds vary weights and batches; margins "
        "were searched once, which the intervals do not know."
    )
    return Table("Shadow on rows of free length", words, FREE_HEADINGS, tuple(rows), ("",) * len(rows))


def setting_words(name: str) -> str:
    """Return the name of a setting for people."""
    for term, words in WORDS.items():
        name = name.replace(term, words)
    return name.replace(" ,", ",").replace("Euclidean Triplet mined", "Euclidean, mined")


def hours_table(stores: Stores) -> Table:
    """Return what each bed took, and what is still missing of it."""
    rows = [
        (
            TITLES[name],
            *(f"{60 * store.hours(group):.1f}" for group in (PROTOCOL, "tuning", FREE)),
            f"`python -m paper.heads protocol free --only {name}`",
        )
        for name, store in stores.items()
    ]
    headings = ("minutes of a core", "protocol", "margins", "free rows", "what does it, or goes on")
    return Table("Time of heads", "", headings, tuple(rows), ("",) * len(rows))


def format_equivalence(test: Equivalence) -> str:
    """Return whether two are the same within the bound."""
    if test.p is None or test.low is None or test.high is None:
        return NONE
    ends = format_difference(Difference(0.0, test.low, test.high, 2), FIGURE).partition(" ")[2]
    return f"{'yes' if test.holds else 'not shown'}, 90 %: {ends.strip('()')}"


def tables(stores: Mapping[str, Store], comparisons: list[Comparison]) -> list[Table]:
    """Return every table that has rows."""
    return [one for one in (protocol_table(stores), free_table(comparisons), hours_table(stores)) if one.rows]
