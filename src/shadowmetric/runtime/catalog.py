"""Is what an image shows in the catalog at all? By how near the nearest image is.

A table, measured on images whose class was left out of the gallery, holds thresholds in falling order, and for each

    passed           share of the images of absent classes whose nearest image is at least so near: chooses the row
    unknown_accepts  the same share, of other classes than those that choose
    known_rejects    share of the images of present classes that are farther than that from every image
    right            share of the images of present classes that are near enough, and nearest to their own class

The last three are of classes that had no part in the choice. Unless a rate is asked for, the row is taken at which the
classes that choose have both errors about equal: with weak embeddings a strict one would refuse nearly everything.

A larger catalog has a nearer image for everything: the
rates hold for catalogs about as large as the one that they were measured in.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from .errors import Mistake
from .threshold import round_up

COLUMNS = ("thresholds", "passed", "unknown_accepts", "known_rejects", "right")


@dataclass(frozen=True)
class CatalogDecision:
    """Whether an image shows something of the catalog, and how often such an answer is wrong."""

    in_catalog: bool
    similarity: float  # of the nearest image
    threshold: float
    unknown_accept_rate: float  # measured, at the threshold
    known_reject_rate: float


@dataclass(frozen=True)
class CatalogThreshold:
    """What was measured, on which images."""

    images: str  # which, in words
    thresholds: tuple[float, ...]
    passed: tuple[float, ...]
    unknown_accepts: tuple[float, ...]
    known_rejects: tuple[float, ...]
    right: tuple[float, ...]
    balanced: int  # the row at which both errors are about equal

    def least_rate(self) -> float:
        """Return the smallest rate that the measured images can show."""
        return self.passed[0]

    def row_at(self, rate: float | None) -> int:
        """Return the row of the lowest threshold that lets at most this share of absent classes pass."""
        if rate is None:
            return self.balanced
        if not self.least_rate() <= rate <= 1:
            raise Mistake(
                f"the rate of unknown images that pass is {rate:g}; what was measured ({self.images}) can show "
                f"{round_up(max(self.least_rate(), 1e-9)):g} to 1."
            )
        return bisect_right(self.passed, rate) - 1

    def decide(self, similarity: float, rate: float | None = None) -> CatalogDecision:
        """Return whether an image whose nearest has this cosine is in the catalog."""
        row = self.row_at(rate)
        threshold = self.thresholds[row]
        return CatalogDecision(
            similarity >= threshold, similarity, threshold, self.unknown_accepts[row], self.known_rejects[row]
        )


def catalog_threshold_from(payload: Any) -> CatalogThreshold | None:
    """Return what JSON says; a ValueError if it makes no sense."""
    if payload is None:
        return None
    columns = {name: tuple(float(value) for value in payload[name]) for name in COLUMNS}
    rows = {len(values) for values in columns.values()}
    falls = list(columns["thresholds"]) == sorted(columns["thresholds"], reverse=True)
    if len(rows) != 1 or rows == {0} or not falls or list(columns["passed"]) != sorted(columns["passed"]):
        raise ValueError("its threshold of the catalog makes no sense")
    balanced = int(payload["balanced"])
    if not 0 <= balanced < max(rows):
        raise ValueError("its threshold of the catalog has no such row")
    return CatalogThreshold(str(payload["images"]), **columns, balanced=balanced)
