"""Every loss by its name, as commands and settings spell it.

Margin and miner are asked of losses of triplets only; the others keep the values of their papers. A miner is one by
name, which compares what the loss does, or that of the paper's protocol, which compares squared distances of unit rows
whatever the loss (mining_unit).

`normalized_softmax` (Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning; NormFace) is CosFace
without a margin: cross-entropy of the cosines with the centers. Its scale is low, since training from scratch is its
use: at 8 a row that fits its center still pulls, and measured on small networks that learns faster
than 16.

Two entries are controls, not methods. On unit rows Shadow at margin m is half the squared Triplet at margin 2m, so

    triplet_control    Triplet at 2m with the triplets of Shadow at m: what Shadow is, but for the factor
    double_shadow      Shadow times 2: exactly that Triplet. AdamW ignores a factor but for its epsilon and rounding, so
                       what differs between it and Shadow is noise of training
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from torch import Tensor, nn

from shadowmetric.checks import check_choice, check_margin
from shadowmetric.losses.angular import AngularLoss
from shadowmetric.losses.angular_triplet import AngularTripletLoss
from shadowmetric.losses.arc_face import ArcFaceLoss
from shadowmetric.losses.circle import CircleLoss
from shadowmetric.losses.clustering import ClusteringLoss
from shadowmetric.losses.contrastive import ContrastiveLoss
from shadowmetric.losses.cos_face import CosFaceLoss
from shadowmetric.losses.fast_ap import FastAPLoss
from shadowmetric.losses.global_loss import GlobalLoss
from shadowmetric.losses.group import GroupLoss
from shadowmetric.losses.histogram import HistogramLoss
from shadowmetric.losses.info_nce import InfoNCELoss
from shadowmetric.losses.lifted_structure import LiftedStructureLoss
from shadowmetric.losses.margin import MarginLoss
from shadowmetric.losses.mined import MINERS, MinedSettings, MinerName
from shadowmetric.losses.multi_similarity import MultiSimilarityLoss
from shadowmetric.losses.n_pair import NPairLoss
from shadowmetric.losses.proxy_anchor import ProxyAnchorLoss
from shadowmetric.losses.proxy_nca import ProxyNCALoss
from shadowmetric.losses.ranked_list import RankedListLoss
from shadowmetric.losses.recall_at_k import RecallAtKLoss
from shadowmetric.losses.shadow import ShadowLoss
from shadowmetric.losses.siglip import SigLIPLoss
from shadowmetric.losses.slopes import Slopes, gap_and_slope, relu_and_slope
from shadowmetric.losses.smooth_ap import SmoothAPLoss
from shadowmetric.losses.soft_margin_triplet import SoftMarginTripletLoss
from shadowmetric.losses.soft_triple import SoftTripleLoss
from shadowmetric.losses.sub_center_arc_face import SubCenterArcFaceLoss
from shadowmetric.losses.sup_con import SupConLoss
from shadowmetric.losses.triplet import TripletLoss
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Miner

MiningUnit = Literal["loss", "squared"]
SOFTMAX_SCALE = 8.0


class LossChoice(NamedTuple):
    """What a loss may need to know."""

    margin: float
    miner: str
    classes: int  # labels of proxies are 0 to classes - 1
    dim: int
    scratch: int = SCRATCH_BYTES
    unit_rows: bool = True
    mining_unit: str = "loss"


class TripletControl(TripletLoss):
    """Triplet loss at a margin, with the triplets of Shadow at half of it."""

    def make_miner(self, name: MinerName) -> TripletMiner:
        """Return the miner of Shadow."""
        check_choice(name, tuple(MINERS), "miner")
        return MINERS[name](self.margin / 2, "gap", self.normalize, self.scratch_bytes)


class DoubleShadow(ShadowLoss):
    """Twice the Shadow loss."""

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return twice the value of triplets."""
        return 2 * super().hinge(closer, farther)

    slopes = Slopes(gap_and_slope, lambda difference: tuple(2 * part for part in relu_and_slope(difference)))


