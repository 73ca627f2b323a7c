"""Cross-batch memory (Wang et al. 2020): compare a batch with itself and with rows of earlier batches.

    loss of the anchors of the batch against  batch rows + remembered rows

Remembered rows are positives and negatives, never anchors, and have no gradient. An anchor is left out of what it is
compared with by its place, before anything is mined; so with an empty memory this is the loss itself. Embeddings
drift as the weights change: `warmup` batches are remembered but not yet compared with, until drift has slowed down.

With ranks (`GatheredLoss(CrossBatchMemory(loss))`) every rank remembers the rows of all, in rank order, so that the
memories are equal. A loss of centers compares rows with centers only: a memory adds nothing to it.

The queue, its place, how full it is and the batches seen are in the state dict: a resumed run goes on with the same
bits. Memory: size x dim numbers, and once more for the rows that a batch is compared with.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.losses.sums import SummedLoss, Sums
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.ops.memory import Cost
from shadowmetric.types import AnyLabels, Relation

COUNTERS = ("place", "filled", "seen")


class CrossBatchMemory(SummedLoss):
    """A loss with a memory. In eval mode it is compared with and not changed.

    size: rows that are remembered. warmup: batches until they are compared with.
    """

    rows: Tensor  # (size, dim), once the first batch has come
    row_labels: Tensor  # (size,), or what a relation knows of each row

    def __init__(self, loss: nn.Module, size: int = 4096, *, warmup: int = 0):
        super().__init__()
        for name, value, least in (("size", size, 1), ("warmup", warmup, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
        if not isinstance(loss, SummedLoss):
            raise ValueError(
                f"{type(loss).__name__} can't be compared with remembered rows; give a loss of this library."
            )
        self.loss, self.size, self.warmup, self.debug = loss, size, warmup, loss.debug
        self.place = self.filled = self.seen = 0  # where the next row goes; rows remembered; batches seen
        self.register_buffer("rows", torch.empty(size, 0))
        self.register_buffer("row_labels", torch.zeros(size, dtype=torch.int64))

    @property
    def miner(self) -> Any:
        """Return the miner of the loss, if it has one."""
        return getattr(self.loss, "miner", None)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return what the loss learns, with its own rates, for an optimizer."""
        own = getattr(self.loss, "parameter_groups", None)
        return own() if own is not None else []

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums over the anchors of a batch against itself and the memory; then remember the batch.

        With references, which are the rows of all ranks, these are remembered.
        """
        embeddings, labels = batch.embeddings, batch.labels
        references, reference_labels, anchors_at = batch.references, batch.reference_labels, batch.anchors_at
        if references is None or reference_labels is None:
            references, reference_labels, anchors_at = embeddings, labels, 0
        elif not isinstance(anchors_at, int):
            raise ValueError("a memory is what rows are compared with; give references only with anchors_at.")
        others, other_labels = references, reference_labels
        if self.filled and self.seen >= self.warmup:
            self._check_dim(embeddings)
            others = torch.cat([others, self.rows[: self.filled].to(others.dtype)])
            other_labels = self._with_remembered(other_labels)
        found = self.loss.sums(
            embeddings, labels, triplets, references=others, reference_labels=other_labels, anchors_at=anchors_at
        )
        if self.training:
            self.remember(references, reference_labels)
        return found

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return what the loss takes against references: with a memory there always are some."""
        return self.loss.memory(dtype, references=True)

    @torch.no_grad()
    def remember(self, rows: Tensor, labels: AnyLabels) -> None:
        """Put rows into the queue, in the place of the oldest."""
        known = labels.rows if isinstance(labels, Relation) else labels.long()
        if self.rows.shape[1] == 0:
            with torch.inference_mode(False):  # else it could not be changed in a training step
                self.rows = rows.new_zeros(self.size, rows.shape[1])
                if isinstance(labels, Relation):
                    self.row_labels = known.new_zeros(self.size, *known.shape[1:])
        self._check_dim(rows)
        kept, kept_labels = rows.detach()[-self.size :], known[-self.size :]
        place = (self.place + torch.arange(len(kept), device=rows.device)) % self.size
        self.rows[place] = kept.to(self.rows.dtype)
        self.row_labels[place] = kept_labels
        self.place = (self.place + len(kept)) % self.size
        self.filled = min(self.filled + len(kept), self.size)
        self.seen += 1

    def _with_remembered(self, labels: AnyLabels) -> AnyLabels:
        """Return labels, or what is known of rows, and then those of the memory."""
        known, remembered = labels.rows if isinstance(labels, Relation) else labels, self.row_labels[: self.filled]
        if (known.dtype, known.shape[1:]) != (remembered.dtype, remembered.shape[1:]):
            raise ValueError(f"labels is a {type(labels).__name__}, and the memory began with others; make a new one.")
        joined = torch.cat([known, remembered])
        return labels.with_rows(joined) if isinstance(labels, Relation) else joined

    def extra_repr(self) -> str:
        """Say the settings, and how much is remembered."""
        return f"size={self.size}, warmup={self.warmup}, filled={self.filled}"

    def _check_dim(self, rows: Tensor) -> None:
        if rows.shape[1] != self.rows.shape[1]:
            raise ValueError(
                f"embeddings have rows of {rows.shape[1]} numbers, the memory of {self.rows.shape[1]}; make a new one."
            )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in COUNTERS:
            destination[prefix + name] = torch.tensor(getattr(self, name))

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, prefix: str, *rest: Any
    ) -> None:
        rows = state_dict.get(prefix + "rows")
        if rows is not None and len(rows) != self.size:
            raise ValueError(f"the memory that was saved has {len(rows)} rows, and this one {self.size}.")
        if rows is not None:
            with torch.inference_mode(False):
                self.rows = torch.empty_like(rows, device=self.row_labels.device)  # its dim is known now
                known = state_dict.get(prefix + "row_labels", self.row_labels)
                self.row_labels = torch.empty_like(known, device=self.row_labels.device)  # of a relation, its own shape
        counters = {name: state_dict.pop(prefix + name) for name in COUNTERS if prefix + name in state_dict}
        super()._load_from_state_dict(state_dict, prefix, *rest)
        for name, value in counters.items():
            setattr(self, name, int(value))
            state_dict[prefix + name] = value
