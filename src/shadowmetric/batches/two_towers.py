"""Two embedders, one space: anchors from one, positives and negatives from the other.

    loss(anchors against others)                                one way
    half of that + half of loss(others against anchors)         both ways, the default

Images and their captions, photos and sketches, questions and answers: what belongs together has one label, and the
towers need nothing in common but the length of their rows. Any loss and miner will do; both towers receive a
gradient. A row of the other tower is never taken for the anchor itself, however equal, since it is the very positive
that training wants: towers that agree perfectly must keep their pairs.

With ranks, every rank compares its own anchors with the others of all, as `GatheredLoss` does. Embed each tower with
`cached_rows` for a batch that does not fit. Memory: what the loss takes against references, once for each way.
"""

from torch import Tensor, nn

from shadowmetric.batches.cross_batch_memory import CrossBatchMemory
from shadowmetric.batches.gathered_loss import labels_of_all, value_of_all
from shadowmetric.checks import ELSEWHERE
from shadowmetric.losses.sums import SummedLoss
from shadowmetric.ops.ranks import gather_rows, ranks_here, row_counts
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


class TwoTowerLoss(nn.Module):
    """A loss of this library between the rows of two embedders.

    both_ways: the mean of both directions; else the first tower's rows are the anchors.
    """

    def __init__(self, loss: nn.Module, *, both_ways: bool = True):
        super().__init__()
        if not isinstance(loss, SummedLoss) or isinstance(loss, CrossBatchMemory):
            raise ValueError(f"{type(loss).__name__} can't compare two towers; give a loss such as ShadowLoss(0.2).")
        self.loss, self.both_ways = loss, both_ways

    def forward(
        self,
        anchors: Embeddings,
        others: References,
        labels: AnyLabels,
        other_labels: AnyLabels | None = None,
    ) -> Scalar:
        """Return the loss of one tower's rows against the other's.

        other_labels: None if the towers' rows belong together one by one, and so have the same labels.
        """
        if other_labels is None:
            if len(others) != len(labels):
                raise ValueError(
                    f"there are {len(others)} rows of the other tower and {len(labels)} labels; give other_labels."
                )
            other_labels = labels
        value = self._one_way(anchors, labels, others, other_labels)
        if not self.both_ways:
            return value
        return (value + self._one_way(others, other_labels, anchors, labels)) / 2

    def _one_way(self, anchors: Tensor, labels: AnyLabels, others: Tensor, other_labels: AnyLabels) -> Scalar:
        ranks = ranks_here().ranks
        if ranks == 1:
            return self.loss(anchors, labels, references=others, reference_labels=other_labels, anchors_at=ELSEWHERE)
        sizes = row_counts(len(others), others.device)
        rows, everyone = gather_rows(others, sizes).rows, labels_of_all(other_labels, sizes)
        sums = self.loss.sums(anchors, labels, references=rows, reference_labels=everyone, anchors_at=ELSEWHERE)
        return value_of_all(sums, rows, ranks)
