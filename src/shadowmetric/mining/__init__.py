"""(embeddings, labels) -> Triplets. One rule per file; none of them builds a (batch, batch) tensor."""

from shadowmetric.mining.all_triplets import AllMiner as AllMiner
from shadowmetric.mining.batch_hard import BatchHardMiner as BatchHardMiner
from shadowmetric.mining.distance_weighted import DistanceWeightedMiner as DistanceWeightedMiner
from shadowmetric.mining.hard import HardMiner as HardMiner
from shadowmetric.mining.label_sets import LabelSets as LabelSets
from shadowmetric.mining.label_tree import LabelTree as LabelTree
from shadowmetric.mining.listed_pairs import Pairs as Pairs
from shadowmetric.mining.listed_pairs import Relevance as Relevance
from shadowmetric.mining.semi_hard import SemiHardMiner as SemiHardMiner
from shadowmetric.mining.whole_set import HardestNegatives as HardestNegatives
from shadowmetric.mining.whole_set import hardest_negatives as hardest_negatives
