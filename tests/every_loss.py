"""Every loss with every miner that it can have, for tests of what must hold for all of them."""

from collections.abc import Callable

from torch import nn

import shadowmetric as sm

CLASSES = 6
MINERS = {
    "semi_hard": "semi_hard",
    "hard": "hard",
    "batch_hard": "batch_hard",
    "all": "all",
    "window": sm.SemiHardMiner(0.2, "all"),
    "fallback": sm.SemiHardMiner(0.2, fallback="farthest"),
    "nearest_positive": sm.SemiHardMiner(0.5, positives="nearest"),
}
MINED = {
    "shadow": sm.ShadowLoss,
    "triplet": sm.TripletLoss,
    "soft_margin": sm.SoftMarginTripletLoss,
    "angular_triplet": sm.AngularTripletLoss,
}
LOSSES: dict[str, Callable[[int], nn.Module]] = {
    f"{name}/{miner}": lambda dim, make=make, chosen=chosen: make(miner=chosen)
    for name, make in MINED.items()
    for miner, chosen in MINERS.items()
} | {
    "shadow/sum": lambda dim: sm.ShadowLoss(miner="hard", reduction="sum"),
    "shadow/mean_nonzero": lambda dim: sm.ShadowLoss(miner="hard", reduction="mean_nonzero"),
    "shadow/free": lambda dim: sm.ShadowLoss(miner="hard", normalize=False),
    "shadow/free_semi_hard": lambda dim: sm.ShadowLoss(normalize=False),
    "shadow/free_window": lambda dim: sm.ShadowLoss(
        miner=sm.SemiHardMiner(0.2, "all", unit="gap", normalize=False), normalize=False
    ),
    "triplet/free": lambda dim: sm.TripletLoss(normalize=False),
    "angular": lambda dim: sm.AngularLoss(),
    "multi_similarity": lambda dim: sm.MultiSimilarityLoss(),
    "contrastive": lambda dim: sm.ContrastiveLoss(),
    "contrastive/sum": lambda dim: sm.ContrastiveLoss(squared=False, reduction="sum"),
    "lifted_structure": lambda dim: sm.LiftedStructureLoss(),
    "n_pair": lambda dim: sm.NPairLoss(),
    "n_pair/l2": lambda dim: sm.NPairLoss(normalize=False, l2_weight=0.1),
    "ranked_list": lambda dim: sm.RankedListLoss(),
    "soft_triple": lambda dim: sm.SoftTripleLoss(CLASSES, dim),
    "arc_face": lambda dim: sm.ArcFaceLoss(CLASSES, dim),
}
