"""Hugging Face's Trainer with PK batches, which the stock one can't draw, and with a rate of its own for the loss.

`MetricTrainer(model, arguments, train_dataset=..., eval_dataset=..., compute_metrics=compute_metrics).train()`

model and compute_metrics are those of `integrations.transformers`. A batch holds `per_class` items of a class, other
ones each epoch; a resumed training goes on with the batches that were left. Memory: two int64 for each item.
"""

from typing import Any

import torch
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader
from transformers import Trainer

from shadowmetric.batches.sampler import PKSampler
from shadowmetric.integrations.own_rates import all_but, parameter_groups

NAMES = ("labels", "label", "label_ids")  # that the Trainer's collator makes `labels` of
KEPT = ("collate_fn", "num_workers", "pin_memory", "worker_init_fn", "persistent_workers", "prefetch_factor")


class MetricTrainer(Trainer):
    """A Trainer of PK batches. train_labels: of the training items; read from each item's `labels` by default."""

    def __init__(self, *args: Any, per_class: int = 5, train_labels: Any = None, **named: Any):
        super().__init__(*args, **named)
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
        labels = self.train_labels
        if labels is None:
            columns = getattr(data, "column_names", None)
            names = columns or list(data[0])
            name = next((name for name in NAMES if name in names), None)
            if name is None:
                raise ValueError(f"train_dataset has the columns {names}, and none is labels; give train_labels.")
            each = (data[number][name] for number in range(len(data)))
            labels = data.with_format(None)[name] if columns else each  # as stored: no image of a table is read
        return [int(label) for label in labels]

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Return the Trainer's optimizer, in which what the loss learns has its own rate."""
        ready = self.optimizer is not None
        optimizer = super().create_optimizer(model)
        own = [] if ready else parameter_groups(self.model.loss)  # pyright: ignore
        for group in optimizer.param_groups:
            group["params"] = all_but(own, group["params"])
        for group in own:
            optimizer.add_param_group({"weight_decay": self.args.weight_decay} | group)
        return optimizer
