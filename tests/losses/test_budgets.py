"""What a step asks of a device, counted on a pretended one: few kernels, no wait, one device.

Kernels must not grow with the number of classes, nor with the batch until its blocks fill the scratch. Sizes beyond 256
are counted from shapes alone.
"""

import pytest
import torch
from every_loss import CLASSES, ENTRIES, LOSSES, MINED, has_centers

from shadowmetric.app.doctor.devices.loss_steps import set_slots, split_weights, takes_slots
from shadowmetric.app.doctor.devices.pretended_device import count_step

DIM, PER_CLASS = 128, 5
BUDGET = {32: 150, 1024: 150, 4096: 250, 16384: 400}
ALLOWED = {  # above the budget: every triplet, three products for rows as they are, and whole rows of many blocks
    "all": {32: 220, 1024: 220, 4096: 800, 16384: 10500},
    "window": {32: 240, 1024: 240, 4096: 900, 16384: 12000},
    "fallback": {32: 155, 1024: 155, 16384: 420},
    "free": {32: 170, 1024: 170},
    "free_semi_hard": {32: 180, 1024: 180},
    "free_window": {32: 260, 1024: 260, 4096: 1050},
    "angular_triplet/semi_hard": {32: 160, 1024: 160, 16384: 440},  # the window turns an angle
    "n_pair/l2": {32: 190, 1024: 190, 16384: 3000},
    **{name: entry.kernels for name, entry in ENTRIES.items()},
}
STREAMED = ("all", "window", "free_window")  # thousands of blocks at the largest size: seconds a count
LARGE_TOO = ("shadow/all", "shadow/window")  # the other losses of triplets go through the same stream


def count(name: str, batch: int, *, slots: bool = True, per_class: int = PER_CLASS):
    torch.manual_seed(0)
    loss = LOSSES[name](DIM)
    if slots:
        set_slots(loss, PER_CLASS - 1)
    labels = torch.arange(batch) // per_class
    labels = labels % CLASSES if has_centers(name) else labels
    step, weights = split_weights(loss)
    return count_step(step, torch.randn(batch, DIM), labels, *weights, values=not slots)


def chooses_on_host(name: str) -> bool:
    entry = ENTRIES.get(name)
    return entry is not None and entry.waits


CASES = [
    (name, batch)
    for name in LOSSES
    if not chooses_on_host(name)
    for batch in BUDGET
    if batch < 16384 or name in LARGE_TOO or name.partition("/")[2] not in STREAMED
]


def budget_of(name: str, batch: int) -> float:
    loss, _, miner = name.partition("/")
    allowed = ALLOWED.get(name) or ALLOWED.get(loss) or (ALLOWED.get(miner, {}) if loss in MINED else {})
    return allowed.get(batch, BUDGET[batch])


@pytest.mark.parametrize(("name", "batch"), CASES)
def test_a_step_stays_within_its_budget_and_never_waits(name, batch):
    counts = count(name, batch)
    assert counts.waits == 0, counts.where
    assert counts.mixes == []
    assert counts.kernels <= budget_of(name, batch)


@pytest.mark.parametrize("name", [name for name in LOSSES if not chooses_on_host(name)])
def test_without_slots_the_labels_are_asked_once(name):
    counts = count(name, 60, slots=False)
    assert counts.waits <= 1, counts.where
    assert counts.mixes == []
    assert counts.waits == 1 or not takes_slots(LOSSES[name](DIM)) or name.partition("/")[0] not in MINED


@pytest.mark.parametrize("name", ["shadow/semi_hard", "shadow/batch_hard", "n_pair", "multi_similarity"])
def test_kernels_do_not_grow_with_the_number_of_classes(name):
    assert count(name, 1000, per_class=2).kernels == count(name, 1000).kernels
