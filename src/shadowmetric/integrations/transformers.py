"""Hugging Face's Trainer: an embedder and a loss as one model, retrieval figures as its metrics, PK batches.

```python
import torch
import shadowmetric as sm
from shadowmetric.integrations.transformers import MetricModel

embedder = torch.nn.Linear(20, 8)  # any module that gives rows
model = MetricModel(embedder, sm.ShadowLoss(0.2), micro_batch=32)
```

and `MetricTrainer(model, arguments, train_dataset=..., eval_dataset=..., compute_metrics=compute_metrics).train()`.

The stock Trainer trains and saves the model too; it just can't take a batch sampler, so its batches are drawn at
random and an anchor may lack a positive. MetricTrainer draws `per_class` items of a class, other batches each epoch,
and gives what a loss learns (centres, proxies) its own rate.

Evaluation judges the rows, not the loss: batches that are not PK batches hold few positives, and labels of new classes
have no centre. eval_loss is NaN; choose a checkpoint by metric_for_best_model="recall_at_1".

With several processes (torchrun) a batch is per_device_train_batch_size items of each, and MetricModel compares with
the rows of all if the loss is a GatheredLoss. Memory: what the embedder keeps of a batch, or of `micro_batch` items.
"""

from typing import Any

import torch
from accelerate.data_loader import prepare_data_loader
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import EvalPrediction, Trainer

from shadowmetric.batches import cached_rows
from shadowmetric.data.sampler import PKSampler
from shadowmetric.evaluation import evaluate

MEASURES = ("recall_at", "map_at_r")
KEPT = ("collate_fn", "num_workers", "pin_memory", "worker_init_fn", "persistent_workers", "prefetch_factor")


class MetricModel(nn.Module):
    """What the Trainer calls with a batch of columns: in training the loss of its rows, else the rows.

    The embedder is given the only input (pixel_values) as it is, several (input_ids, attention_mask) as a dictionary.
    Columns of other names need TrainingArguments(remove_unused_columns=False).
    """

    accepts_loss_kwargs = False  # the loss is a mean over one batch: accumulated ones are to be averaged

    def __init__(self, embedder: nn.Module, loss: nn.Module, micro_batch: int | None = None):
        super().__init__()
        self.embedder, self.loss, self.micro_batch = embedder, loss, micro_batch

    def forward(
        self,
        pixel_values: Tensor | None = None,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> dict[str, Tensor]:
        """Return the embeddings, and in training the loss."""
        named = {"pixel_values": pixel_values, "input_ids": input_ids, "attention_mask": attention_mask, **others}
        inputs: Any = {name: value for name, value in named.items() if value is not None}
        if len(inputs) == 1:
            (inputs,) = inputs.values()
        cached = self.training and self.micro_batch is not None
        rows = cached_rows(self.embedder, inputs, self.micro_batch) if cached else self.embedder(inputs)  # pyright: ignore
        if labels is None:
            return {"embeddings": rows}
        return {"loss": self.loss(rows, labels) if self.training else rows.new_tensor(torch.nan), "embeddings": rows}


def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Return Recall@1 and MAP@R of the rows, each query left out of its own gallery; for Trainer(compute_metrics=)."""
    rows, labels = prediction.predictions, prediction.label_ids
    return evaluate(rows, labels, measures=MEASURES, recall_at=[1], progress=False).figures()


class MetricTrainer(Trainer):
    """A Trainer of PK batches. train_labels: of the training items; read from each item's `labels` by default."""

    def __init__(self, *given: Any, per_class: int = 5, train_labels: Any = None, **named: Any):
        super().__init__(*given, **named)
        self.per_class, self.train_labels = per_class, train_labels

    def get_train_dataloader(self) -> DataLoader:
        """Return PK batches, read as the Trainer would; of each this process takes its share."""
        stock, args = super().get_train_dataloader(), self.args
        batch, share = self._train_batch_size * args.world_size, {"rank": args.process_index, "ranks": args.world_size}
        seed = args.seed if args.data_seed is None else args.data_seed
        sampler = PKSampler(self._labels(), batch, self.per_class, seed=seed, **share)
        kept = {name: getattr(stock, name) for name in KEPT}
        loader = DataLoader(stock.dataset, batch_sampler=sampler, **kept)
        return prepare_data_loader(loader, args.device, num_processes=1, process_index=0, put_on_device=True)

    def _labels(self) -> list[int]:
        """Return the labels of the training items; a table gives its column, other datasets every item."""
        data: Any = self.train_dataset
        found = self.train_labels
        if found is None:
            table = hasattr(data, "column_names")
            found = data["labels"] if table else (data[number]["labels"] for number in range(len(data)))
        return [int(label) for label in found]

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Return the Trainer's optimiser, in which what the loss learns has its own rate."""
        ready = self.optimizer is not None
        optimizer = super().create_optimizer(model)
        loss: Any = self.model.loss  # pyright: ignore
        learning = [part for part in loss.modules() if hasattr(part, "parameter_groups") and not ready]
        own = [group for part in learning[:1] for group in part.parameter_groups()]  # the outermost speaks for the rest
        taken = {id(weight) for group in own for weight in group["params"]}
        for group in optimizer.param_groups:
            group["params"] = [weight for weight in group["params"] if id(weight) not in taken]
        for group in own:
            optimizer.add_param_group({"weight_decay": self.args.weight_decay} | group)
        return optimizer
