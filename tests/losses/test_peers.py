"""Losses that pytorch-metric-learning has too: the same value and gradient, where both mean the same."""

import pytest
import torch
from batches import plain_batch
from every_loss import CENTERS, CLASSES, ENTRIES

from benchmarks.losses.peers import OURS, THEIRS

losses = pytest.importorskip("pytorch_metric_learning.losses")
ROWS, DIM = 36, 8  # rows of each class as many as classes: its Smooth-AP cuts the batch wrongly otherwise


def pair(name: str):
    """Return both losses in float64, theirs with our centers."""
    theirs, entry = THEIRS[name](losses, CLASSES, DIM).double(), ENTRIES[name]
    if name not in CENTERS:
        return entry.module(**OURS.get(name, {})), theirs
    ours = entry.module(CLASSES, DIM, **OURS.get(name, {})).double()
    weights = theirs.W if hasattr(theirs, "W") else theirs.proxies
    weights.data = ours.centers.data.T.clone() if hasattr(theirs, "W") else ours.centers.data.clone()
    return ours, theirs


def value_and_gradient(loss, embeddings, labels, **against):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels, **{name: leaf if name == "references" else given for name, given in against.items()})
    value.backward()
    return value.detach().double(), leaf.grad


@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("name", THEIRS)
def test_a_loss_is_its_peer(name):
    ours, theirs = pair(name)
    embeddings, labels = plain_batch(rows=ROWS, dim=DIM, per_class=6)
    against = {}
    if name == "smooth_ap":  # a row is among what it ranks there
        against = {"references": embeddings, "reference_labels": labels, "anchors_at": "elsewhere"}
    found = value_and_gradient(ours, embeddings, labels, **against)
    wanted = value_and_gradient(theirs, embeddings, labels)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
