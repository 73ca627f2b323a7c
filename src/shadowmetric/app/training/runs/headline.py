"""What a run's scores say first: the figure that fits how its images will be used, with its interval; then the other.

    nearest_in_training    the share of test images whose nearest training image is of their class: a shop that has
                           images of all that it sells asks this. There where training and test share their classes
    recall_at_1            the share of test images whose nearest other test image is of their class, or in the gallery
                           that the dataset brings. It leads where test classes are new

Intervals are over test images: those of a bootstrap, at 95 %. They say nothing about another seed of training.
"""

from collections.abc import Mapping
from typing import Any

NEAREST = "nearest_in_training"
RECALL = "recall_at_1"


def leading(scores: Mapping[str, Any]) -> str:
    """Return the figure that fits the split."""
    return RECALL if scores.get(NEAREST) is None else NEAREST


def headline(scores: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each of the two figures that there is, the one that fits first; nothing for old scores."""
    if not scores.get("intervals"):
        return []
    names = dict.fromkeys((leading(scores), RECALL))
    return [SENTENCES[name](scores, with_interval(scores, name)) for name in names if scores.get(name) is not None]


def with_interval(scores: Mapping[str, Any], name: str) -> str:
    """Return a figure in per cent with its interval."""
    low, high = scores["intervals"][name]
    return f"{100 * scores[name]:.2f} % (95 % interval {100 * low:.2f} to {100 * high:.2f})"


def about_nearest(scores: Mapping[str, Any], figure: str) -> str:
    """Say how often the nearest training image is right."""
    return (
        f"Of {scores['setting']['of_queries']:,} test images {figure} have a training image of their class as the "
        "nearest one."
    )


def about_recall(scores: Mapping[str, Any], figure: str) -> str:
    """Say how often the nearest test image, or image of the gallery, is right."""
    unseen = ", of classes that training never saw," if scores.get("unseen_classes") else ""
    if scores["setting"]["protocol"] == "leave-one-out":
        return f"Recall@1 of the test images{unseen} each searched for among the others: {figure}."
    return f"Recall@1 of the test images{unseen} each searched for in the gallery: {figure}."


SENTENCES = {NEAREST: about_nearest, RECALL: about_recall}
