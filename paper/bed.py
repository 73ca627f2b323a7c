"""A bed: the data and settings of one block of a table, at three scales. Studies may share one: it is trained once.

paper    the published protocol, for a machine with a GPU and the full data
small    what two cores finish; what was reduced is said in the caption of every table
smoke    seconds, on the embedded digits: shows that everything runs, and nothing else
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.training.runs.settings import TrainSettings, as_plain, with_recipe

SCALES = ("paper", "small", "smoke")
SMOKE = {
    "data": "digits",
    "backbone": "small_cnn",
    "weights": "none",
    "learning_rate": 1e-3,
    "epochs": 2,
    "batches": 12,
}
SMOKE |= {"most_per_class": 12, "validation": 0.3}
SAID = (
    "data",
    "backbone",
    "weights",
    "size",
    "epochs",
    "batches",
    "most_per_class",
    "learning_rate",
    "head_learning_rate",
)
SAID = (*SAID, "freeze_batch_norm", "optimizer", "miner", "margin", "unit_rows", "length_penalty")
SCRATCH = {
    "backbone": "small_cnn",
    "weights": "none",
    "learning_rate": 1e-3,
    "epochs": 4,
    "batches": 200,
}  # at scale small
PRETRAINED = {"backbone": "timm:tf_efficientnet_lite0", "weights": "pretrained", "size": 64, "resize": 64}
PRETRAINED |= {"freeze_batch_norm": True, "learning_rate": 1e-4, "head_learning_rate": 1e-3, "epochs": 3, "batches": 40}
PRETRAINED |= {"most_per_class": 30}
WHOLE_PAPER = {"size": 224, "resize": 256}  # 224 is the paper's; how it gets there it does not say


@dataclass(frozen=True)
class Where:
    """Where things are on this machine, and at what scale they are done."""

    scale: str
    out: Path
    data_root: Path | None = None
    weights: str | None = None  # a file instead of published weights that would be downloaded
    jobs: int | None = None


@dataclass(frozen=True)
class Bed:
    """What is trained: losses × seeds, and controls and floors, on one dataset."""

    name: str
    data: str
    losses: tuple[str, ...]
    epochs: int  # of the paper, or ours where it names none
    small: dict[str, Any]
    change: dict[str, Any] = field(default_factory=dict)  # what the bed is about, at every scale
    seeds: int = 3
    floors: bool = True
    controls: bool = True

    def settings(self, scale: str) -> TrainSettings:
        """Return the settings of a scale, but for where the data are."""
        paper = {"data": self.data, "recipe": "paper", "epochs": self.epochs, "patience": 0, **WHOLE_PAPER}
        overrides = {"paper": {}, "small": self.small, "smoke": SMOKE | {"size": None, "resize": None}}[scale]
        return TrainSettings(**(paper | overrides | self.change))

    def plan(self, where: Where) -> Plan:
        """Return what is trained, as a comparison."""
        settings = self.settings(where.scale)
        overrides: dict[str, Any] = {"data_root": where.data_root, "allow_partial": where.scale == "small"}
        if with_recipe(settings).weights == "pretrained" and where.weights is not None:
            overrides["weights"] = where.weights
        smoke = where.scale == "smoke"
        return Plan(
            replace(settings, **overrides),
            where.out / self.name,
            self.losses[:2] if smoke else self.losses,
            controls=self.controls,
            floors=self.floors,
            seeds=2 if smoke else self.seeds,
            jobs=where.jobs,
            bed=self.name,
        )

    def reductions(self, scale: str) -> str:
        """Say in a sentence how a scale differs from the paper's; nothing if it does not."""
        paper, here = (as_plain(with_recipe(self.settings(one))) for one in ("paper", scale))
        differences = [
            f"{name.replace('_', ' ')} {format_setting(name, here[name])} instead of "
            f"{format_setting(name, paper[name])}"
            for name in SAID
            if here[name] != paper[name]
        ]
        return f"Reduced: {'; '.join(differences)}." if differences else ""


def format_setting(name: str, value: Any) -> str:
    """Return a setting in words."""
    if value is None:
        return "of the images" if name == "size" else "all"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
