"""The table of losses: every test of what must hold for all of them is driven from here.

A loss is entered once, as an `Entry` of ROWS or CENTERS: its module, its plain loops in reference.py, the settings that
it is tried with, and what is special about it. Of the losses of triplets, Shadow is tried with every miner that it can
have, the others with those that compare in the loss's unit, and with every triplet as a stream.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import reference
from torch import nn

import shadowmetric as sm

CLASSES = 6
MINERS = {
    "semi_hard": "semi_hard",
    "hard": "hard",
    "batch_hard": "batch_hard",
    "all": "all",
    "window": sm.SemiHardMiner(0.2, "all"),
    "fallback": sm.SemiHardMiner(0.2, fallback="farthest"),
    "nearest_positive": sm.SemiHardMiner(0.5, positives="nearest"),
}
BY_NAME = ("semi_hard", "hard", "all")
MINED = {
    "shadow": sm.ShadowLoss,
    "triplet": sm.TripletLoss,
    "soft_margin": sm.SoftMarginTripletLoss,
    "angular_triplet": sm.AngularTripletLoss,
}


@dataclass(frozen=True)
class Entry:
    """A loss of whole rows or of centers, by its name in `losses/catalogue.py`.

    loops: of (embeddings, labels, **settings); those of centers of (embeddings, labels, centers, **settings).
    other: a value of each setting that is not its default, which the function beside the module takes too.
    forms: settings that are tried, of module and loops alike, by a name.
    light: tried with few examples and in few ways, since another loss goes the same way through the code.
    references, triplets: whether the loops know them. All triplets given is all pairs where the loops know none.
    smooth: settings at which finite differences know its gradient; None: nowhere.
    kept_without: settings without which memory grows with something else than rows.
    kernels: above the budget of test_budgets.py, by the rows of a batch.
    distances: a root at 0 magnifies a rounding of 1e-16 to 1e-8.
    drawn: by the numbers of rows and classes, so that their order and names matter.
    waits: whether the host chooses, which an accelerator waits for.
    """

    module: Callable[..., Any]
    loops: Callable[..., Any]
    other: dict[str, Any]
    forms: dict[str, dict[str, Any]] = field(default_factory=lambda: {"": {}})
    light: bool = True
    references: bool = True
    triplets: bool = False
    smooth: dict[str, Any] | None = field(default_factory=dict)
    kept_without: dict[str, Any] = field(default_factory=dict)
    kernels: dict[int, int] = field(default_factory=dict)
    distances: bool = False
    drawn: bool = False
    waits: bool = False

    def names(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the settings of each form by the name of loss and form."""
        return {f"{name}/{form}" if form else name: settings for form, settings in self.forms.items()}


