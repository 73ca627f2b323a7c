"""What a run's scores say first, and that the figures are those of plain loops."""

import pytest
import torch

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.training.runs.headline import headline, leading
from shadowmetric.app.training.scoring import scores_of_rows


def dataset(kind, labels):
    parts = {
        name: Split(ArrayImages(torch.zeros(len(some), 1, 8, 8, dtype=torch.uint8)), some.numpy())
        for name, some in labels.items()
    }
    return Dataset("a", kind, parts["train"], parts["test"], ("x", "y", "z"))


@pytest.fixture(scope="module")
def rows_and_labels():
    random = torch.Generator().manual_seed(0)
    sizes = {"train": 20, "test": 12}
    rows = {name: torch.randn(size, 4, generator=random) for name, size in sizes.items()}
    return rows, {name: torch.randint(3, (size,), generator=random) for name, size in sizes.items()}


def nearest_is_right(rows, labels):
    right = []
    for query, label in zip(rows["test"], labels["test"], strict=True):
        cosines = [float(torch.cosine_similarity(query, one, dim=0)) for one in rows["train"]]
        right.append(bool(labels["train"][max(range(len(cosines)), key=cosines.__getitem__)] == label))
    return sum(right) / len(right)


def test_known_classes_lead_with_the_nearest_training_image(rows_and_labels):
    rows, labels = rows_and_labels
    scores, figures = scores_of_rows(rows, dataset(STANDARD, labels))
    share = nearest_is_right(rows, labels)
    assert figures["nearest_in_training"] == pytest.approx(share)
    assert float(scores.per_query["nearest_in_training"].mean()) == pytest.approx(share)
    low, high = figures["intervals"]["nearest_in_training"]
    assert low <= share <= high
    assert leading(figures) == "nearest_in_training"
    first, second = headline(figures)
    assert first.startswith(
        f"Of 12 test images {100 * share:.2f} % (95 % interval {100 * low:.2f} to {100 * high:.2f})"
    )
    assert second.startswith("Recall@1 of the test images each searched for among the others: ")


def test_new_classes_have_only_each_other(rows_and_labels):
    rows, labels = rows_and_labels
    _, figures = scores_of_rows({"test": rows["test"]}, dataset(ZERO_SHOT, labels))
    assert "nearest_in_training" not in figures
    (only,) = headline(figures)
    assert "of classes that training never saw, each searched for among the others" in only


def test_scores_of_before_have_no_headline():
    assert headline({"recall_at_1": 0.5}) == []
