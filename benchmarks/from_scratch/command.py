"""`python -m benchmarks from-scratch ROUND`: a round of the sweep, or the last one, on test images, beside the scripts.

Rows are written as they are finished, into one file for all rounds, and printed. Run it again, and it goes on.
"""

from pathlib import Path

from benchmarks.settings import Names


def from_scratch(
    round_name: str = "final",
    *,
    data_root: Path | None = None,
    seconds: float = 6.0,
    seeds: int = 3,
    beds: Names = (),
    out: Path = Path("from-scratch.csv"),
) -> None:
    """Train small embedders for equal seconds of one thread: ours, a plain script with two losses, and the floors.

    Parameters
    ----------
    round_name
        losses networks augmentation rates, on validation images, or final, on test images.
    data_root
        Where datasets lie. Default: $SHADOWMETRIC_DATA, else ./data.
    seconds
        Of the processor, that each training has.
    seeds
        How often each is trained.
    beds
        fashion_mnist cifar10 cub200 ham10000 tiny_imagenet glyphs. Default: those of the round.
    out
        The file; what it has is not done again.
    """
    import torch

    from benchmarks.from_scratch.beds import BEDS
    from benchmarks.from_scratch.sweep import ROUNDS, run_cells
    from shadowmetric.errors import Mistake

    if round_name not in ROUNDS:
        raise Mistake(f"the round is {round_name!r}; choose one of {', '.join(ROUNDS)}.")
    for name in beds:
        if name not in BEDS:
            raise Mistake(f"--beds has {name!r}; choose from {', '.join(BEDS)}.")
    for option, value in (("--seconds", seconds), ("--seeds", seeds)):
        if not value > 0:
            raise Mistake(f"{option} is {value:g}; it must be above 0.")
    torch.set_num_threads(1)
    cells = ROUNDS[round_name].cells(round_name, seeds, seconds, beds)
    for row in run_cells(cells, out, data_root):
        print(sentence(row), flush=True)
    print(f"All {len(cells)} cells of {round_name} are in {out}.")


def sentence(row: dict[str, object]) -> str:
    """Return a finished cell in one line."""
    figures = "  ".join(
        f"{name} {100 * float(str(row[name])):.1f}"
        for name in ("recall_at_1", "map_at_r", "nearest")
        if row[name] is not None
    )
    what = " ".join(str(row[name]) for name in ("network", "loss", "augment", "learning_rate", "batch", "per_class"))
    ours = f" ({what})" if row["contender"] == "ours" else ""
    return f"{row['bed']}, seed {row['seed']}, {row['contender']}{ours}: {row['steps']} steps, {figures}"
