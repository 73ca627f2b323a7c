"""The class of an image, by the vote of the images that are most like it.

    weight of a hit = exp((similarity - that of the nearest) / 0.07)
    share of a class = the weights of its hits / those of all hits that have a class

So a near image outweighs a few that are farther away, and several that are about as near outvote it. Classes are
ordered by their share, equal ones by their nearest image.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from .catalog import CatalogDecision
from .entries import Hit

VOTERS = 10  # images that vote, at the least
TEMPERATURE = 0.07  # of the cosine


class ClassVote(NamedTuple):
    """A class, and what speaks for it."""

    label: str
    share: float  # of the vote
    images: int  # that voted for it
    similarity: float  # of the nearest of them


def count_votes(hits: Sequence[Hit]) -> list[ClassVote]:
    """Return the classes of what was found, best first; `hits` are ordered, the nearest first."""
    labeled = [hit for hit in hits if hit.entry.label is not None and math.isfinite(hit.similarity)]
    weights: dict[str, list[float]] = {}
    nearest: dict[str, float] = {}
    for hit in labeled:
        label = str(hit.entry.label)
        nearest.setdefault(label, hit.similarity)
        weights.setdefault(label, []).append(math.exp((hit.similarity - labeled[0].similarity) / TEMPERATURE))
    total = sum(sum(some) for some in weights.values())
    votes = [ClassVote(label, sum(some) / total, len(some), nearest[label]) for label, some in weights.items()]
    return sorted(votes, key=lambda vote: -vote.share)  # stable: the nearest class stays first


def verdict(classes: Sequence[ClassVote], decision: CatalogDecision | None) -> str:
    """Return in words of which class an image is, or that it is of none that is there; empty if nobody knows."""
    if decision is not None and not decision.in_catalog:
        reach, miss = 100 * decision.unknown_accept_rate, 100 * decision.known_reject_rate
        return (
            f"not in the catalog: the nearest image has cosine {decision.similarity:.3f}, below the threshold of "
            f"{decision.threshold:.3f}, which {reach:.1f} % of the images of absent classes reach and {miss:.1f} % of "
            "those of present classes miss"
        )
    if not classes:
        return ""
    best = classes[0]
    images = "1 image" if best.images == 1 else f"{best.images} images"
    return f"{best.label}: {100 * best.share:.0f} % of the vote of the nearest, {images}"
