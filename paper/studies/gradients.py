"""The paper's ablation of gradients: how long is a triplet's gradient to its anchor, over training?

    python -m paper gradients --scale small --data-root DATA
No trainings of its own: those of standard, fine-grained and collapse.

    anchor gradient    | d value(a, p, n) / d a |, in the mean over mined triplets, each with a copy of its anchor, at
                       every tenth batch; in the mean over a training

On unit rows it is |(I - u u^T)(n - p)| for Shadow and twice that for Triplet: the ratio is 1/2 in every batch, whatever
was learned, and Adam divides by it. The paper: 1.62 for Shadow, 0.64 for Triplet on CARS196, 2.53 times as long, as an
explanation of faster learning. A factor of a gradient explains nothing under Adam, and here it has the other direction.
Ours: docs/claims.md has the ratios; on unit rows they are 0.5 but for the runs being two.
"""

from paper.beside import gradients_table
from paper.studies.collapse import FREE
from paper.studies.fine_grained import CUB200
from paper.studies.standard import CIFAR10
from paper.study import Study

BEDS = {"CIFAR-10, unit rows": CIFAR10, "CUB-200, unit rows": CUB200, "CIFAR-10, free rows": FREE}

STUDY = Study(
    name="gradients",
    title="Anchor gradients",
    beds=(CIFAR10, CUB200, FREE),
    tables=lambda records: [
        gradients_table({words: records[bed.name] for words, bed in BEDS.items() if bed.name in records})
    ],
)
