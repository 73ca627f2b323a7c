"""Lightning: an embedder and a loss as a LightningModule, with logical batches and retrieval figures.

```python
import torch
import shadowmetric as sm
from shadowmetric.integrations.lightning import MetricModule

embedder = torch.nn.Linear(20, 8)  # any module that gives rows
module = MetricModule(embedder, sm.ShadowLoss(0.2), micro_batch=32)
```

and `lightning.Trainer(max_epochs=5).fit(module, training_loader, validation_loader)`.

Loaders give (images, labels); a PKSampler as `batch_sampler` of the training loader gives every anchor a positive,
and each epoch other batches: Lightning itself tells that to samplers only, so the module does it for batch samplers.
Clipping, accumulation (of batches that are mined each by itself), precision and schedulers are the Trainer's.

With several processes: `Trainer(use_distributed_sampler=False)`, since Lightning can't put its sampler into a PK batch;
PKSampler(rank=..., ranks=...) shares each batch, and GatheredLoss(loss) compares with the rows of all. Every process
then embeds the whole validation set, and they share the queries; sets that differ are refused.

Memory: what the embedder keeps of a batch, or of `micro_batch` images; the rows of the validation set.
"""

from collections.abc import Callable
from typing import Any

import lightning
import torch
from torch import Tensor, nn

from shadowmetric.batches import cached_rows
from shadowmetric.evaluation import evaluate
from shadowmetric.integrations.own_rates import all_but, parameter_groups
from shadowmetric.ops.ranks import leave_group_at_exit
from shadowmetric.types import Scalar

MEASURES = ("recall_at", "map_at_r")


class MetricModule(lightning.LightningModule):
    """An embedder that learns by a loss of rows and labels, ours or another library's.

    optimizer: makes an optimizer of groups of parameters, such as functools.partial(torch.optim.AdamW, lr=1e-4); Adam
    by default. What a loss learns (centers) is a group with the rate of its `parameter_groups`, if it has such.
    micro_batch: embed so many images at a time in both passes; None embeds a batch whole.
    """

    def __init__(
        self,
        embedder: nn.Module,
        loss: nn.Module,
        optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer] | None = None,
        micro_batch: int | None = None,
    ):
        super().__init__()
        self.embedder, self.loss, self.micro_batch = embedder, loss, micro_batch
        self.make_optimizer = optimizer or torch.optim.Adam
        self.validated: list[tuple[Tensor, Tensor]] = []  # rows and labels, until the epoch ends
        leave_group_at_exit()  # Lightning itself does so with NCCL alone

    def forward(self, images: Any) -> Tensor:
        """Return the rows of images."""
        return self.embedder(images)

    def on_train_start(self) -> None:
        """Tell a batch sampler the epoch, which a run that is resumed within one does not start anew."""
        self.on_train_epoch_start()

    def on_train_epoch_start(self) -> None:
        """Tell a batch sampler the epoch."""
        set_epoch = getattr(getattr(self.trainer.train_dataloader, "batch_sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(self.current_epoch)

    def training_step(self, batch: Any, batch_idx: int) -> Scalar:
        """Return the loss of a batch."""
        images, labels = batch
        size = self.micro_batch
        rows = self.embedder(images) if size is None else cached_rows(self.embedder, images, size)
        value = self.loss(rows, labels)
        self.log("loss", value, prog_bar=True, batch_size=len(labels))
        return value

    def on_validation_epoch_start(self) -> None:
        """Forget rows of an epoch that was broken off."""
        self.validated.clear()

    def on_test_epoch_start(self) -> None:
        """Forget rows of an epoch that was broken off."""
        self.validated.clear()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Keep the rows of a batch."""
        images, labels = batch
        self.validated.append((self.embedder(images), labels))

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Keep the rows of a batch."""
        self.validation_step(batch, batch_idx)

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the rows of (images, labels), or of images alone."""
        return self.embedder(batch[0] if isinstance(batch, tuple | list) else batch)

    def on_test_epoch_end(self) -> None:
        """Log retrieval within the test set."""
        self.on_validation_epoch_end()

    def on_validation_epoch_end(self) -> None:
        """Log retrieval within the validation set, each query left out of its own gallery."""
        rows, labels = (torch.cat(parts) for parts in zip(*self.validated, strict=True))
        self.validated.clear()
        figures = evaluate(rows, labels, measures=MEASURES, recall_at=[1], progress=False, shared=True).figures()
        self.log_dict(figures, prog_bar=True, sync_dist=True)  # equal on all ranks; without, Lightning warns

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of what the embedder and the loss learn."""
        own = parameter_groups(self.loss)
        return self.make_optimizer([{"params": all_but(own, self.parameters())}, *own])
