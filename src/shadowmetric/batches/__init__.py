"""Batches larger than memory, than a step, or than a machine: cached, remembered, gathered.

cached_backward     a logical batch embedded in micro-batches, with the gradient of the whole
cached_rows         the same for trainers that call backward themselves
CrossBatchMemory    rows of earlier batches to compare with
GatheredLoss        the rows of all ranks to compare with
HardNegativeSampler batches of classes beside their hardest rivals of the whole training set
TwoTowerLoss        the rows of another embedder to compare with
"""

from shadowmetric.batches.cached import cached_backward as cached_backward
from shadowmetric.batches.cross_batch_memory import CrossBatchMemory as CrossBatchMemory
from shadowmetric.batches.gathered_loss import GatheredLoss as GatheredLoss
from shadowmetric.batches.hard_sampler import HardNegativeSampler as HardNegativeSampler
from shadowmetric.batches.rows_again import cached_rows as cached_rows
from shadowmetric.batches.two_towers import TwoTowerLoss as TwoTowerLoss