def choose_miner(name: str, margin: float, scratch: int, mining_unit: str) -> MinerName | Miner:
    """Return the name, for a loss to make its miner of, or the miner of the paper's protocol."""
    check_choice(mining_unit, get_args(MiningUnit), "mining_unit")
    if name not in MINERS:
        raise ValueError(f"miner is {name!r}; choose one of {', '.join(MINERS)}.")
    return name if mining_unit == "loss" else MINERS[name](margin, "squared", True, scratch)


def _how(choice: LossChoice) -> MinedSettings:
    miner = choose_miner(choice.miner, choice.margin, choice.scratch, choice.mining_unit)
    return {"miner": miner, "normalize": choice.unit_rows, "scratch_bytes": choice.scratch}


def _rows(make: Callable[..., nn.Module]) -> Callable[[LossChoice], nn.Module]:
    return lambda choice: make(scratch_bytes=choice.scratch)


def _centers(make: Callable[..., nn.Module], **settings: float) -> Callable[[LossChoice], nn.Module]:
    return lambda choice: make(choice.classes, choice.dim, scratch_bytes=choice.scratch, **settings)


LOSSES: dict[str, Callable[[LossChoice], nn.Module]] = {
    "shadow": lambda choice: ShadowLoss(choice.margin, **_how(choice)),
    "triplet": lambda choice: TripletLoss(choice.margin, **_how(choice)),
    "soft_margin_triplet": lambda choice: SoftMarginTripletLoss(**_how(choice)),
    "angular_triplet": lambda choice: AngularTripletLoss(choice.margin, **_how(choice)),
    "soft_triple": _centers(SoftTripleLoss),
    "multi_similarity": _rows(MultiSimilarityLoss),
    "angular": _rows(AngularLoss),
    "contrastive": _rows(ContrastiveLoss),
    "lifted_structure": _rows(LiftedStructureLoss),
    "n_pair": _rows(NPairLoss),
    "ranked_list": _rows(RankedListLoss),
    "arc_face": _centers(ArcFaceLoss),
    "sup_con": _rows(SupConLoss),
    "info_nce": _rows(InfoNCELoss),
    "circle": _rows(CircleLoss),
    "siglip": _rows(SigLIPLoss),
    "proxy_anchor": _centers(ProxyAnchorLoss),
    "proxy_nca": _centers(ProxyNCALoss),
    "cos_face": _centers(CosFaceLoss),
    "normalized_softmax": _centers(CosFaceLoss, margin=0.0, scale=SOFTMAX_SCALE),
    "sub_center_arc_face": _centers(SubCenterArcFaceLoss),
    "group": _centers(GroupLoss),
    "smooth_ap": _rows(SmoothAPLoss),
    "recall_at_k": _rows(RecallAtKLoss),
    "fast_ap": _rows(FastAPLoss),
    "histogram": _rows(HistogramLoss),
    "global": _rows(GlobalLoss),
    "clustering": _rows(ClusteringLoss),
    "margin": _rows(MarginLoss),
    "triplet_control": lambda choice: TripletControl(2 * choice.margin, **_how(choice)),
    "double_shadow": lambda choice: DoubleShadow(choice.margin, **_how(choice)),
}
CLASS_LOSSES = (  # rows are compared with learned centers alone: a memory of rows adds nothing
    "soft_triple",
    "arc_face",
    "proxy_nca",
    "cos_face",
    "normalized_softmax",
    "sub_center_arc_face",
)
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
    mining_unit: str = "loss",
) -> nn.Module:
    """Return the loss of that name.

    unit_rows, mining_unit: of losses of triplets; the others have their papers' choice.
    """
    check_choice(name, tuple(LOSSES), "loss")
    check_margin(margin)
    check_choice(miner, tuple(MINERS), "miner")
    check_choice(mining_unit, get_args(MiningUnit), "mining_unit")
    return LOSSES[name](LossChoice(margin, miner, classes, dim, scratch_bytes, unit_rows, mining_unit))
