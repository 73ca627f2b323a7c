"""The gradient of one batch: as a whole, or embedded a micro-batch at a time; a loss that is not finite stops the run.

Memory: what autograd keeps of the images that are embedded at once, and the embeddings of the batch.
"""

import math

import torch
from torch import Tensor

from shadowmetric.app.data.loading import Batch
from shadowmetric.app.training.setup import Training
from shadowmetric.batches.cached import Step, run_cached_step
from shadowmetric.errors import NotFinite, Stopped
from shadowmetric.ops.ranks import share
from shadowmetric.runtime.files import write_json


def backward(training: Training, batch: Batch, labels: Tensor) -> Step:
    """Give the weights the gradient of the whole batch of all processes; return the loss, and the rows of this one."""
    accelerator, micro_batch = training.accelerator, training.settings.micro_batch

    def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
        return loss_of(training, embeddings, labels, batch)

    largest = len(share(len(batch.whole), 0, accelerator.num_processes, micro_batch or 1))  # of any process
    if micro_batch is not None and micro_batch < largest:
        images = OnDevice(batch.images, accelerator.device)
        return run_cached_step(training.embedder, images, labels, loss, micro_batch, scaler=accelerator.scaler)
    embeddings = training.embedder(batch.images.to(accelerator.device))
    embeddings.retain_grad()
    value = loss(embeddings, labels)
    accelerator.backward(value)
    return Step(value.detach(), embeddings)


class OnDevice:
    """Images that go to a device when they are asked for, a micro-batch at a time."""

    def __init__(self, images: Tensor, device: torch.device):
        self.images, self.device = images, device

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, some: slice) -> Tensor:
        return self.images[some].to(self.device)


def loss_of(training: Training, embeddings: Tensor, labels: Tensor, batch: Batch) -> Tensor:
    """Return the loss; if it is not finite, save which batch it was, and stop before any weight is touched."""
    try:
        value = training.gathered_loss(embeddings, labels)
    except NotFinite:  # with several processes, maybe the rows of another one
        value = embeddings.new_full((), math.nan)
    if math.isfinite(float(value.detach())):
        return value
    state, train = training.state, training.parts.train
    where = training.run.folder / "not-finite.json"
    names = [train.images.name(number) for number in batch.whole]
    details = {"epoch": state.epoch + 1, "batch": state.position, "numbers": batch.whole, "images": names}
    if training.accelerator.is_main_process:
        training.lock.check()
        write_json(where, details | {"labels": train.labels[batch.whole].tolist()})
    raise Stopped(
        f"the loss of batch {state.position} of epoch {state.epoch + 1} is not finite; its images are listed in "
        f"{where}: lower --learning-rate, or use --precision no."
    )
