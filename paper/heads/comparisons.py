"""What the records of heads say: the same or not under the paper's protocol, and Shadow beside Triplet on free rows.

    protocol    Shadow less Triplet, seed by seed, and whether the two are the same within half a point (two one-sided
                tests)
    free        each setting of Shadow less Triplet in the same setting; Triplet's own measure is Euclidean already, so
                Shadow mined by its own gaps and by Euclidean distance both stand beside Triplet mined by its own
    best        the setting of each loss with the best mean on the images that settings are chosen on, beside the other

Intervals are corrected for the number of all comparisons on free rows (Holm).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from paper.beside import TITLES
from paper.heads.beds import BEDS
from paper.heads.store import Store
from paper.record import Record
from shadowmetric.app.compare.seed_intervals import Difference, interval
from shadowmetric.app.compare.seed_tests import holm_intervals

FIGURE = "recall_at_1"
PARTNERS = {"shadow euclid": "triplet own", "shadow own": "triplet own", "shadow direction": "triplet direction"}
FREE, PROTOCOL = "free", "protocol"
Stores = Mapping[str, Store]


class Comparison(NamedTuple):
    """Shadow less Triplet on a bed."""

    bed: str
    shadow: str  # name of the setting
    triplet: str
    values: tuple[list[float], list[float]]  # of both, one a seed
    plain: Difference
    corrected: Difference
    chosen: bool  # the best setting of each loss, by images that settings are chosen on


def read_stores(folder: Path) -> dict[str, Store]:
    """Return the records of heads that are there, in the order of the beds."""
    files = {name: folder / f"{name}.jsonl" for name in BEDS}
    return {name: Store(file) for name, file in files.items() if file.exists()}


def protocol_records(stores: Stores) -> dict[str, Record]:
    """Return the records of the paper's protocol by the names that claims use."""
    records = {f"head-{name}": store.record(PROTOCOL) for name, store in stores.items()}
    return {name: record for name, record in records.items() if record.values("shadow", FIGURE)}


def partner_of(setting: str) -> str:
    """Return the setting of Triplet that stands beside one of Shadow."""
    return next(setting.replace(mine, theirs) for mine, theirs in PARTNERS.items() if setting.startswith(mine))


def free_comparisons(stores: Stores) -> list[Comparison]:
    """Return every comparison on rows of free length, corrected for their number."""
    pairs = []
    for bed, store in stores.items():
        record = store.record(FREE)
        for setting in record.losses():
            if setting.startswith("shadow"):
                pairs.append((bed, setting, partner_of(setting), False, record))
        mine, theirs = best_setting(record, "shadow"), best_setting(record, "triplet", "euclidean_triplet")
        if mine and theirs:
            pairs.append((bed, mine, theirs, True, record))
    both = [(pair, values_of(pair[4], pair[1], pair[2])) for pair in pairs]
    some = [(pair, values) for pair, values in both if len(values[0]) > 1]
    samples = [list(np.subtract(*values)) for _, values in some]
    return [
        Comparison(pair[0], pair[1], pair[2], values, interval(sample), corrected, pair[3])
        for (pair, values), sample, corrected in zip(some, samples, holm_intervals(samples), strict=True)
    ]


def values_of(record: Record, first: str, second: str) -> tuple[list[float], list[float]]:
    """Return the figures of two settings over the seeds that both have."""
    mine, theirs = record.values(first, FIGURE), record.values(second, FIGURE)
    both = sorted(mine.keys() & theirs.keys())
    return [mine[seed] for seed in both], [theirs[seed] for seed in both]


def best_setting(record: Record, *losses: str) -> str | None:
    """Return the setting of some losses with the best mean on the images that settings are chosen on."""
    means = {
        setting: float(np.mean(list(record.values(setting, "validation").values())))
        for setting in record.losses()
        if setting.split()[0] in losses
    }
    return max(means, key=lambda setting: means[setting]) if means else None


def answer(comparisons: list[Comparison]) -> str:
    """Say whether there is a setting in which Shadow is better than Triplet on rows of free length."""
    if not comparisons:
        return "Nothing was measured on rows of free length yet."
    above, below = (beyond_noise(comparisons, sign, chosen=False) for sign in (1, -1))
    won, lost = (beyond_noise(comparisons, sign, chosen=True) for sign in (1, -1))
    best = [one for one in comparisons if one.chosen]
    beds = ", ".join(dict.fromkeys(TITLES[one.bed] for one in comparisons))
    seeds = sorted({one.plain.seeds for one in comparisons})
    most = max(above, key=lambda one: one.plain.mean, default=None)
    largest = "" if most is None else f" (the most: {100 * most.plain.mean:.1f} points on {TITLES[most.bed]})"
    return (
        f"On rows of free length, with a margin searched for each setting, heads on cached features, "
        f"{' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds, {beds}: beyond noise Shadow is better "
        f"than Triplet in the same setting in {len(above)} of {len(comparisons) - len(best)} comparisons{largest} and "
        f"worse in {len(below)}; best setting against best, chosen on validation images, it is better on {len(won)} "
        f"and worse on {len(lost)} of {len(best)} data sets."
    )


def beyond_noise(comparisons: list[Comparison], sign: int, *, chosen: bool) -> list[Comparison]:
    """Return the comparisons whose corrected interval lies on one side of 0."""
    return [one for one in comparisons if one.chosen == chosen and one.corrected.sign == sign]
