"""What a step asks of a device, counted on a pretended one: kernels within a budget, no wait, one device.

Budgets of the losses of triplets are absolute; kernels must not grow with the number of classes, nor with the batch until
its blocks fill the scratch. Sizes beyond 256 are counted from shapes alone.
"""

import pytest
import torch
from every_loss import CLASSES, LOSSES

from shadowmetric.bench.loss_steps import set_slots, split_weights
from shadowmetric.bench.pretended_device import count_step

DIM, PER_CLASS = 128, 5
BUDGET = {32: 150, 1024: 150, 4096: 250, 16384: 400}
ALLOWED = {  # what is above the budget, with its own
    "all": {32: 210, 1024: 210, 4096: 650, 16384: 8000},
    "window": {32: 230, 1024: 230, 4096: 750, 16384: 9500},
}


def count(name: str, batch: int, *, slots: bool = True, labels: torch.Tensor | None = None):
    torch.manual_seed(0)
    loss = LOSSES[name](DIM)
    if slots:
        set_slots(loss, PER_CLASS - 1)
    if labels is None:
        labels = torch.arange(batch) // PER_CLASS
    labels = labels % CLASSES if name in ("soft_triple", "arc_face") else labels
    step, weights = split_weights(loss)
    return count_step(step, torch.randn(batch, DIM), labels, *weights, values=batch <= 256)
