"""What an evaluation found: the figures, what they were measured on, and the values of each query behind them.

Figures are fractions. One that was not asked for is NaN, and so is one that has no value (every query is lone,
one class only); `as_dict` leaves out the former and keeps the latter.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shadowmetric.evaluation.bootstrap import Interval, bootstrap_interval, macro_f1_interval
from shadowmetric.evaluation.classification import ClassReport
from shadowmetric.evaluation.collapse import Collapse
from shadowmetric.evaluation.neighbors import Vote
from shadowmetric.evaluation.paired import PairedTest, paired_test
from shadowmetric.evaluation.verification import Verification

HARDEST_FIRST = ("map_at_r", "r_precision", "reciprocal_rank", "accuracy", "silhouette")


class Setting(NamedTuple):
    """What was measured, and how: a figure means nothing without it."""

    protocol: str  # "leave-one-out" or "query-gallery"
    queries: int
    of_queries: int  # the set that the queries were drawn from; the same number unless sampled
    gallery: int
    dim: int
    classes: int  # of the queries; of a relation, how many differ in what is known of them
    lone_queries: int  # without a relevant item: in no retrieval figure
    neighbors: int  # that vote on a class
    silhouette_distance: str
    seed: int


class HardQuery(NamedTuple):
    """A query that went wrong, with the neighbor that stood nearest."""

    row: int
    label: int
    value: float  # of the measure that it was chosen by
    nearest: int  # gallery row, -1 if unknown
    nearest_label: int
    similarity: float


class HardClass(NamedTuple):
    """A class whose queries went wrong."""

    label: int
    queries: int
    value: float  # mean over its queries


@dataclass(frozen=True, repr=False)
class Scores:
    """The figures of one evaluation."""

    setting: Setting
    recall_at: dict[int, float] = field(default_factory=dict)
    precision_at: dict[int, float] = field(default_factory=dict)
    ir_recall_at: dict[int, float] = field(default_factory=dict)  # of all relevant items
    ndcg_at: dict[int, float] = field(default_factory=dict)  # by grades
    r_precision: float = math.nan
    map_at_r: float = math.nan
    reciprocal_rank: float = math.nan
    silhouette: float = math.nan
    accuracy: float = math.nan
    macro_f1: float = math.nan
    nmi: float = math.nan
    ami: float = math.nan
    verification: Verification | None = None
    collapse: Collapse | None = None
    report: ClassReport | None = None  # of each class, with the confusion
    vote: Vote | None = None  # predictions and neighbors
    per_query: dict[str, Tensor] = field(default_factory=dict)  # (queries,) float64 each, NaN for lone queries
    labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))  # of the queries
    gallery_labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    query_rows: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))  # in the set given

    def figures(self) -> dict[str, float]:
        """Return the figures that were asked for, by name: recall_at_1, map_at_r, ..."""
        figures = {f"recall_at_{k}": value for k, value in self.recall_at.items()}
        figures |= {f"precision_at_{k}": value for k, value in self.precision_at.items()}
        figures |= {f"ir_recall_at_{k}": value for k, value in self.ir_recall_at.items()}
        figures |= {f"ndcg_at_{k}": value for k, value in self.ndcg_at.items()}
        named = {
            "r_precision": self.r_precision,
            "map_at_r": self.map_at_r,
            "reciprocal_rank": self.reciprocal_rank,
            "silhouette": self.silhouette,
            "accuracy": self.accuracy,
        }
        figures |= {name: value for name, value in named.items() if name in self.per_query}
        if self.report is not None:
            figures["macro_f1"] = self.macro_f1
        return figures | ({} if math.isnan(self.nmi) else {"nmi": self.nmi, "ami": self.ami})

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the values of each query, in plain Python."""
        summary: dict[str, Any] = {"setting": self.setting._asdict()}
        summary |= self.figures()
        if self.verification is not None:
            summary["verification"] = dict(vars(self.verification))
        if self.collapse is not None:
            summary["collapse"] = vars(self.collapse) | {"variance": self.collapse.variance.tolist()}
        return summary

    def interval(self, name: str, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Interval:
        """Return the bootstrap interval of a figure over its queries."""
        if name == "macro_f1" and self.vote is not None:
            vote = self.vote
            return macro_f1_interval(
                self.labels, vote.prediction, vote.known, level=level, resamples=resamples, seed=seed
            )
        if name not in self.per_query:
            raise ValueError(f"{name!r} has no value for each query; there are {', '.join(self.per_query)}, macro_f1.")
        return bootstrap_interval(self.per_query[name], level=level, resamples=resamples, seed=seed)

    def compared_with(self, other: "Scores", name: str, *, level: float = 0.95, seed: int = 0) -> PairedTest:
        """Test whether this run is better than another one on the same queries."""
        pairs = ((self.labels, other.labels), (self.query_rows, other.query_rows))
        if not all(torch.equal(mine.cpu(), theirs.cpu()) for mine, theirs in pairs):
            raise ValueError("the two evaluations have different queries; compare runs on the same ones.")
        for scores in (self, other):
            if name not in scores.per_query:
                raise ValueError(f"{name!r} has no value for each query; there are {', '.join(scores.per_query)}.")
        return paired_test(self.per_query[name], other.per_query[name], level=level, seed=seed)

    def hardest_by(self) -> str | None:
        """Return the measure that queries and classes are sorted by: the finest that there is."""
        return next((name for name in (*HARDEST_FIRST, *self.per_query) if name in self.per_query), None)

    def hardest_queries(self, count: int = 10) -> list[HardQuery]:
        """Return the queries with the lowest values, lone ones left out, with the neighbor nearest to each."""
        name = self.hardest_by()
        if name is None:
            return []
        values = self.per_query[name].cpu()
        there = int((~values.isnan()).sum())  # NaN is sorted last
        order = torch.argsort(values, stable=True)[: min(max(count, 0), there)].tolist()
        return [self._hard_query(query, float(values[query])) for query in order]

    def hardest_classes(self, count: int = 10) -> list[HardClass]:
        """Return the classes with the lowest mean value over their queries, lone ones left out."""
        name = self.hardest_by()
        if name is None:
            return []
        values = self.per_query[name].cpu()
        there = ~values.isnan()
        classes, place = torch.unique(self.labels.cpu()[there], return_inverse=True)
        size = torch.bincount(place, minlength=len(classes))
        means = torch.bincount(place, weights=values[there], minlength=len(classes)) / size
        order = torch.argsort(means, stable=True)[:count].tolist()
        return [HardClass(int(classes[i]), int(size[i]), float(means[i])) for i in order]

    def _hard_query(self, query: int, value: float) -> HardQuery:
        nearest, nearest_label, similarity = -1, -1, math.nan
        if self.vote is not None and bool(self.vote.known[query]):
            nearest, similarity = int(self.vote.row[query, 0]), float(self.vote.similarity[query, 0])
            nearest_label = int(self.gallery_labels[nearest])
        return HardQuery(
            int(self.query_rows[query]), int(self.labels[query]), value, nearest, nearest_label, similarity
        )

    def __repr__(self) -> str:
        figures = ", ".join(f"{name}={value:.4f}" for name, value in self.figures().items())
        lone = f", {self.setting.lone_queries:,} of them lone" if self.setting.lone_queries else ""
        return f"Scores({figures}; {self.setting.queries:,} queries{lone}, {self.setting.protocol})"
