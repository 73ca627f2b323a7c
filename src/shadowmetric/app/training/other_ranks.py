"""What the processes of one training must have in common, and what one says when another is gone.

Ranks share each batch by numbers of images. Were the images of two ranks others, or their settings, numbers would mean
something else on each: an abort in the middle of a collective at best, other weights in silence at worst. So digests
are compared before anything is shared.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from accelerate import Accelerator
from accelerate.utils import gather_object

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.training.preparation import Parts
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import as_plain, option
from shadowmetric.errors import Mistake, Stopped

OF_A_MACHINE = ("data_root", "cache_mb", "workers", "save_every", "data", "weights", "device", "track")
WORDS_OF_A_LOST_RANK = (  # of gloo, NCCL and torch's store, none of which has an error of its own
    *("gloo/", "Connection closed by peer", "Connection reset by peer", "NCCL", "Socket Timeout", "Broken pipe"),
    *("collective operation timeout", "remote process exited", "connection was closed", "failed to recv"),
)


def split_digest(split: Split | None) -> str:
    """Return a digest of the names and labels of a part."""
    if split is None:
        return ""
    names = "\n".join(split.images.name(number) for number in range(len(split)))
    text = np.asarray(split.labels, np.int64).tobytes() + names.encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()


def check_same_on_all(parts: Parts, accelerator: Accelerator) -> None:
    """Refuse, on every rank, to train with other settings or other images than the first one."""
    if accelerator.num_processes == 1:
        return
    dataset = parts.dataset
    images = {"training": parts.train, "validation": parts.validation, "test": dataset.test, "gallery": dataset.gallery}
    mine = {
        "settings": {name: value for name, value in as_plain(parts.settings).items() if name not in OF_A_MACHINE},
        "images": {name: (0 if one is None else len(one), split_digest(one)) for name, one in images.items()},
        "name": dataset.name,
    }
    first, *others = gather_object([mine])
    for rank, theirs in enumerate(others, start=1):
        if sentence := difference(first, theirs, rank):
            raise Mistake(sentence)


def difference(first: dict[str, Any], theirs: dict[str, Any], rank: int) -> str:
    """Return what a rank has other than the first, in a sentence; nothing if all is the same."""
    for name, (count, digest) in first["images"].items():
        other, its_digest = theirs["images"][name]
        if its_digest != digest:
            return (
                f"rank {rank} has other {name} images than rank 0: {other:,} of {theirs['name']} and {count:,} of "
                f"{first['name']}; give all of them the same --data."
            )
    for name, value in first["settings"].items():
        if theirs["settings"][name] != value:
            other = theirs["settings"][name]
            return f"rank {rank} has {option(name)} {other} and rank 0 has {value}; start all with one command."
    return ""


@contextmanager
def say_who_is_gone(run: Run, ranks: int) -> Iterator[None]:
    """Say in a sentence that another process ended, where a collective fails for that."""
    try:
        yield
    except RuntimeError as error:  # torch.distributed's own errors are, too
        if ranks == 1 or not is_of_lost_rank(error):
            raise
        raise Stopped(
            f"another of the {ranks} processes is gone, so that this one cannot go on; what was saved is whole: look "
            f"at what the other one said, and go on, started with as many processes, by `{run.resume_command()}`."
        ) from None


def is_of_lost_rank(error: BaseException) -> bool:
    """Return whether an error says that another process does not answer any more."""
    return any(words in str(error) for words in WORDS_OF_A_LOST_RANK)
