"""Losses of this library as losses of sentence-transformers: for its trainer, its samplers, its model cards.

```python
loss = SentenceLoss(model, sm.ShadowLoss(0.2))
SentenceTransformerTrainer(model=model, train_dataset=data, loss=loss).train()
```

The columns of the data set say what is compared:

    sentence, label                     loss(rows, labels), mined in the batch
    anchor, positive                    each anchor against every positive of the batch; its own has its row number
    anchor, positive, negative, ...     these triplets, one for each negative; nothing is mined

What a loss learns or remembers is in `loss.state_dict()`, and not in the checkpoints of the trainer, which hold the
model alone.

Memory: the activations of the batch, as with any loss of sentence-transformers; with micro_batch those of so many
sentences, by `cached_rows`, column by column. The loss takes what it takes elsewhere: a few numbers a row or triplet.
"""

from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from shadowmetric.batches import TwoTowerLoss, cached_rows
from shadowmetric.losses.sums import SummedLoss
from shadowmetric.ops.ranks import ranks_here
from shadowmetric.types import Scalar

RANK_APART = 2**32  # between the numbers of two ranks' rows, which are compared with one another


class SentenceLoss(nn.Module):
    """Any loss of this library, on the sentences of a batch.

    loss: for the columns (anchor, positive) it is taken one way, as MultipleNegativesRankingLoss is; give
    `TwoTowerLoss(loss)` for both ways. Rows are compared as the loss says, at unit length by default.
    micro_batch: embed so many sentences at a time, forward and backward; the gradient is that of the whole batch.
    """

    def __init__(self, model: SentenceTransformer, loss: nn.Module, micro_batch: int | None = None):
        super().__init__()
        self.model = model  # the trainer looks for this name, and puts its wrapped model here
        self.loss, self.micro_batch = loss, micro_batch

    def forward(self, sentence_features: Iterable[Any], labels: Tensor | None = None) -> Scalar:
        """Return the loss of a batch: tokenized sentences column by column, and labels if there is one column."""
        columns = [self._rows(features) for features in sentence_features]
        self.loss.train(self.model.training)  # the trainer tells the model alone; a memory must not learn from judging
        name, count = type(self.loss).__name__, len(columns)
        if (count == 1) == (labels is None):
            has = (
                f"{'column' if count == 1 else 'columns'} of sentences {'without' if labels is None else 'with'} labels"
            )
            raise ValueError(f"the batch has {count} {has}; give labels with one column, and with one alone.")
        if count == 1 and isinstance(self.loss, TwoTowerLoss):
            raise ValueError(f"{name} got one column of sentences and needs two; give the loss inside it instead.")
        if count > 2 and not isinstance(self.loss, SummedLoss):
            raise ValueError(
                f"{name} takes no triplets, and there are {count} columns; give a loss like ShadowLoss(0.2)."
            )
        if labels is not None:
            return self.loss(columns[0], labels)
        numbers = torch.arange(count * len(columns[0]), device=columns[0].device).view(count, -1)
        if count == 2:
            two = self.loss if isinstance(self.loss, TwoTowerLoss) else TwoTowerLoss(self.loss, both_ways=False)
            return two(*columns, numbers[0] + ranks_here().rank * RANK_APART)
        anchor, positive, *negatives = numbers
        triplets = anchor.repeat(count - 2), positive.repeat(count - 2), torch.cat(negatives)
        return self.loss(torch.cat(columns), torch.cat([anchor, anchor, *negatives]), triplets)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings for the model card."""
        return {"loss": " ".join(repr(self.loss).split()), "micro_batch": self.micro_batch}

    def _rows(self, features: Any) -> Tensor:
        if self.micro_batch is None:
            return self.model(features)["sentence_embedding"]
        changed = type(vars(self.model).get("forward")).__module__  # by a loss around this one, until it returns
        if changed.startswith("sentence_transformers."):
            raise ValueError(
                f"micro_batch is {self.micro_batch} inside a loss of {changed}, which changes the model's forward pass "
                "for a while, and backward embeds again after that; leave it away."
            )
        cut = {name: part for name, part in features.items() if isinstance(part, Tensor) and part.ndim > 1}
        if isinstance(self.model, DistributedDataParallel) or not cut:
            what = f"features with a row for each sentence, not {', '.join(features)}" if not cut else "one process"
            raise ValueError(f"micro_batch is {self.micro_batch} and needs {what}; leave it away.")
        return cached_rows(_Embedder(self.model, features, cut), cut, self.micro_batch)


class _Embedder(nn.Module):
    """The model as a function from tokens, with what is said once for all of them, to rows."""

    def __init__(self, model: nn.Module, features: Any, cut: Any):
        super().__init__()
        self.model, self.training = model, model.training
        self.whole = {name: part for name, part in features.items() if name not in cut}

    def forward(self, cut: dict[str, Tensor]) -> Tensor:
        return self.model({**cut, **self.whole})["sentence_embedding"]
