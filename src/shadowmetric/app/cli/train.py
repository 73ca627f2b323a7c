"""`shadowmetric train`: from a dataset to a run."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.app.cli.config import CONFIG_HELP
from shadowmetric.app.training.runs.settings import TrainSettings, with_recipe
from shadowmetric.errors import Mistake

EXAMPLES = f"""\
{CONFIG_HELP}

Examples:

    shadowmetric train
    shadowmetric train --data folder:photos --epochs 20 --out runs/photos
    shadowmetric train --data cub200 --backbone timm:tf_efficientnet_lite0 --weights pretrained
    shadowmetric train --data folder:photos --dry-run
    shadowmetric train --resume runs/photos
"""
Folder = Annotated[Path | None, Parameter(show_default=False)]
RUNS = Path("runs")
TITLES = {
    "recall_at_1": "Recall@1",
    "recall_at_2": "@2",
    "recall_at_4": "@4",
    "recall_at_8": "@8",
    "map_at_r": "MAP@R",
    "silhouette": "silhouette",
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "nmi": "NMI",
    "convergence_epoch": "plateau",
}


app = App(name="train", usage="Usage: shadowmetric train [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def train(
    *,
    settings: Annotated[TrainSettings, Parameter(name="*")] | None = None,
    out: Folder = None,
    resume: Folder = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Train an embedder, judge each epoch on images held out of the training set, score the test set once.

    The run is a folder: settings, journal, best weights, scores. Ctrl-C saves it and says how to go on.

    Parameters
    ----------
    out
        Folder of the run. Default: runs/DATA-LOSS-SEED, with a number if that is taken.
    resume
        Go on with the run in this folder, from its last checkpoint, as if it had never stopped.
    dry_run
        Print the plan, with the time and the memory that are expected, and stop.
    json
        Print the scores, or the plan, as JSON instead of a table.
    """
    from shadowmetric.app.training.loop import train as train_run
    from shadowmetric.app.training.show import screen
    from shadowmetric.ops.ranks import leave_group

    if resume is not None and (settings is not None or out is not None):
        raise Mistake("--resume takes the settings and the folder of its run; give it alone, or train anew with --out.")
    if out is None and resume is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise Mistake("several processes train one run; name its folder with --out.")
    settings = settings or TrainSettings()
    if dry_run:
        show_plan(settings, json, resume)
        return
    folder = resume or out or free_folder(settings)
    scores = train_run(settings, folder, resume=resume is not None, show=screen())
    leave_group()
    if os.environ.get("RANK", "0") == "0":
        show_scores(scores, folder, json)


def show_plan(settings: TrainSettings, as_json: bool, resume: Path | None) -> None:
    """Print what a run would take, and begin nothing."""
    from shadowmetric.app.cli.tables.plan import print_plan
    from shadowmetric.app.training.planning.advice import advise
    from shadowmetric.app.training.planning.dry_run import plan_run
    from shadowmetric.app.training.show import screen

    if resume is not None:
        raise Mistake("--dry-run plans what is not begun; leave out --resume.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise Mistake("--dry-run times one process; call it without torchrun.")
    plan = plan_run(settings, screen())
    print_plan(plan, advise(plan, settings), as_json)


def free_folder(settings: TrainSettings) -> Path:
    """Return a folder below runs/ that is not there yet."""
    from shadowmetric.app.training.preparation import settle

    loss = settings.loss or str(with_recipe(settle(settings)[0]).loss)
    name = f"{data_name(settings)}-{loss.replace(':', '-')}-{settings.seed}"
    folder, number = RUNS / name, 1
    while folder.exists():
        number += 1
        folder = RUNS / f"{name}-{number}"
    return folder


def data_name(settings: TrainSettings) -> str:
    """Return a short name for what is trained on."""
    return Path(settings.data.partition(":")[2] or settings.data).stem


def show_scores(scores: dict, folder: Path, as_json: bool) -> None:
    """Print what the run reached, and what can be done with it."""
    from json import dumps

    from shadowmetric.app.cli.screen import new_table, say, screen, show
    from shadowmetric.app.training.runs.headline import headline

    console = screen()
    if as_json:
        console.out(dumps(scores, indent=2), highlight=False)
        return
    if above := about_floor(scores):
        say(console, above, "" if above.startswith("Above") else "bold red")
    table = new_table("Test split", *TITLES.values())
    table.add_row(*(format_score(name, scores.get(name)) for name in TITLES))
    show(console, table)
    console.print()
    for sentence in headline(scores):
        say(console, sentence)
    if scores["selected_on"] == "test":
        say(console, "The best epoch was CHOSEN ON THE TEST SPLIT: these figures are too good.", "bold red")
    say(console, f"Best epoch {scores['best_epoch']} of {scores['epochs']}, chosen on {scores['selected_on']}.")
    say(console, f"The run is {folder}; more figures: shadowmetric evaluate {folder}")


def about_floor(scores: dict) -> str:
    """Say whether a run is above the pooled features of its pretrained weights; nothing if it began from scratch."""
    floor = (scores.get("pooled_features") or {}).get("recall_at_1")
    if floor is None or scores.get("recall_at_1") is None:
        return ""
    reached, beside = (f"{100 * value:.2f} %" for value in (scores["recall_at_1"], floor))
    if scores["recall_at_1"] > floor:
        return f"Above the pooled features of its weights, not trained at all: Recall@1 {reached} against {beside}."
    return (
        f"TRAINING DOES NOT HELP: Recall@1 is {reached}, and the pooled features of its weights have {beside} without "
        "any training (--epochs 0)."
    )


def format_score(name: str, value: float | int | None) -> str:
    """Return a share in per cent, silhouette and epochs as they are, a dash for nothing."""
    if value is None:
        return "–"
    if name == "convergence_epoch":
        return f"epoch {value}"
    return f"{value:.3f}" if name == "silhouette" else f"{100 * value:.2f}"
