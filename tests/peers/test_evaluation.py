"""Measures of other libraries beside ours: pytorch-metric-learning, torchmetrics and scikit-learn.

Their own functions compute one side, on rankings without ties: what a tie is worth, libraries do not agree about
(docs/evaluation.md). torchmetrics takes a relevant item whose score is 0 or less for one that was not found, so its
functions get cosines + 2.
"""

import inspect
import math

import pytest
import torch
from pytorch_metric_learning import distances
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn import metrics
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor
from torch.nn.functional import normalize
from torchmetrics.functional import retrieval
from torchmetrics.functional.classification import binary_auroc, multiclass_accuracy, multiclass_f1_score
from torchmetrics.functional.clustering import adjusted_mutual_info_score, normalized_mutual_info_score

import shadowmetric as sm
from shadowmetric.evaluation.mutual_information import ami, nmi

SIZES = [1, 2, 3, 5, 8, 13, 21]  # of the classes; one row is alone
KS = (1, 2, 4, 8)
CLOSE = {"rel": 1e-6, "abs": 1e-7}  # they compute in float32


@pytest.fixture(scope="module")
def rows() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(len(SIZES), 8, generator=generator)
    return normalize(centers[labels_of()] + torch.randn(sum(SIZES), 8, generator=generator))


def labels_of() -> Tensor:
    labels = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]


@pytest.fixture(scope="module")
def scores(rows) -> sm.Scores:
    return sm.evaluate(rows, labels_of(), recall_at=KS, precision_at=KS, progress=False)


def searches(rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return (cosines + 2, relevant) of each query that is not lone, without itself."""
    labels, cosines = labels_of(), (rows.double() @ rows.double().T).float() + 2
    others = ~torch.eye(len(rows), dtype=torch.bool)
    found = [(cosines[q][others[q]], (labels == labels[q])[others[q]]) for q in range(len(rows))]
    return [(scored, relevant) for scored, relevant in found if relevant.any()]


def mean(values: list[Tensor]) -> float:
    return math.fsum(map(float, values)) / len(values)


RETRIEVAL = {  # each of theirs, and the field of ours
    "retrieval_hit_rate": "recall_at",
    "retrieval_precision": "precision_at",
    "retrieval_recall": "ir_recall_at",
    "retrieval_r_precision": "r_precision",
    "retrieval_reciprocal_rank": "reciprocal_rank",
}
BY_RELATION = {"retrieval_average_precision"}
NOT_HERE = {"retrieval_auroc", "retrieval_fall_out", "retrieval_normalized_dcg", "retrieval_precision_recall_curve"}


def test_every_retrieval_measure_of_torchmetrics_is_here_or_said_not_to_be():
    theirs = {name for name, one in vars(retrieval).items() if inspect.isfunction(one)}
    assert set(RETRIEVAL) | BY_RELATION | NOT_HERE == theirs


@pytest.mark.parametrize("name", RETRIEVAL)
def test_retrieval_of_torchmetrics(name, rows, scores):
    theirs, ours = getattr(retrieval, name), getattr(scores, RETRIEVAL[name])
    if not isinstance(ours, dict):
        assert mean([theirs(*search) for search in searches(rows)]) == pytest.approx(ours, **CLOSE)
    else:
        for k in KS:
            assert mean([theirs(*search, top_k=k) for search in searches(rows)]) == pytest.approx(ours[k], **CLOSE)


def test_map_at_r_is_their_average_precision_of_the_first_r_times_r_precision(rows, scores):
    """Theirs divides by what was found among the first R, ours by R."""
    parts = []
    for scored, relevant in searches(rows):
        count = int(relevant.sum())
        found = retrieval.retrieval_average_precision(scored, relevant, top_k=count)
        parts.append(found * retrieval.retrieval_r_precision(scored, relevant))
    assert mean(parts) == pytest.approx(scores.map_at_r, **CLOSE)


OF_CALCULATOR = {
    "precision_at_1": lambda scores: scores.recall_at[1],
    "r_precision": lambda scores: scores.r_precision,
    "mean_average_precision_at_r": lambda scores: scores.map_at_r,
    "mean_reciprocal_rank": lambda scores: scores.reciprocal_rank,
}
NOT_OF_OURS = {"mean_average_precision", "NMI", "AMI"}  # of the first k; of other clusters


def test_the_accuracy_calculator_of_pml(rows, scores):
    calculator = AccuracyCalculator(k=None, knn_func=CustomKNN(distances.CosineSimilarity()))
    assert set(calculator.get_curr_metrics()) == set(OF_CALCULATOR) | NOT_OF_OURS
    figures = calculator.get_accuracy(rows, labels_of(), include=tuple(OF_CALCULATOR))
    for name, ours in OF_CALCULATOR.items():
        assert figures[name] == pytest.approx(ours(scores), **CLOSE), name


def test_accuracy_and_macro_f1_of_the_votes(scores):
    labels, prediction = labels_of(), scores.vote.prediction
    assert bool(scores.vote.known.all())
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(labels, prediction))
    assert scores.macro_f1 == pytest.approx(metrics.f1_score(labels, prediction, average="macro"))
    classes = len(SIZES)
    accuracy = multiclass_accuracy(prediction, labels, classes, average="micro")
    f1 = multiclass_f1_score(prediction, labels, classes, average="macro")
    assert (float(accuracy), float(f1)) == pytest.approx((scores.accuracy, scores.macro_f1), **CLOSE)


def test_the_votes_of_neighbors(rows, scores):
    """A query at a time, since their classifier keeps a query in its gallery; equal counts are broken otherwise."""
    labels = labels_of()
    for query in range(len(rows)):
        others = torch.arange(len(rows)) != query
        fitted = KNeighborsClassifier(5, metric="cosine").fit(rows[others], labels[others])
        count = fitted.predict_proba(rows[query : query + 1])[0]
        chosen = int((fitted.classes_ == int(scores.vote.prediction[query])).argmax())
        assert count[chosen] == count.max()


@pytest.mark.parametrize(("ours", "theirs"), [("euclidean", "euclidean"), ("cosine", "cosine")])
def test_silhouette(rows, ours, theirs):
    labels = labels_of()
    found = sm.evaluate(rows, labels, measures=["silhouette"], silhouette_distance=ours, progress=False)
    wanted = metrics.silhouette_score(normalize(rows.double()).numpy(), labels.numpy(), metric=theirs)
    assert found.silhouette == pytest.approx(wanted, rel=1e-6)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
def test_mutual_information():
    generator = torch.Generator().manual_seed(0)
    labels, clusters = labels_of(), torch.randint(0, 5, (sum(SIZES),), generator=generator)
    for ours, *theirs in (
        (nmi, metrics.normalized_mutual_info_score, normalized_mutual_info_score),
        (ami, metrics.adjusted_mutual_info_score, adjusted_mutual_info_score),
    ):
        for other in theirs:
            assert float(other(labels, clusters)) == pytest.approx(ours(labels, clusters), rel=1e-5, abs=1e-6)


def test_the_area_of_verification(rows, scores):
    labels, cosines = labels_of(), rows.double() @ rows.double().T
    above = torch.triu(torch.ones_like(cosines), 1) > 0
    same = (labels[:, None] == labels)[above]
    wanted = metrics.roc_auc_score(same.numpy(), cosines[above].numpy())
    assert scores.verification.roc_auc == pytest.approx(wanted, abs=1e-5)
    assert float(binary_auroc(cosines[above], same.long())) == pytest.approx(wanted, abs=1e-5)
