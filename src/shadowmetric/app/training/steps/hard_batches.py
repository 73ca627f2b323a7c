"""The hardest negatives of the whole training set, mined anew before each epoch but the first: `--mine-from-all`.

An untrained embedder's nearest neighbors teach nothing, so the first epoch's batches are drawn. The embedder as it is
at the end of an epoch embeds all training images, as a test would, without augmentation; every process embeds its
share. The time counts as that of the epoch. Within an epoch the negatives are part of the saved state; between two
epochs they follow from the weights, so that a resumed run has the batches of one that was never stopped.

Memory: the embeddings of the training set, and the scratch.
"""

import torch

from shadowmetric.app.training.memory import MEGABYTE
from shadowmetric.app.training.scoring import embed
from shadowmetric.app.training.setup import Training
from shadowmetric.batches.hard_sampler import HardNegativeSampler
from shadowmetric.mining import hardest_negatives


def mine_whole_set(training: Training) -> None:
    """Give the sampler of an epoch that begins the hardest negatives of all training images, if it wants any."""
    state, sampler, settings, parts = training.state, training.sampler, training.settings, training.parts
    if not isinstance(sampler, HardNegativeSampler) or state.epoch == 0 or state.position > 0:
        return
    rows = embed(training.bare_embedder, parts.train, parts.shape, batch=training.how.batch, shared=training.how.shared)
    hardest = hardest_negatives(
        rows,
        torch.from_numpy(parts.train.labels),
        settings.mine_from_all,
        guard=settings.mine_guard,
        scratch_bytes=settings.scratch_mb * MEGABYTE,
    )
    sampler.set_negatives(hardest.row)
