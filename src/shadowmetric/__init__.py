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
    from shadowmetric.batches import CrossBatchMemory as CrossBatchMemory
    from shadowmetric.batches import GatheredLoss as GatheredLoss
    from shadowmetric.batches import HardNegativeSampler as HardNegativeSampler
    from shadowmetric.batches import TwoTowerLoss as TwoTowerLoss
    from shadowmetric.batches import cached_backward as cached_backward
    from shadowmetric.batches import cached_rows as cached_rows
    from shadowmetric.evaluation import Scores as Scores
    from shadowmetric.evaluation import convergence_epoch as convergence_epoch
    from shadowmetric.evaluation import evaluate as evaluate
    from shadowmetric.losses import *  # noqa: F403
    from shadowmetric.mining import AllMiner as AllMiner
    from shadowmetric.mining import BatchHardMiner as BatchHardMiner
    from shadowmetric.mining import DistanceWeightedMiner as DistanceWeightedMiner
    from shadowmetric.mining import HardMiner as HardMiner
    from shadowmetric.mining import LabelSets as LabelSets
    from shadowmetric.mining import LabelTree as LabelTree
    from shadowmetric.mining import Pairs as Pairs
    from shadowmetric.mining import Relevance as Relevance
    from shadowmetric.mining import SemiHardMiner as SemiHardMiner
    from shadowmetric.mining import hardest_negatives as hardest_negatives
    from shadowmetric.types import Relation as Relation
    from shadowmetric.types import Triplets as Triplets

__version__ = "0.1.0"
LIBRARY = (  # public names besides those of losses, which `losses/__init__.py` lists
    "AllMiner",
    "BatchHardMiner",
    "CrossBatchMemory",
    "DistanceWeightedMiner",
    "GatheredLoss",
    "HardMiner",
    "HardNegativeSampler",
    "LabelSets",
    "LabelTree",
    "Pairs",
    "Relation",
    "Relevance",
    "Scores",
    "SemiHardMiner",
    "Triplets",
    "TwoTowerLoss",
    "cached_backward",
    "cached_rows",
    "convergence_epoch",
    "evaluate",
    "hardest_negatives",
)
ROOMS = ("types", "mining", "losses", "batches", "evaluation", "ops")  # that names are looked for in, in this order


if not TYPE_CHECKING:  # which has them above

    def __getattr__(name: str):
        """Return a public name, a room that holds some, or the list of all."""
        if name in ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        if name == "__all__":
            return sorted((*LIBRARY, *importlib.import_module(f"{__name__}.losses").__all__))
        if name not in LIBRARY and (name.startswith("_") or name not in __getattr__("__all__")):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        rooms = (importlib.import_module(f"{__name__}.{room}") for room in ROOMS)
        globals()[name] = value = next(getattr(room, name) for room in rooms if hasattr(room, name))
        return value

    def __dir__() -> list[str]:
        """Return what can be asked for."""
        return sorted({*globals(), *__getattr__("__all__"), *ROOMS})