ROWS = {
    "angular": Entry(
        sm.AngularLoss,
        reference.angular,
        {"degrees": 40.0},
        light=False,
        references=False,
        triplets=True,
        kernels={4096: 280, 16384: 2600},
    ),
    "multi_similarity": Entry(
        sm.MultiSimilarityLoss,
        reference.multi_similarity,
        {"alpha": 1.0, "beta": 20.0, "base": 0.4, "epsilon": 0.2},
        {"": {}, "printed": {"base": 1.0}},
        light=False,
        triplets=True,
        kernels={16384: 1000},
    ),
    "contrastive": Entry(
        sm.ContrastiveLoss,
        reference.contrastive,
        {"margin": 0.8, "squared": False, "reduction": "mean_nonzero"},
        {"": {}, "plain": {"squared": False, "reduction": "mean_nonzero"}, "sum": {"reduction": "sum"}},
        light=False,
        triplets=True,
        kernels={16384: 850},
        distances=True,
    ),
    "lifted_structure": Entry(
        sm.LiftedStructureLoss,
        reference.lifted_structure,
        {"margin": 0.8},
        light=False,
        references=False,
        kernels={16384: 550},
        distances=True,
    ),
    "n_pair": Entry(
        sm.NPairLoss,
        reference.n_pair,
        {"temperature": 0.5, "l2_weight": 0.1},
        {"": {}, "l2": {"l2_weight": 0.02, "temperature": 0.5}},
        light=False,
        kernels={16384: 550},
    ),
    "ranked_list": Entry(
        sm.RankedListLoss,
        reference.ranked_list,
        {"alpha": 1.0, "margin": 0.3, "temperature": 5.0, "balance": 0.4},
        light=False,
        smooth={"temperature": 0.0},  # its weights are constants by definition
        kernels={16384: 1100},
        distances=True,
    ),
    "sup_con": Entry(sm.SupConLoss, reference.sup_con, {"temperature": 0.5}, triplets=True, kernels={16384: 600}),
    "info_nce": Entry(sm.InfoNCELoss, reference.info_nce, {"temperature": 0.5}, kernels={16384: 560}),
    "circle": Entry(
        sm.CircleLoss,
        reference.circle,
        {"margin": 0.25, "scale": 16.0},
        smooth=None,
        kernels={32: 170, 1024: 170, 16384: 1200},
    ),
    "siglip": Entry(sm.SigLIPLoss, reference.siglip, {"scale": 5.0, "bias": -3.0}, triplets=True, kernels={16384: 540}),
    "smooth_ap": Entry(
        sm.SmoothAPLoss,
        reference.smooth_ap,
        {"temperature": 0.1},
        triplets=True,
        kernels={32: 210, 1024: 210, 4096: 330, 16384: 3300},
    ),
    "recall_at_k": Entry(
        sm.RecallAtKLoss,
        reference.recall_at_k,
        {"k": (1, 3), "temperature": 0.1, "rank_temperature": 0.5},
        kernels={32: 340, 1024: 340, 4096: 500, 16384: 5000},
    ),
    "fast_ap": Entry(sm.FastAPLoss, reference.fast_ap, {"bins": 6}, kernels={32: 180, 1024: 180, 16384: 850}),
    "histogram": Entry(
        sm.HistogramLoss, reference.histogram, {"bins": 30}, kept_without={"bins": 20}, kernels={16384: 850}
    ),
    "global": Entry(
        sm.GlobalLoss,
        reference.global_loss,
        {"margin": 0.3, "weight": 0.5},
        triplets=True,
        kernels={32: 230, 1024: 230, 16384: 1300},
    ),
    "clustering": Entry(
        sm.ClusteringLoss,
        reference.clustering,
        {"gamma": 0.5, "candidates": 5},
        smooth=None,  # where a medoid changes
        distances=True,
        waits=True,
    ),
    "margin": Entry(
        sm.MarginLoss,
        reference.margin,
        {"margin": 0.3, "beta": 1.0, "seed": 3},
        {"": {}, "seeded": {"seed": 7, "margin": 0.5}},
        triplets=True,
        smooth=None,  # the pairs are drawn by distance
        distances=True,
        drawn=True,
        kernels={32: 300, 1024: 300, 4096: 300, 16384: 1020},
    ),
}
CENTERS = {
    "soft_triple": Entry(
        sm.SoftTripleLoss,
        lambda e, y, w, centers_per_class, **s: reference.soft_triple(
            e, y, w.unflatten(0, (-1, centers_per_class)), **s
        ),
        {"centers_per_class": 3, "scale": 10.0, "gamma": 0.2, "tau": 0.1, "margin": 0.02},
        {"": {"centers_per_class": 3}},
        light=False,
        kept_without={"tau": 0.0},
        kernels={1024: 165},
    ),
    "arc_face": Entry(sm.ArcFaceLoss, reference.arc_face, {"scale": 32.0, "margin": 0.3}, light=False),
    "proxy_anchor": Entry(sm.ProxyAnchorLoss, reference.proxy_anchor, {"margin": 0.2, "alpha": 8.0}),
    "proxy_nca": Entry(
        sm.ProxyNCALoss,
        reference.proxy_nca,
        {"temperature": 0.5, "denominator": "others"},
        {"": {}, "first": {"temperature": 1.0, "denominator": "others"}},
    ),
    "cos_face": Entry(sm.CosFaceLoss, reference.cos_face, {"scale": 32.0, "margin": 0.2}),
    "sub_center_arc_face": Entry(
        sm.SubCenterArcFaceLoss,
        reference.sub_center_arc_face,
        {"centers_per_class": 2, "scale": 32.0, "margin": 0.3},
        {"": {"centers_per_class": 3}},
        kernels={1024: 160},
    ),
    "group": Entry(
        sm.GroupLoss,
        reference.group,
        {"temperature": 0.3, "iterations": 2, "anchors": 2},
        {"": {}, "longer": {"iterations": 3, "anchors": 0}},
        drawn=True,
        kernels={32: 360, 1024: 360, 4096: 360, 16384: 430},
    ),
}
ENTRIES = ROWS | CENTERS


