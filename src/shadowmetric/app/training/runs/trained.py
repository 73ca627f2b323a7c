"""A finished run in use: its embedder with the best weights, and the embeddings of any pictures."""

from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from shadowmetric.app.models import Embedder
from shadowmetric.app.training.preparation import Parts, prepare
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.setup import embedder_for
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report


def trained_embedder(run: Run) -> Embedder:
    """Return the embedder with the weights of the best epoch, ready to embed."""
    if not run.best_file.exists():
        raise Mistake(f"{run.folder} has no {run.best_file.name} yet; train on with `{run.resume_command()}`.")
    embedder = embedder_for(replace(run.settings(), weights=None))
    try:
        embedder.load_state_dict(load_file(run.best_file))
    except (OSError, RuntimeError, SafetensorError) as wrong:
        raise Mistake(f"{run.best_file} does not fit the settings beside it ({first_line(wrong)}).") from None
    return embedder.eval()


def parts_of(
    run: Run, *, data: str | None = None, data_root: Path | None = None, report: Report | None = None
) -> Parts:
    """Return the pictures of a run, or of other data, as its embedder takes them."""
    settings = run.settings()
    if data is not None:
        settings = replace(settings, data=data, split="official")
    if data_root is not None:
        settings = replace(settings, data_root=data_root)
    return prepare(settings, report)


def first_line(wrong: BaseException) -> str:
    """Return the first words of an error that may have many."""
    return " ".join(str(wrong).split())[:200]
