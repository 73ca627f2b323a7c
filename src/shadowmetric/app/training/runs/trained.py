"""A finished run in use: its embedder with the best weights. It needs nothing that trains."""

from dataclasses import replace

from shadowmetric.app.models import Embedder
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.tensor_files import first_line, load_tensors
from shadowmetric.errors import Mistake


def load_embedder(run: Run) -> Embedder:
    """Return the embedder with the weights of the best epoch, ready to embed."""
    if not run.best_file.exists():
        raise Mistake(f"{run.folder} has no {run.best_file.name} yet; train on with `{run.resume_command()}`.")
    embedder = embedder_for(replace(run.settings(), weights=None))
    run.check(run.best_file)
    try:
        embedder.load_state_dict(load_tensors(run.best_file))
    except (OSError, RuntimeError, ValueError) as error:
        raise Mistake(f"{run.best_file} does not fit the settings beside it ({first_line(error)}).") from None
    return embedder.eval()
