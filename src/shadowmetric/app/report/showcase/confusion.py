"""Which class is taken for which, by the vote that accuracy is defined by.

Where there are more classes than fit, those with most mistakes are shown: images of the class that were voted
elsewhere, and images of others that were voted into it. The rest is one column, so that rows still count all
images of a class.

Memory: the matrix that is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from shadowmetric.evaluation.classification import ClassReport


@dataclass(frozen=True)
class Confused:
    """A row for each true class; a column for each voted class, and one for all other classes if some are not shown."""

    classes: list[str]
    counts: list[list[int]]  # the last column is of other classes if `of` is more than there are classes
    of: int  # classes in all
    queries: int  # that were voted on, in all
    accuracy: float
    neighbors: int
    voters: str


def confusion_of(report: ClassReport, names: Sequence[str], most: int, neighbors: int, voters: str) -> Confused:
    """Return the confusion of the classes with most mistakes, in the order of their labels."""
    cells, support = report.confusion, report.support
    mistakes = support.clone()
    right = cells.true == cells.predicted
    mistakes[torch.searchsorted(report.labels, cells.true[right])] -= 2 * cells.count[right]
    mistakes += report.predicted
    order = torch.argsort(mistakes, descending=True, stable=True)[:most].sort().values
    labels: list[int] = report.labels[order].tolist()
    place = {label: number for number, label in enumerate(labels)}
    others = len(report.labels) > len(labels)
    counts = [[0] * (len(labels) + int(others)) for _ in labels]
    for true, voted, count in zip(cells.true.tolist(), cells.predicted.tolist(), cells.count.tolist(), strict=True):
        if true in place:
            counts[place[true]][place.get(voted, -1)] += count
    return Confused(
        [names[label] for label in labels],
        counts,
        len(report.labels),
        int(support.sum()),
        report.accuracy,
        neighbors,
        voters,
    )
