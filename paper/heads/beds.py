"""Which heads are trained: the paper's protocol on unit rows, and Shadow on rows of free length, fairly.

protocol    unit rows, Adam with weight decay 1e-4, semi-hard mining in squared distance at margin 0.2: the paper's.
            Not the paper's: the backbone rests, 256 dimensions instead of 64, batches of 64 with 4 of a class
            instead of 32 with 5
free        rows as the head gives them. Every setting has its margin from a search of its own on images that are
            held out of training; ten other seeds are then scored on the test split. Settings: what the miner
            compares, semi-hard or batch-hard, a price on length or none
"""

from dataclasses import dataclass, replace

from paper.heads.training import Trial

SEEDS, FEWER = 10, 5
TUNING_SEED = 100
PRICE = 1e-3  # of the paper's ablation
LADDER = 10**0.5  # between margins
RUNGS = range(-2, 3)  # at first; the search goes on while the best margin is at an end
LAST_RUNG = 5
MIDDLE = {"shadow": 3.0, "triplet": 50.0, "euclidean_triplet": 3.0}  # in gaps, squared distance, distance


@dataclass(frozen=True)
class HeadBed:
    """A dataset of features."""

    name: str
    data: str
    size: int
    most: int | None = None  # images of a class
    others: bool = False  # losses that are neither Shadow nor Triplet, five seeds each


BEDS = {
    bed.name: bed
    for bed in (
        HeadBed("glyphs", "glyphs", 64),
        HeadBed("ham10000", "ham10000", 96),
        HeadBed("tiny_imagenet", "tiny_imagenet", 64),
        HeadBed("cub200", "cub200", 96, others=True),
        HeadBed("odir5k", "odir5k", 96),
        HeadBed("cifar10", "cifar10", 64, 500, others=True),
        HeadBed("cifar100", "cifar100", 64),
    )
}
PAPER = Trial(loss="shadow", mining="direction")
PAIR = ("shadow", "triplet", "triplet_control")
OTHERS = ("soft_margin_triplet", "angular_triplet", "soft_triple", "multi_similarity")
FREE = Trial(loss="shadow", unit_rows=False, steps=200)
MINERS = ("semi_hard", "batch_hard")


def protocol(bed: HeadBed, seed: int) -> dict[str, Trial]:
    """Return what is trained of the paper's protocol with a seed."""
    losses = PAIR + (OTHERS if bed.others and seed < FEWER else ())
    return {loss: replace(PAPER, loss=loss) for loss in losses}


def free_settings() -> dict[str, Trial]:
    """Return every setting on free rows by its name; margins are still to be searched."""
    settings = {}
    for loss, mining, prices in (
        ("shadow", "own", (0.0, PRICE)),
        ("triplet", "own", (0.0, PRICE)),  # its own measure is Euclidean
        ("shadow", "euclid", (0.0,)),
        ("shadow", "direction", (0.0,)),
        ("triplet", "direction", (0.0,)),
        ("euclidean_triplet", "own", (0.0,)),
    ):
        for miner in MINERS:
            for price in prices:
                trial = replace(FREE, loss=loss, mining=mining, miner=miner, length_penalty=price)
                settings[setting_name(trial)] = trial
    return settings


def setting_name(trial: Trial) -> str:
    """Return the name of a setting."""
    price = " price" if trial.length_penalty else ""
    return f"{trial.loss} {trial.mining} {trial.miner}{price}"
