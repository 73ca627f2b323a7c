"""Memory-linear deep metric learning for PyTorch."""
from shadowmetric.mining import AllMiner as AllMiner
from shadowmetric.mining import BatchHardMiner as BatchHardMiner
from shadowmetric.mining import HardMiner as HardMiner
from shadowmetric.mining import SemiHardMiner as SemiHardMiner
