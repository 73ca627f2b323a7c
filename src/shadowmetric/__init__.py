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

Losses, miners and measures need torch alone; nothing else is imported here.
"""

from shadowmetric.batches import CrossBatchMemory as CrossBatchMemory
from shadowmetric.batches import GatheredLoss as GatheredLoss
from shadowmetric.batches import TwoTowerLoss as TwoTowerLoss
from shadowmetric.batches import cached_backward as cached_backward
from shadowmetric.batches import cached_rows as cached_rows
from shadowmetric.evaluation import Scores as Scores
from shadowmetric.evaluation import convergence_epoch as convergence_epoch
from shadowmetric.evaluation import evaluate as evaluate
from shadowmetric.losses import AngularLoss as AngularLoss
from shadowmetric.losses import AngularTripletLoss as AngularTripletLoss
from shadowmetric.losses import ArcFaceLoss as ArcFaceLoss
from shadowmetric.losses import ContrastiveLoss as ContrastiveLoss
from shadowmetric.losses import LiftedStructureLoss as LiftedStructureLoss
from shadowmetric.losses import MultiSimilarityLoss as MultiSimilarityLoss
from shadowmetric.losses import NPairLoss as NPairLoss
from shadowmetric.losses import RankedListLoss as RankedListLoss
from shadowmetric.losses import ShadowLoss as ShadowLoss
from shadowmetric.losses import SoftMarginTripletLoss as SoftMarginTripletLoss
from shadowmetric.losses import SoftTripleLoss as SoftTripleLoss
from shadowmetric.losses import TripletLoss as TripletLoss
from shadowmetric.losses import equivalent_margins as equivalent_margins
from shadowmetric.losses import shadow_loss as shadow_loss
from shadowmetric.losses import shadow_loss_rows as shadow_loss_rows
from shadowmetric.mining import AllMiner as AllMiner
from shadowmetric.mining import BatchHardMiner as BatchHardMiner
from shadowmetric.mining import HardMiner as HardMiner
from shadowmetric.mining import SemiHardMiner as SemiHardMiner
from shadowmetric.types import Triplets as Triplets

__version__ = "0.1.0"
