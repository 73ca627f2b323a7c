"""Semi-hard triplets in the first epochs of a run, others afterwards: `--semi-hard-epochs`.

Hard mining from the start pulls an untrained embedder's rows into one point; after some epochs of semi-hard mining
there is something to be hard about. The miner follows from the epoch alone, so a resumed run mines as the other did.
"""

from torch import nn

from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.losses.catalogue import choose_miner


def miner_at(settings: TrainSettings, epoch: int) -> str:
    """Return the name of the miner of an epoch, counted from 0."""
    return "semi_hard" if epoch < settings.semi_hard_epochs else settings.miner


def mine_as_at(loss: nn.Module, settings: TrainSettings, epoch: int) -> None:
    """Give the losses of triplets within a loss the miner of an epoch; nothing changes if all have the same."""
    if settings.semi_hard_epochs == 0:
        return
    for module in loss.modules():
        if module.__dict__.get("miner") is not None:
            name, scratch = miner_at(settings, epoch), getattr(module, "scratch_bytes", settings.scratch_mb * 2**20)
            miner = choose_miner(name, settings.margin, scratch, settings.mining_unit or "loss")
            module.miner = module.make_miner(miner) if isinstance(miner, str) else miner  # pyright: ignore


def announce_miner(settings: TrainSettings, epoch: int) -> tuple[str, ...]:
    """Return what is to be said at the beginning of an epoch: that the miner changes."""
    if epoch == 0 or miner_at(settings, epoch) == miner_at(settings, epoch - 1):
        return ()
    return (
        f"Epoch {epoch + 1}: triplets are no longer semi-hard; from here on --miner {settings.miner} chooses them.",
    )
