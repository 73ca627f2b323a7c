"""The paper's ablation of collapse: the variance of embeddings with and without a price on their length.

    python -m paper collapse --scale small --data-root DATA
24 trainings took five minutes on two cores.

    variance    of each of the 64 dimensions over the test rows at unit length, in the mean: at most 1/64 = 0.0156
    penalty     1e-3 times the mean squared length of rows, as the head gives them (at unit length it is constant)

The paper, on CARS196: variance 0.0078 for Shadow without the penalty (just half of what unit rows of 64 numbers can
have) and 0.0068 with it, accuracy 0.8 points lower; Triplet with it 0.0015 and 4.1 points lower. It gives no variance
of Triplet without.
Ours, on CIFAR-10: on unit rows the penalty changes neither loss (0.015, nearly all that unit rows can have), on free
rows it raises the variance of both. Nothing collapses, with or without it.
"""

from paper.bed import Bed
from paper.beside import collapse_table
from paper.studies.standard import CIFAR10, FULL, TWO
from paper.study import Study

PENALTY = 1e-3


def bed(name: str, *, controls: bool = True, **change: object) -> Bed:
    """Return CIFAR-10 with a change. On free rows Triplet at twice the margin is no control."""
    return Bed(f"cifar10-{name}", "cifar10", TWO, 100, FULL, change, floors=False, controls=controls)


PENALIZED = bed("penalty", length_penalty=PENALTY)
FREE = bed("free", controls=False, unit_rows=False)
FREE_PENALIZED = bed("free-penalty", controls=False, unit_rows=False, length_penalty=PENALTY)
PAIRS = {"unit rows": (CIFAR10, PENALIZED), "free rows": (FREE, FREE_PENALIZED)}

STUDY = Study(
    name="collapse",
    title="Collapse",
    beds=(CIFAR10, PENALIZED, FREE, FREE_PENALIZED),
    tables=lambda records: [
        collapse_table({words: tuple(records.get(bed.name) for bed in pair) for words, pair in PAIRS.items()})
    ],
)
