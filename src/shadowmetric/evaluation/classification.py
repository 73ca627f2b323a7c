"""Precision, recall and F1 of each class, and what follows from them, from true and predicted labels.

For a class c with t queries of c predicted right, s queries of c (support) and p queries predicted as c:

    precision = t / p        recall = t / s        F1 = 2 t / (s + p)        0 / 0 = 0
    accuracy          = queries predicted right / queries
    balanced accuracy = mean recall over the classes that have queries
    macro-F1          = mean F1 over the classes that occur among true or predicted labels

Why macro-F1. Where one class is rare (a disease, a defect) accuracy is mostly the common class: of 1,000 images
with 20 melanomas, "never melanoma" is right in 98 % of cases and has a macro-F1 of 0.49. Every class weighs the same
here, and false alarms count as well as misses, which balanced accuracy does not see. A class that is never predicted
has precision 0 and F1 0, and is part of the mean; so is a class that is predicted and never true.

A query without any neighbor has no prediction: it counts in its class's support and as wrong, and stands in
no cell of the confusion. These are scikit-learn's numbers with zero_division=0. No queries at all: the means are NaN.

Memory: a few numbers for each query and class. The confusion is kept as the cells that are not zero, so
10,000 classes cost nothing. Everything is done on the CPU.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_labels
from shadowmetric.evaluation.mutual_information import contingency

MOST_DENSE_CLASSES = 2000  # 32 MB


class ClassRow(NamedTuple):
    """One class of a report."""

    label: int
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


@dataclass(frozen=True)
class Confusion:
    """How many queries of one class were predicted as another; only cells above 0, by true, then by predicted."""

    true: Tensor  # (cells,) int64 labels
    predicted: Tensor  # (cells,) int64 labels
    count: Tensor  # (cells,) int64
    labels: Tensor  # (classes,) int64 ascending: the rows and columns of dense()

    def dense(self) -> Tensor:
        """Return the (classes, classes) matrix of counts: a row for each true class, a column for each predicted."""
        classes = len(self.labels)
        if classes > MOST_DENSE_CLASSES:
            raise ValueError(
                f"the confusion has {classes} classes, too many for a matrix of at most {MOST_DENSE_CLASSES}; "
                "use its true, predicted and count."
            )
        matrix = torch.zeros(classes, classes, dtype=torch.int64)
        rows, columns = (torch.searchsorted(self.labels, side) for side in (self.true, self.predicted))
        matrix[rows, columns] = self.count
        return matrix


@dataclass(frozen=True)
class ClassReport:
    """What the predictions did for each class, and in the mean."""

    labels: Tensor  # (classes,) int64 ascending: all that occur among true or predicted labels
    precision: Tensor  # (classes,) float64
    recall: Tensor  # (classes,) float64
    f1: Tensor  # (classes,) float64
    support: Tensor  # (classes,) int64: queries of the class
    predicted: Tensor  # (classes,) int64: queries predicted as the class
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    confusion: Confusion
    unpredicted: int  # queries without any neighbor

    def worst(self, count: int) -> list[ClassRow]:
        """Return the classes of lowest F1 that have queries; on ties the larger class, then the smaller label first."""
        rows = [row for row in self.rows() if row.support > 0]
        return sorted(rows, key=lambda row: (row.f1, -row.support, row.label))[: max(count, 0)]

    def rows(self) -> list[ClassRow]:
        """Return every class as a row, by label."""
        columns = (self.labels, self.precision, self.recall, self.f1, self.support, self.predicted)
        return [ClassRow(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]


def class_report(labels: Tensor, predictions: Tensor, known: Tensor | None = None) -> ClassReport:
    """Report on predictions (queries,) of the labels (queries,).

    known: (queries,) bool, which queries have a prediction at all; what stands in `predictions` for the others
    is ignored. None: all have.
    """
    labels, predictions, known = check_predictions(labels, predictions, known)
    cells = contingency(labels[known], predictions[known])
    classes, number = torch.unique(torch.cat([labels, predictions[known]]), return_inverse=True)
    support = torch.bincount(number[: len(labels)], minlength=len(classes))
    predicted = torch.bincount(number[len(labels) :], minlength=len(classes))
    right = cells.label == cells.cluster
    hits = torch.zeros_like(support)
    hits[torch.searchsorted(classes, cells.label[right])] = cells.items[right]
    recall = _share(hits, support)
    f1 = _share(2 * hits, support + predicted)
    return ClassReport(
        labels=classes,
        precision=_share(hits, predicted),
        recall=recall,
        f1=f1,
        support=support,
        predicted=predicted,
        accuracy=float(hits.sum() / labels.new_tensor(len(labels), dtype=torch.float64)),
        balanced_accuracy=float(recall[support > 0].mean()),
        macro_f1=float(f1.mean()),
        confusion=Confusion(cells.label, cells.cluster, cells.items, classes),
        unpredicted=int((~known).sum()),
    )


def check_predictions(labels: Tensor, predictions: Tensor, known: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels, predictions and known on the CPU, or refuse what is not one of each for each query."""
    if isinstance(labels, Tensor) and labels.ndim != 1:
        raise ValueError(f"labels has shape {tuple(labels.shape)}; give one label for each query, as one dimension.")
    labels = check_labels(labels, labels)
    predictions = check_labels(predictions, labels, "predictions", "labels")
    known = torch.ones_like(labels, dtype=torch.bool) if known is None else known
    if known.dtype != torch.bool or known.shape != labels.shape:
        raise ValueError(
            f"known is {known.dtype} of shape {tuple(known.shape)} for {len(labels)} queries; give one bool for each."
        )
    return labels.cpu(), predictions.cpu(), known.cpu()


def _share(part: Tensor, whole: Tensor) -> Tensor:
    return part.double() / whole.clamp_min(1)
