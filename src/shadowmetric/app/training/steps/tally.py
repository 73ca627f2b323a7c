"""Sums over the batches of an epoch; part of the run's state, so that a resumed epoch has the journal of a whole one.

loss, pushed, gradient     means over batches: value, share of rows with a gradient, mean length of a row's gradient
dead, one_class            batches that taught nothing, batches with one label
active, gaps, mean_cosine  means over the looks that were taken; so are row_length and anchor_gradient
"""

from typing import Any

from shadowmetric.app.training.steps.watch import QUANTILES, Look

GAPS = tuple(f"{side}_gap_{round(100 * share)}" for side in ("positive", "negative") for share in QUANTILES)


class Tally:
    """Sums by name, kept in a plain dictionary."""

    def __init__(self, sums: dict[str, float]):
        self.sums = sums

    def add(self, **values: float | int) -> None:
        """Add to the sums of these names."""
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def add_look(self, seen: Look) -> None:
        """Add what a look found; quantiles that there are not count for nothing."""
        self.add(looks=1, mean_cosine=seen.mean_cosine, row_length=seen.row_length)
        if seen.anchor_gradient is not None:
            self.add(gradient_looks=1, anchor_gradient=seen.anchor_gradient)
        if seen.active is not None:
            self.add(active=seen.active)
        if seen.positive_gaps and seen.negative_gaps:
            values = (*seen.positive_gaps, *seen.negative_gaps)
            self.add(gap_looks=1, **dict(zip(GAPS, values, strict=True)))

    def mean(self, name: str, over: str = "batches") -> float | None:
        """Return a sum divided by another; None if there is nothing."""
        if name not in self.sums or not self.sums.get(over):
            return None
        return self.sums[name] / self.sums[over]

    def line(self) -> dict[str, Any]:
        """Return the journal's share of an epoch."""
        seconds = self.sums.get("seconds", 0.0)
        return {
            **{name: self.mean(name) for name in ("loss", "pushed", "gradient")},
            **{name: int(self.sums.get(name, 0)) for name in ("batches", "images", "dead", "one_class")},
            **{name: self.mean(name, "looks") for name in ("active", "mean_cosine", "row_length")},
            "anchor_gradient": self.mean("anchor_gradient", "gradient_looks"),
            **{name: self.mean(name, "gap_looks") for name in GAPS},
            "seconds": seconds,
            "images_per_second": self.sums.get("images", 0.0) / max(seconds, 1e-9),
        }
