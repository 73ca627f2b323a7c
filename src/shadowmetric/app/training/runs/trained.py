"""A finished run in use: its embedder with the best weights. It needs nothing that trains."""

from dataclasses import replace

from safetensors import SafetensorError
from safetensors.torch import load_file

from shadowmetric.app.models import Embedder
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake


def load_embedder(run: Run) -> Embedder:
    """Return the embedder with the weights of the best epoch, ready to embed."""
    if not run.best_file.exists():
        raise Mistake(f"{run.folder} has no {run.best_file.name} yet; train on with `{run.resume_command()}`.")
    embedder = embedder_for(replace(run.settings(), weights=None))
    try:
        embedder.load_state_dict(load_file(run.best_file))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise Mistake(f"{run.best_file} does not fit the settings beside it ({first_line(error)}).") from None
    return embedder.eval()


def first_line(error: BaseException) -> str:
    """Return the first words of an error that may have many."""
    return " ".join(str(error).split())[:200]
