"""Where the records lie that pages quote: trainings with the paper, times and bytes with the benchmarks."""

from pathlib import Path

FOLDERS = ("paper/records", "benchmarks/records")
STUDIES = "paper/records/small"  # a record a study
HEADS = "paper/records/heads"  # a record a dataset of features


def record_file(root: Path, name: str) -> Path:
    """Return a record by its name, wherever it lies in a clone."""
    for folder in FOLDERS:
        if (root / folder / name).exists():
            return root / folder / name
    raise FileNotFoundError(f"{name} is in none of {', '.join(FOLDERS)}.")
