"""`train --loss pml:NAME`: any loss of pytorch-metric-learning (PML) by the name of its class, in our trainings.

Losses of triplets (TripletMarginLoss, MarginLoss) get the margin, in PML's unit, which is the Euclidean distance, and
the triplets of our miner, which compares distances too (or as --mining-unit says). All others keep PML's defaults and
choose their own pairs. Classes and dim are given to losses that ask for them; what a loss learns has a rate of its own.

Some losses keep state in plain attributes: here these are buffers, so that a checkpoint holds them, and are cut from
the graph of the batch before. Memory: what PML takes, mostly a few S×S tensors, S×S×S for some.
"""

import difflib
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.errors import Mistake
from shadowmetric.integrations.pml_version import check_pml_version
from shadowmetric.losses.catalogue import choose_miner
from shadowmetric.losses.mined import MINERS, MinerName
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Miner

PREFIX = "pml:"
OF_TRIPLETS = ("TripletMarginLoss", "MarginLoss")
CENTER_RATE = 1e-2  # of what a loss learns, as of the centers of our own


class PMLLoss(nn.Module):
    """A loss of PML, called as ours are.

    miner: what chooses its triplets, or its name; None leaves that to the loss. A miner by name compares distances.
    """

    def __init__(self, loss: nn.Module, miner: MinerName | Miner | None = None, *, scratch_bytes: int = SCRATCH_BYTES):
        super().__init__()
        self.loss, self.scratch_bytes = loss, scratch_bytes
        self.miner = self.make_miner(miner) if isinstance(miner, str) else miner
        for name, value in [(name, value) for name, value in vars(loss).items() if isinstance(value, Tensor)]:
            delattr(loss, name)
            loss.register_buffer(name, value)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        triplets: Sequence[Tensor] | None = None,
        *,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch, of its own choice of pairs or of given triplets."""
        for name, value in self.loss.named_buffers(recurse=False):
            setattr(self.loss, name, value.detach())
        if triplets is None and self.miner is not None:
            triplets = self.miner(embeddings, labels, references, reference_labels)
        try:
            return self.loss(embeddings, labels, triplets, references, reference_labels)
        except ValueError as error:
            message = " ".join(str(error).split())
            raise Mistake(f"{PREFIX}{type(self.loss).__name__} can't be trained so: {message}.") from None

    def make_miner(self, name: MinerName) -> Miner:
        """Return the miner of a name: it compares distances as the loss does, with the loss's margin."""
        loss: Any = self.loss
        return MINERS[name](loss.margin, "distance", loss.distance.normalize_embeddings, self.scratch_bytes)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return what the loss learns, with its own learning rate, for an optimizer."""
        learned = list(self.loss.parameters())
        return [{"params": learned, "lr": CENTER_RATE}] if learned else []


def pml_class(name: str) -> type[nn.Module]:
    """Return the class of a loss that is named `pml:NAME`."""
    if error := check_pml_version():
        raise Mistake(error)
    try:
        from pytorch_metric_learning import losses
    except ImportError:
        raise Mistake(f"--loss {name} needs `pip install 'shadowmetric[pytorch-metric-learning]'`.") from None
    kinds = {known.lower(): kind for known, kind in vars(losses).items() if known.endswith("Loss")}
    bare = name.removeprefix(PREFIX)
    if bare.lower() not in kinds or kinds[bare.lower()].__name__ != bare:
        near = [PREFIX + kinds[one].__name__ for one in difflib.get_close_matches(bare.lower(), kinds, cutoff=0.5)]
        nearest = f"the nearest are {', '.join(near)}" if near else "one is pml:TripletMarginLoss"
        raise Mistake(f"--loss is {name!r}, and PML has no loss of that name that stands alone; {nearest}.")
    return kinds[bare.lower()]


def build_pml_loss(
    name: str,
    *,
    margin: float,
    miner: str,
    classes: int,
    dim: int,
    scratch_bytes: int,
    unit_rows: bool,
    mining_unit: str = "loss",
) -> PMLLoss:
    """Return the loss of that name. unit_rows: of losses of triplets; the others have PML's choice."""
    kind, known = pml_class(name), {"num_classes": classes, "embedding_size": dim, "descriptors_dim": dim}
    if kind.__name__ in OF_TRIPLETS:
        loss: Any = kind(margin=margin)
        loss.distance.normalize_embeddings = unit_rows
        chosen = choose_miner(miner, margin, scratch_bytes, mining_unit)
        return PMLLoss(loss, chosen, scratch_bytes=scratch_bytes)
    signatures = [inspect.signature(one.__init__) for one in kind.__mro__ if "__init__" in vars(one)]
    parameters = [
        each for signature in signatures for each in signature.parameters.values() if each.default is each.empty
    ]
    try:
        return PMLLoss(kind(**{each.name: known[each.name] for each in parameters if each.name in known}))
    except TypeError as error:
        raise Mistake(f"--loss {name} must be told more than its name: {error}.") from None


def check_pml_loss(name: str) -> None:
    """Refuse a loss that can't be made from its name, or be trained on labeled rows, after one small batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        options: dict[str, Any] = {"margin": 0.2, "miner": "all", "classes": 2, "dim": 8}
        loss = build_pml_loss(name, **options, scratch_bytes=2**20, unit_rows=True)
        loss(torch.randn(4, 8), torch.tensor([0, 1, 1, 0]))
