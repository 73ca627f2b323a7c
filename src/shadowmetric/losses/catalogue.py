"""Every loss by its name, as commands and settings spell it.

Margin and miner are asked of losses of triplets only; the others keep the values of their papers. Two entries are
controls, not methods. On unit rows Shadow at margin m is half the squared Triplet at margin 2m, so

    triplet_control    Triplet at 2m with the triplets that are mined at m: what Shadow is, but for the factor
    double_shadow      Shadow times 2: exactly that Triplet. AdamW ignores a factor but for its epsilon and rounding, so
                       what differs between it and Shadow is noise of training
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from shadowmetric.checks import check_choice
from shadowmetric.losses.angular import AngularLoss
from shadowmetric.losses.angular_triplet import AngularTripletLoss
from shadowmetric.losses.arc_face import ArcFaceLoss
from shadowmetric.losses.contrastive import ContrastiveLoss
from shadowmetric.losses.lifted_structure import LiftedStructureLoss
from shadowmetric.losses.mined import MINERS, MinedSettings
from shadowmetric.losses.multi_similarity import MultiSimilarityLoss
from shadowmetric.losses.n_pair import NPairLoss
from shadowmetric.losses.ranked_list import RankedListLoss
from shadowmetric.losses.shadow import ShadowLoss
from shadowmetric.losses.slopes import Slopes, gap_and_slope, relu_and_slope
from shadowmetric.losses.soft_margin_triplet import SoftMarginTripletLoss
from shadowmetric.losses.soft_triple import SoftTripleLoss
from shadowmetric.losses.triplet import TripletLoss
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Miner


class LossChoice(NamedTuple):
    """What a loss may need to know."""

    margin: float
    miner: str
    classes: int  # labels of proxies are 0 to classes - 1
    dim: int
    scratch: int = SCRATCH_BYTES
    unit_rows: bool = True


class DoubleShadow(ShadowLoss):
    """Twice the Shadow loss."""

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return twice the value of triplets."""
        return 2 * super().hinge(closer, farther)

    slopes = Slopes(gap_and_slope, lambda difference: tuple(2 * part for part in relu_and_slope(difference)))


def _mined_at(choice: LossChoice) -> Miner:
    return MINERS[choice.miner](choice.margin, choice.scratch)


def _how(choice: LossChoice, miner: str | Miner | None = None) -> MinedSettings:
    return {"miner": miner or choice.miner, "normalize": choice.unit_rows, "scratch_bytes": choice.scratch}


LOSSES: dict[str, Callable[[LossChoice], nn.Module]] = {
    "shadow": lambda choice: ShadowLoss(choice.margin, **_how(choice)),
    "triplet": lambda choice: TripletLoss(choice.margin, **_how(choice)),
    "soft_margin_triplet": lambda choice: SoftMarginTripletLoss(**_how(choice, _mined_at(choice))),
    "angular_triplet": lambda choice: AngularTripletLoss(choice.margin, **_how(choice)),
    "soft_triple": lambda choice: SoftTripleLoss(choice.classes, choice.dim, scratch_bytes=choice.scratch),
    "multi_similarity": lambda choice: MultiSimilarityLoss(scratch_bytes=choice.scratch),
    "angular": lambda choice: AngularLoss(scratch_bytes=choice.scratch),
    "contrastive": lambda choice: ContrastiveLoss(scratch_bytes=choice.scratch),
    "lifted_structure": lambda choice: LiftedStructureLoss(scratch_bytes=choice.scratch),
    "n_pair": lambda choice: NPairLoss(scratch_bytes=choice.scratch),
    "ranked_list": lambda choice: RankedListLoss(scratch_bytes=choice.scratch),
    "arc_face": lambda choice: ArcFaceLoss(choice.classes, choice.dim, scratch_bytes=choice.scratch),
    "triplet_control": lambda choice: TripletLoss(2 * choice.margin, **_how(choice, _mined_at(choice))),
    "double_shadow": lambda choice: DoubleShadow(choice.margin, **_how(choice)),
}
PAPER_LOSSES = ("shadow", "triplet", "soft_margin_triplet", "angular_triplet", "soft_triple", "multi_similarity")
CONTROLS = ("triplet_control", "double_shadow")


def build_loss(
    name: str,
    *,
    margin: float,
    miner: str,
    classes: int,
    dim: int,
    scratch_bytes: int = SCRATCH_BYTES,
    unit_rows: bool = True,
) -> nn.Module:
    """Return the loss of that name. unit_rows: of losses of triplets; the others have their papers' choice."""
    check_choice(name, tuple(LOSSES), "loss")
    check_choice(miner, tuple(MINERS), "miner")
    return LOSSES[name](LossChoice(margin, miner, classes, dim, scratch_bytes, unit_rows))
