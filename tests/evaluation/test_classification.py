"""The class report equals scikit-learn and the plain loops, with sparse confusion and unpredicted queries."""

import math

import pytest
import reference
import torch
from batches import labels as some_labels
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
)
from test_memory import LargestAllocation

from shadowmetric.evaluation.classification import class_report

UNSEEN = 77  # a class that occurs only where `known` is false


@st.composite
def predicted(draw, most_rows=30):
    rows = draw(st.integers(1, most_rows))
    known = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    return draw(some_labels(rows)), draw(some_labels(rows)), torch.tensor(known)


def with_none(predictions, known):
    return [p if k else None for p, k in zip(predictions.tolist(), known.tolist(), strict=True)]


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(predicted())
def test_all_numbers_equal_scikit_learn(case):
    labels, predictions, _ = case
    report = class_report(labels, predictions)
    classes = sorted({*labels.tolist(), *predictions.tolist()})
    precision, recall, f1, support = precision_recall_fscore_support(
        labels.numpy(), predictions.numpy(), labels=classes, zero_division=0
    )
    assert report.labels.tolist() == classes
    torch.testing.assert_close(report.precision, torch.from_numpy(precision), rtol=1e-14, atol=0)
    torch.testing.assert_close(report.recall, torch.from_numpy(recall), rtol=1e-14, atol=0)
    torch.testing.assert_close(report.f1, torch.from_numpy(f1), rtol=1e-14, atol=0)
    assert report.support.tolist() == support.tolist()
    assert report.predicted.tolist() == [predictions.tolist().count(c) for c in classes]
    assert report.accuracy == pytest.approx(accuracy_score(labels, predictions), abs=1e-14)
    assert report.macro_f1 == pytest.approx(f1_score(labels, predictions, average="macro", zero_division=0), abs=1e-14)
    assert report.unpredicted == 0
    assert report.confusion.dense().tolist() == confusion_matrix(labels, predictions, labels=classes).tolist()


@pytest.mark.filterwarnings("ignore:A single label was found", "ignore:y_pred contains classes not in y_true")
@given(predicted())
def test_balanced_accuracy_equals_scikit_learn(case):
    labels, predictions, _ = case
    expected = balanced_accuracy_score(labels, predictions)
    assert class_report(labels, predictions).balanced_accuracy == pytest.approx(expected, abs=1e-14)


@given(predicted())
def test_unpredicted_queries_are_wrong_and_nothing_more(case):
    labels, predictions, known = case
    report = class_report(labels, torch.where(known, predictions, UNSEEN), known)
    guesses = with_none(predictions, known)
    assert report.macro_f1 == pytest.approx(reference.macro_f1(labels.tolist(), guesses), abs=1e-14)
    right = [label == guess for label, guess in zip(labels.tolist(), guesses, strict=True)]
    assert report.accuracy == pytest.approx(sum(right) / len(right), abs=1e-14)
    assert report.labels.tolist() == sorted({*labels.tolist(), *guesses} - {None})
    assert report.support.tolist() == [labels.tolist().count(c) for c in report.labels.tolist()]
    assert report.unpredicted == guesses.count(None)
    assert int(report.confusion.count.sum()) == int(known.sum())
    assert report.confusion.dense().sum(0).tolist() == report.predicted.tolist()


@given(predicted())
def test_confusion_is_sorted_and_sparse(case):
    labels, predictions, known = case
    confusion = class_report(labels, predictions, known).confusion
    cells = list(zip(confusion.true.tolist(), confusion.predicted.tolist(), strict=True))
    assert cells == sorted(set(zip(labels[known].tolist(), predictions[known].tolist(), strict=True)))
    assert (confusion.count > 0).all()


@given(predicted(), st.integers(0, 6))
def test_worst_classes_come_in_order(case, count):
    report = class_report(*case)
    rows = [row for row in report.rows() if row.support]
    worst = report.worst(count)
    assert len(worst) == min(count, len(rows))
    keys = [(row.f1, -row.support, row.label) for row in worst]
    assert keys == sorted((row.f1, -row.support, row.label) for row in rows)[:count]


def test_worst_breaks_ties_by_support_and_label():
    labels = torch.tensor([5, 5, 3, 3, 9, 9, 9, 1])
    predictions = torch.tensor([2, 2, 2, 2, 2, 2, 2, 1])  # 2 is never true: F1 0, and no row
    assert [row.label for row in class_report(labels, predictions).worst(10)] == [9, 3, 5, 1]
    assert class_report(labels, predictions).worst(0) == []


def test_never_predicting_the_rare_class_is_accurate_and_has_a_poor_macro_f1():
    labels = torch.cat([torch.zeros(980), torch.ones(20)]).long()
    report = class_report(labels, torch.zeros(1000).long())
    assert report.accuracy == 0.98
    assert report.macro_f1 == pytest.approx(0.4949, abs=1e-4)
    assert report.balanced_accuracy == 0.5
    assert report.f1[1] == report.precision[1] == 0


def test_macro_f1_sees_false_alarms_that_balanced_accuracy_does_not():
    labels = torch.tensor([0] * 90 + [1] * 10)
    few, many = labels.clone(), labels.clone()
    few[:2], many[:9] = 1, 1
    assert class_report(labels, many).macro_f1 < class_report(labels, few).macro_f1 - 0.1
    assert class_report(labels, many).balanced_accuracy > 0.94


def test_ten_thousand_classes_cost_little():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10_000, (60_000,), generator=generator)
    predictions = torch.randint(10_000, (60_000,), generator=generator)
    with LargestAllocation([labels, predictions]) as seen:
        report = class_report(labels, predictions)
    assert seen.largest < 2 * 2**20, seen.where
    with pytest.raises(ValueError, match="has 10000 classes, too many for a matrix of at most 2000"):
        report.confusion.dense()


def test_one_query_one_class_and_none():
    one = torch.tensor([2**63 - 1])
    report = class_report(one, one)
    assert (report.accuracy, report.macro_f1, report.balanced_accuracy) == (1.0, 1.0, 1.0)
    wrong = class_report(one, torch.tensor([-(2**63)]))
    assert (wrong.accuracy, wrong.macro_f1, wrong.balanced_accuracy) == (0.0, 0.0, 0.0)
    unknown = class_report(one, one, torch.tensor([False]))
    assert (unknown.accuracy, unknown.macro_f1, unknown.unpredicted) == (0.0, 0.0, 1)
    assert unknown.confusion.dense().tolist() == [[0]]
    nothing = class_report(one[:0], one[:0])
    assert math.isnan(nothing.accuracy)
    assert math.isnan(nothing.macro_f1)
    assert math.isnan(nothing.balanced_accuracy)
    assert nothing.worst(3) == []


def test_refusals():
    good = torch.arange(4)
    with pytest.raises(ValueError, match=r"predictions has shape \(3,\) for 4 rows of labels"):
        class_report(good, good[:3])
    with pytest.raises(ValueError, match=r"known is torch.int64 of shape \(4,\)"):
        class_report(good, good, good)
    with pytest.raises(ValueError, match=r"known is torch.bool of shape \(3,\)"):
        class_report(good, good, good[:3] > 0)
    with pytest.raises(ValueError, match=r"labels has shape \(2, 2\)"):
        class_report(good.view(2, 2), good)
