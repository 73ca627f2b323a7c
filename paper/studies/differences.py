"""Where can Shadow differ from Triplet at all? Four ways out of the identity, each measured.

    python -m paper differences --scale small --data-root DATA
136 trainings took half an hour on two cores that did other work too.

Under the paper's protocol (unit rows, semi-hard mining, Adam) the two are one loss up to a factor that Adam ignores but
for its weight decay. They can differ

    on rows of free length     Shadow is then another function (miners compare unit rows all the same)
    with hard or all mining    hinges are not always active, so that margins matter: Shadow's is worth twice as much
    at another margin          the same, seen from the other side; under semi-hard mining no margin makes a difference
    with SGD                   which takes a step half as long for half the gradient

and, within the protocol, by Adam's coupled weight decay alone: without it nothing should be left but rounding.

Beside each stand the controls of `compare`: Triplet at twice the margin with the same triplets (on unit rows: Shadow
but for the factor), and twice Shadow (Shadow but for the factor, on any rows). A difference from Triplet that the first
control shares is a difference of margins; one that twice Shadow does not share is a difference of step length.
Ours: on free rows Shadow is worse than Triplet, by 6 points with batch-hard mining and ten seeds. With SGD it is half a
point better, and twice Shadow is not: half the step. Nothing else is beyond the noise of the seeds (README).
"""

from paper.bed import SCRATCH, Bed
from paper.beside import ways_table
from paper.studies.standard import TWO
from paper.study import Study

SMALL = SCRATCH | {"size": None, "resize": None, "most_per_class": 500, "batches": 150}
MANY = 10  # seeds, for the setting in which a difference was suspected


def way(name: str, *, seeds: int = 3, **change: object) -> Bed:
    """Return the bed of one way."""
    return Bed(f"way-{name}", "fashion_mnist", TWO, 30, SMALL, change, seeds=seeds)


WAYS = {
    "the paper's: unit rows, semi-hard, Adam": way("none"),
    "the same without weight decay": way("no-decay", weight_decay=0.0),
    "free rows": way("free", unit_rows=False),
    "free rows, batch-hard mining": way("free-batch-hard", unit_rows=False, miner="batch_hard", seeds=MANY),
    "hard mining": way("hard", miner="hard"),
    "all triplets": way("all", miner="all"),
    "margin 0.8, semi-hard mining": way("margin-0.8", margin=0.8),
    "margin 0.05, batch-hard mining": way("margin-0.05-batch-hard", margin=0.05, miner="batch_hard"),
    "SGD": way("sgd", optimizer="sgd", learning_rate=0.1, head_learning_rate=0.1),
}

STUDY = Study(
    name="differences",
    title="Four ways in which Shadow can differ from Triplet",
    beds=tuple(WAYS.values()),
    tables=lambda records: [
        ways_table({words: records[bed.name] for words, bed in WAYS.items() if bed.name in records})
    ],
)
