"""Memory-linear deep metric learning for PyTorch.

```python
import torch
import shadowmetric as sm

embeddings, labels = torch.randn(40, 8, requires_grad=True), torch.arange(40) // 5
loss = sm.ShadowLoss(margin=0.2)  # unit rows and semi-hard mining
loss(embeddings, labels).backward()  # no (batch, batch) tensor, ever
sm.evaluate(embeddings, labels).map_at_r  # nor any (queries, gallery) one

embedder, images = torch.nn.Linear(20, 8), torch.randn(40, 20)
sm.cached_backward(embedder, images, labels, loss, micro_batch=16)  # nor the activations of a whole batch
```

Losses, miners and measures need torch alone. Names are imported when the first of them is asked for: torch takes
seconds, in which a command must answer Ctrl-C.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shadowmetric.batches import CrossBatchMemory, GatheredLoss, TwoTowerLoss, cached_backward, cached_rows
    from shadowmetric.evaluation import Scores, convergence_epoch, evaluate
    from shadowmetric.losses import (
        AngularLoss,
        AngularTripletLoss,
        ArcFaceLoss,
        ContrastiveLoss,
        LiftedStructureLoss,
        MultiSimilarityLoss,
        NPairLoss,
        RankedListLoss,
        ShadowLoss,
        SoftMarginTripletLoss,
        SoftTripleLoss,
        TripletLoss,
        angular_loss,
        angular_triplet_loss,
        arc_face_loss,
        contrastive_loss,
        equivalent_margins,
        lifted_structure_loss,
        multi_similarity_loss,
        n_pair_loss,
        ranked_list_loss,
        shadow_loss,
        shadow_loss_rows,
        soft_margin_triplet_loss,
        soft_triple_loss,
        triplet_loss,
    )
    from shadowmetric.mining import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
    from shadowmetric.types import Triplets

__version__ = "0.1.0"
__all__ = [
    "AllMiner",
    "AngularLoss",
    "AngularTripletLoss",
    "ArcFaceLoss",
    "BatchHardMiner",
    "ContrastiveLoss",
    "CrossBatchMemory",
    "GatheredLoss",
    "HardMiner",
    "LiftedStructureLoss",
    "MultiSimilarityLoss",
    "NPairLoss",
    "RankedListLoss",
    "Scores",
    "SemiHardMiner",
    "ShadowLoss",
    "SoftMarginTripletLoss",
    "SoftTripleLoss",
    "TripletLoss",
    "Triplets",
    "TwoTowerLoss",
    "angular_loss",
    "angular_triplet_loss",
    "arc_face_loss",
    "cached_backward",
    "cached_rows",
    "contrastive_loss",
    "convergence_epoch",
    "equivalent_margins",
    "evaluate",
    "lifted_structure_loss",
    "multi_similarity_loss",
    "n_pair_loss",
    "ranked_list_loss",
    "shadow_loss",
    "shadow_loss_rows",
    "soft_margin_triplet_loss",
    "soft_triple_loss",
    "triplet_loss",
]
ROOMS = ("types", "mining", "losses", "batches", "evaluation", "ops")  # that names are looked for in, in this order


if not TYPE_CHECKING:  # which has them above

    def __getattr__(name: str):
        """Return a public name, or a room that holds some."""
        if name in ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        rooms = (importlib.import_module(f"{__name__}.{room}") for room in ROOMS)
        globals()[name] = value = next(getattr(room, name) for room in rooms if hasattr(room, name))
        return value

    def __dir__() -> list[str]:
        """Return what can be asked for."""
        return sorted({*globals(), *__all__, *ROOMS})
