"""All that decides what a run does next, in one file that is whole or not there.

Weights of the embedder and of the loss, the optimizer, where in which epoch the run stands, the sums of the epoch so
far, the journal, and the states of the three random generators. The learning rate is a function of the step, and a
batch one of (seed, epoch, place), so neither needs any more. On a CPU a resumed run therefore ends with the very bits
of one that was never stopped.

The file is torch's, read with weights_only: nothing in it is executed. It is read if it has the very bytes that were
written (`runtime/digests.py`): other ones might go on, and end elsewhere.
"""

import random
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.tensor_files import first_line, load_state, save_state
from shadowmetric.errors import Mistake
from shadowmetric.runtime.digests import RECORD

VERSION = 1


@dataclass
class State:
    """Where a run stands."""

    epoch: int = 0  # epochs that are finished
    position: int = 0  # batches of the next one that are done
    step: int = 0  # batches of all
    best_epoch: int = 0
    best: float = -1.0  # Recall@1 of the best epoch
    sums: dict[str, float] = field(default_factory=dict)  # of the epoch under way
    in_a_row: dict[str, int] = field(default_factory=dict)  # batches or epochs with the same trouble
    lines: list[dict[str, Any]] = field(default_factory=list)  # of the journal
    data: str = ""  # hash of the names and labels that are trained on
    ranks: int = 1  # processes that trained last
    predicted: int = 0  # bytes at the peak, where there is a budget


def save(run: Run, state: State, parts: dict[str, Any]) -> None:
    """Write the state and the state dicts of the parts."""
    checkpoint = {
        "version": VERSION,
        "state": asdict(state),
        "random": random_states(),
        "parts": {name: part.state_dict() for name, part in parts.items()},
    }
    run.write(run.state_file, lambda place: save_state(place, checkpoint))


def check_saved(run: Run) -> None:
    """Refuse to go on from files that are not as they were written."""
    saved = [file for file in (run.state_file, run.best_file) if file.exists()]
    if saved and not run.digests.has_record():
        raise Mistake(f"{saved[0]} cannot be trusted: {RECORD} is not in {run.folder}; {run.digests.remedy}.")
    for file in saved:
        run.check(file)


def load(run: Run, parts: dict[str, Any]) -> State | None:
    """Bring the parts where they were; return the state, or None if nothing was saved yet."""
    path = run.state_file
    if not path.exists():
        return None
    try:
        checkpoint = load_state(path)
        if not isinstance(checkpoint, dict) or checkpoint.get("version") != VERSION:
            raise ValueError("it is no state of this version")
        for name, part in parts.items():
            part.load_state_dict(checkpoint["parts"][name])
        set_random_states(checkpoint["random"])
        state = State(**checkpoint["state"])
    except (AttributeError, IndexError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise Mistake(f"{path} cannot be read ({first_line(error)}); {run.digests.remedy}.") from None
    if state.best_epoch and not run.best_file.exists():  # it is read at the end, which may be hours away
        raise Mistake(f"{run.best_file} is not there; {run.digests.remedy}.")
    return state


def changed_ranks(state: State, now: int) -> tuple[str, ...]:
    """Say what stays equal where a run goes on with another number of processes; note the present one."""
    before, state.ranks = state.ranks, now
    if state.step == 0 or before == now:
        return ()
    return (
        f"This run was trained by {before} process(es) and goes on with {now}: batches, their order, random changes "
        "of images and what is mined stay the same. Sums are rounded in another order, dropout draws other numbers, "
        "and batch normalization that is not frozen sees other parts of a batch, so the weights are not equal bit "
        "for bit.",
    )


def seed_everything(seed: int) -> None:
    """Seed the generators of torch, numpy and python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def random_states() -> dict[str, Any]:
    """Return the states of the generators of torch, numpy and python as tensors and plain values."""
    kind, keys, place, has_gauss, gauss = np.random.get_state(legacy=True)
    states: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys).astype(np.int64)), int(place), int(has_gauss), gauss],
        "python": random.getstate(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Bring the generators where they were."""
    kind, keys, place, has_gauss, gauss = states["numpy"]
    torch.set_rng_state(states["torch"])
    np.random.set_state((kind, keys.numpy().astype(np.uint32), place, has_gauss, gauss))
    version, state, gauss_next = states["python"]
    random.setstate((version, tuple(state), gauss_next))
    if torch.cuda.is_available() and len(states.get("cuda", [])) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(states["cuda"])