def forms_of(entries: dict[str, Entry]) -> dict[str, tuple[Entry, dict[str, Any]]]:
    """Return each loss in each of its forms: the entry and the settings."""
    return {form: (entry, own) for name, entry in entries.items() for form, own in entry.names(name).items()}


def maker(entry: Entry, own: dict[str, Any], *, of_centers: bool) -> Callable[..., nn.Module]:
    """Return what makes a loss for a dimension and a number of classes."""
    if of_centers:
        return lambda dim, classes=CLASSES, **settings: entry.module(classes, dim, **(own | settings))
    return lambda dim, classes=CLASSES, **settings: entry.module(**(own | settings))


OF_ROWS = {name: maker(*form, of_centers=False) for name, form in forms_of(ROWS).items()}
OF_CENTERS = {name: maker(*form, of_centers=True) for name, form in forms_of(CENTERS).items()}
LOSSES: dict[str, Callable[..., nn.Module]] = (
    {
        f"{name}/{miner}": lambda dim, make=make, chosen=chosen: make(miner=chosen)
        for name, make in MINED.items()
        for miner, chosen in MINERS.items()
        if name == "shadow" or miner in BY_NAME
    }
    | {
        "shadow/sum": lambda dim: sm.ShadowLoss(miner="hard", reduction="sum"),
        "shadow/mean_nonzero": lambda dim: sm.ShadowLoss(miner="hard", reduction="mean_nonzero"),
        "shadow/free": lambda dim: sm.ShadowLoss(miner="hard", normalize=False),
        "shadow/free_semi_hard": lambda dim: sm.ShadowLoss(normalize=False),
        "shadow/free_window": lambda dim: sm.ShadowLoss(
            miner=sm.SemiHardMiner(0.2, "all", unit="gap", normalize=False), normalize=False
        ),
        "triplet/free": lambda dim: sm.TripletLoss(normalize=False),
        "contrastive/sum": lambda dim: sm.ContrastiveLoss(squared=False, reduction="sum"),
        "n_pair/l2": lambda dim: sm.NPairLoss(normalize=False, l2_weight=0.1),
    }
    | {name: make for name, make in (OF_ROWS | OF_CENTERS).items() if "/" not in name}
)


def of_distances(name: str) -> bool:
    """Return whether a root at 0 magnifies a rounding of 1e-16 to 1e-8."""
    entry = ENTRIES.get(name.partition("/")[0])
    return entry.distances if entry else name.startswith("soft_margin")


def is_light(name: str) -> bool:
    """Return whether few examples are enough, since another loss goes the same way through the code."""
    entry = ENTRIES.get(name.partition("/")[0])
    return entry is not None and entry.light


def is_drawn(name: str) -> bool:
    """Return whether the order of rows and the names of classes decide what is drawn."""
    entry = ENTRIES.get(name.partition("/")[0])
    return entry is not None and entry.drawn


def has_centers(name: str) -> bool:
    """Return whether labels name centers, so that they must be 0 to classes - 1."""
    return name in OF_CENTERS
