"""How the default recipe was chosen: one setting at a time away from a middle, judged on validation images alone.

    python -m paper.recipe_sweep --data fashion_mnist --data-root DATA --images 60000
    python -m paper.recipe_sweep --data cub200 --data-root DATA \
        --backbone timm:tf_efficientnet_lite0 --weights FILE --size 64 --images 4000

Every run sees the same number of images, whatever its batch. The table is sorted by the best Recall@1 on the
validation part; the test split plays no part in the choice. Resumable: what is finished is not run again.
"""

import csv
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shadowmetric.app.compare.cells import Cell, run_cells
from shadowmetric.app.training.runs.origin import cores
from shadowmetric.app.training.runs.recipes import Recipe
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.runtime.files import write_whole

EPOCHS = 5  # in which the images are passed, so that there are that many judgments
SCRATCH_MIDDLE = Recipe(
    loss="shadow",
    epochs=EPOCHS,
    batch=64,
    per_class=4,
    optimizer="adamw",
    learning_rate=2e-3,
    head_learning_rate=2e-3,
    weight_decay=1e-4,
    warmup=0.05,
    freeze_batch_norm=False,
    augment="none",
    patience=0,
    mining_unit="squared",
)
PRETRAINED_MIDDLE = replace(
    SCRATCH_MIDDLE, learning_rate=1e-4, head_learning_rate=1e-3, warmup=0.1, freeze_batch_norm=True, augment="crop"
)
SCRATCH: list[dict[str, Any]] = [
    {},
    *({"learning_rate": rate, "head_learning_rate": rate} for rate in (1e-4, 5e-4, 1e-3, 4e-3, 8e-3)),
    {"batch": 32},
    {"batch": 128},
    {"per_class": 2},
    {"per_class": 8},
    {"warmup": 0.0},
    {"weight_decay": 0.0},
    {"weight_decay": 1e-2},
    {"optimizer": "adam"},
    {"augment": "shift"},
    {"augment": "crop"},
    {"miner": "batch_hard"},
]
PRETRAINED: list[dict[str, Any]] = [
    {},
    {"learning_rate": 3e-5},
    {"learning_rate": 3e-4},
    {"learning_rate": 1e-3},
    {"head_learning_rate": 1e-4},
    {"head_learning_rate": 1e-2},
    {"freeze_batch_norm": False},
    {"augment": "shift"},
    {"warmup": 0.0},
    {"batch": 32},
    {"per_class": 8},
]


@dataclass(frozen=True)
class Trial:
    """A change of the recipe, and where its run is."""

    change: dict[str, Any]
    cell: Cell

    @property
    def name(self) -> str:
        """Return the change in words."""
        return (
            " ".join(
                f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in self.change.items()
            )
            or "as it is"
        )

    def best(self) -> float:
        """Return the best Recall@1 on the validation part."""
        return max((line["recall_at_1"] for line in self.cell.run.journal()), default=0.0)


def trials(shared: TrainSettings, out: Path, images: int) -> list[Trial]:
    """Return every change, with as many batches as make the images."""
    pretrained = shared.weights is not None
    middle = asdict(PRETRAINED_MIDDLE if pretrained else SCRATCH_MIDDLE)
    sweep = []
    for change in PRETRAINED if pretrained else SCRATCH:
        recipe = middle | change
        settings = replace(shared, batches=max(1, images // EPOCHS // recipe["batch"]), **recipe)
        name = "-".join(f"{key}_{value}" for key, value in change.items()) or "as-it-is"
        sweep.append(Trial(change, Cell(out / name, settings)))
    return sweep


def main(
    *,
    data: str,
    images: int,
    data_root: Path | None = None,
    backbone: str | None = None,
    weights: str | None = None,
    size: int | None = None,
    split: str = "official",
    jobs: int | None = None,
    out: Path | None = None,
) -> None:
    """Run the sweep and print its table."""
    shared = TrainSettings(
        data=data, data_root=data_root, backbone=backbone, weights=weights, size=size, resize=size, split=split
    )
    folder = out or Path("runs") / f"sweep-{data}"
    sweep = trials(shared, folder, images)
    cells = [trial.cell for trial in sweep]
    failures = run_cells(cells, jobs or cores(), lambda share, names: print(f"{share:.2f} {names}"))
    for name, reason in failures.items():
        print(f"{name} failed: {reason}")
    sweep.sort(key=lambda trial: -trial.best())
    for trial in sweep:
        print(f"| {trial.name} | {100 * trial.best():.2f} |")

    def write(place: Path) -> None:
        with place.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["change", "validation_recall_at_1", "best_epoch"])
            for trial in sweep:
                recalls = [line["recall_at_1"] for line in trial.cell.run.journal()] or [0.0]
                writer.writerow([trial.name, max(recalls), 1 + recalls.index(max(recalls))])

    write_whole(folder / "sweep.csv", write)


if __name__ == "__main__":
    from cyclopts import run

    run(main)
