"""Hugging Face's Trainer: an embedder and a loss as one model, retrieval figures as its metrics.

```python
import torch
import shadowmetric as sm
from shadowmetric.integrations.transformers import MetricModel

embedder = torch.nn.Linear(20, 8)  # any module that gives rows
model = MetricModel(embedder, sm.ShadowLoss(0.2), micro_batch=32)
```

and `Trainer(model, arguments, train_dataset=..., eval_dataset=..., compute_metrics=compute_metrics).train()`. The stock
Trainer draws batches at random, in which an anchor may lack a positive; `transformers_trainer` has one of PK batches.

Evaluation judges the rows, not the loss: batches that are not PK batches hold few positives, and labels of new classes
have no center. eval_loss is NaN; choose a checkpoint by metric_for_best_model="recall_at_1".

With several processes (torchrun) a batch is per_device_train_batch_size items of each, and MetricModel compares with
the rows of all if the loss is a GatheredLoss. Memory: what the embedder keeps of a batch, or of `micro_batch` items.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import EvalPrediction

from shadowmetric.batches import cached_rows
from shadowmetric.evaluation import evaluate
from shadowmetric.ops.ranks import leave_group_at_exit

MEASURES = ("recall_at", "map_at_r")


class MetricModel(nn.Module):
    """What the Trainer calls with a batch of columns: in training the loss of its rows, else the rows.

    The embedder is given the only input (pixel_values) as it is, several (input_ids, attention_mask) as a dictionary.
    Columns of other names need TrainingArguments(remove_unused_columns=False).
    """

    accepts_loss_kwargs = False  # the loss is a mean over one batch: accumulated ones are to be averaged

    def __init__(self, embedder: nn.Module, loss: nn.Module, micro_batch: int | None = None):
        super().__init__()
        self.embedder, self.loss, self.micro_batch = embedder, loss, micro_batch
        leave_group_at_exit()

    def gradient_checkpointing_enable(self, *args: Any, **named: Any) -> None:
        """Let the embedder compute activations again, if it can: for TrainingArguments(gradient_checkpointing=True)."""
        parts = [part for part in self.embedder.modules() if hasattr(part, "gradient_checkpointing_enable")]
        if not parts:
            raise ValueError("the embedder has no gradient checkpointing of its own; micro_batch saves more.")
        parts[0].gradient_checkpointing_enable(*args, **named)  # pyright: ignore

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
