"""Our losses and miners where those of pytorch-metric-learning (PML) go.

    InPML(sm.ShadowLoss(0.2))            a loss of ours as a PML loss: in its wrappers, reducers and trainers
    MinerInPML(sm.SemiHardMiner(0.2))    a miner of ours where PML insists on its own class; elsewhere it takes ours
    CrossBatchMemory, SelfSupervisedLoss PML's own, which take InPML beside the losses that PML lists by name

InPML(loss)(embeddings, labels) is loss(embeddings, labels), value and gradient, and as memory-linear. It is not where

    a PML miner names triplets or pairs   its lists, and the S×S or S×S×S tensors that it makes them from. Losses of
                                          pairs take named pairs as they are; for losses of triplets they become
                                          triplets as PML does it, every positive of an anchor with every negative
    a PML reducer is given                a few numbers for each triplet, all of which are listed

CrossBatchMemory without a miner names every pair: give it a miner of ours. It compares with a copy of the batch,
so that only anchors learn; ours lets positives and negatives of the batch itself learn too.
"""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from shadowmetric.integrations.pml_version import check_pml_version

if wrong := check_pml_version():  # before a name that another version may lack
    raise ImportError(wrong)

from pytorch_metric_learning import losses
from pytorch_metric_learning.miners import BaseMiner
from pytorch_metric_learning.reducers import BaseReducer, DoNothingReducer
from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_triplets
from torch import Tensor, nn

from shadowmetric.checks import ELSEWHERE, check_triplets
from shadowmetric.losses.mined import MinedLoss
from shadowmetric.losses.row_loss import RowLoss
from shadowmetric.losses.sums import SummedLoss
from shadowmetric.losses.triplet_list import mine, triplet_values
from shadowmetric.mining.checked_batch import Mined, as_checked_batch
from shadowmetric.mining.pairs import NamedPairs
from shadowmetric.types import Miner


class PMLSettings(TypedDict, total=False):
    """What every loss of PML can be told."""

    embedding_regularizer: nn.Module | None
    embedding_reg_weight: float
    collect_stats: bool | None


class InPML(losses.BaseMetricLossFunction):
    """A loss of ours as a loss of PML.

    reducer: one of PML's, for the values of triplets; None keeps the reduction of the loss itself.
    settings: embedding_regularizer, embedding_reg_weight, collect_stats, as for every loss of PML.
    """

    def __init__(self, loss: nn.Module, reducer: BaseReducer | None = None, **settings: Unpack[PMLSettings]):
        if not isinstance(loss, SummedLoss):
            raise ValueError(f"the loss is a {type(loss).__name__}; give a loss of rows, bare, such as ShadowLoss().")
        if "distance" in settings:
            raise ValueError(f"{type(loss).__name__} has its own distance; leave out PML's.")
        of_triplets = isinstance(loss, MinedLoss)
        if not of_triplets and not isinstance(reducer, DoNothingReducer | None):
            raise ValueError(
                f"{type(loss).__name__} gives one number, not one for each triplet, and {type(reducer).__name__} has "
                "nothing to reduce; leave it out."
            )
        super().__init__(reducer=reducer, **settings)  # pyright: ignore[reportArgumentType]
        self.loss: SummedLoss = loss
        self.each_triplet = of_triplets and reducer is not None

    def compute_loss(
        self, embeddings: Tensor, labels: Any, indices_tuple: Any, ref_emb: Tensor, ref_labels: Any
    ) -> dict[str, dict[str, Any]]:
        """Return the loss, or the value of each triplet, as PML's reducers want it. Given triplets need no labels."""
        if labels is None and indices_tuple is None:
            raise ValueError("there are neither labels nor triplets; give one of them.")
        labels, ref_labels = (
            rows.new_zeros(len(rows)).long() if own_labels is None else own_labels
            for rows, own_labels in ((embeddings, labels), (ref_emb, ref_labels))
        )
        others: Any = () if ref_emb is embeddings else (ref_emb, ref_labels, ELSEWHERE)  # equal rows are others there
        loss, batch = self.loss, as_checked_batch(embeddings, labels, *others, debug=self.loss.debug)
        if isinstance(loss, RowLoss) and indices_tuple is not None and len(indices_tuple) == 4:
            pairs = NamedPairs(indices_tuple[:2], indices_tuple[2:], (len(embeddings), len(ref_emb)))
            return already_reduced(loss.sums_of_pairs(batch, pairs).value())
        triplets = None if indices_tuple is None else convert_to_triplets(indices_tuple, labels)
        if not self.each_triplet or not isinstance(loss, MinedLoss):
            return already_reduced(loss.value_of_batch(batch, triplets))
        triplets, squared = mine(loss.miner, batch) if triplets is None else (triplets, None)
        triplets = check_triplets(triplets, len(embeddings), len(ref_emb), embeddings.device, debug=loss.debug)
        if len(triplets.anchor) == 0:
            return self.zero_losses()
        mined = Mined(triplets, squared)
        values = triplet_values(batch, mined, loss.measure, loss.hinge, normalize=loss.normalize)
        return {"loss": {"losses": values, "indices": triplets, "reduction_type": "triplet"}}


def already_reduced(value: Tensor) -> dict[str, dict[str, Any]]:
    """Return a loss that no reducer has to reduce, as PML wants it."""
    return {"loss": {"losses": value, "indices": None, "reduction_type": "already_reduced"}}


class MinerInPML(BaseMiner):
    """A miner of ours as a miner of PML: for MultipleLosses(miners=...) and DistributedMinerWrapper."""

    def __init__(self, miner: Miner):
        super().__init__()
        self.miner = miner

    def mine(self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor) -> Sequence[Tensor]:
        """Return the triplets of a batch, or of a batch against references."""
        return self.miner(embeddings, labels, *(() if ref_emb is embeddings else (ref_emb, ref_labels)))


class CrossBatchMemory(losses.CrossBatchMemory):
    """PML's memory for the losses that it takes itself, and for InPML."""

    @staticmethod
    def supported_losses() -> list[str]:
        """Return the names of the losses that it takes."""
        return [*losses.CrossBatchMemory.supported_losses(), InPML.__name__]


class SelfSupervisedLoss(losses.SelfSupervisedLoss):
    """PML's loss of two views for the losses that it takes itself, and for InPML."""

    @staticmethod
    def supported_losses() -> list[str]:
        """Return the names of the losses that it takes."""
        return [*losses.SelfSupervisedLoss.supported_losses(), InPML.__name__]
