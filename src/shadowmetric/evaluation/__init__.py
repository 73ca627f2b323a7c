"""Functions of embeddings and labels, one measure per file, each with its definition and edge cases.

`evaluate` is the front door. Every measure streams over blocks of similarities in fixed memory.
"""

from shadowmetric.evaluation.bootstrap import Interval as Interval
from shadowmetric.evaluation.bootstrap import bootstrap_interval as bootstrap_interval
from shadowmetric.evaluation.evaluate import MEASURES as MEASURES
from shadowmetric.evaluation.evaluate import evaluate as evaluate
from shadowmetric.evaluation.paired import PairedTest as PairedTest
from shadowmetric.evaluation.paired import paired_test as paired_test
from shadowmetric.evaluation.plateau import convergence_epoch as convergence_epoch
from shadowmetric.evaluation.scores import Scores as Scores
