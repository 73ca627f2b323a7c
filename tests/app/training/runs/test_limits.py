"""Numbers that no machine has room for, and margins that no triplet meets: held to what the losses really give."""

import math

import pytest
import torch

from shadowmetric.app.training.runs.limits import LARGEST_DIFFERENCE, unreachable_margin
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings
from shadowmetric.errors import Mistake
from shadowmetric.losses.catalogue import build_loss

OPPOSITE = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])  # as well embedded as rows can be
LABELS = torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"dim": 10**9}, "--dim is 1000000000; it must be 1048576 or less."),
        ({"batch": 10**12}, "--batch is 1000000000000; it must be 2147483647 or less."),
        ({"cross_batch_memory": 2**40}, "--cross-batch-memory is 1099511627776; it must be"),
        ({"seed": 10**30}, "--seed is 1"),
        ({"weight_decay": math.nan}, "--weight-decay is nan; it must be 0 or more."),
        ({"save_every": math.inf}, "--save-every is inf; it must be 0 or more."),
        ({"size": 5000}, "--size is 5000; it must be 4096 or less."),
        ({"epochs": -1}, "--epochs is -1; it must be 0 or more."),
    ],
)
def test_a_number_beyond_what_it_may_be_is_refused(given, sentence):
    with pytest.raises(Mistake) as refused:
        check_settings(TrainSettings(**given))
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("loss", sorted(name for name in LARGEST_DIFFERENCE if not name.startswith("pml:")))
def test_the_largest_difference_is_where_the_loss_of_the_best_embedding_begins(loss):
    most = LARGEST_DIFFERENCE[loss][0]
    factor = {"triplet_control": 2, "double_shadow": 2}.get(loss, 1)

    def value(margin):
        made = build_loss(loss, margin=margin, miner="all", classes=2, dim=2)
        return float(made(OPPOSITE.double(), LABELS))

    assert value(most - 1e-3) == 0
    assert value(most + 0.5) == pytest.approx(0.5 * factor, abs=1e-3)
    assert unreachable_margin({loss: most}, unit_rows=True) == ()
    (said,) = unreachable_margin({loss: most + 0.5}, unit_rows=True)
    assert f"cannot be met by {loss}, which compares" in said
    assert unreachable_margin({loss: 99.0}, unit_rows=False) == ()


def test_losses_without_such_an_end_say_nothing():
    assert unreachable_margin({"multi_similarity": 99.0, "soft_margin_triplet": 99.0}, unit_rows=True) == ()
