"""What losses of triplets take, as formulas (`ops/memory`).

That is mining and the triplets' pairs, or where every triplet counts, streaming them.
"""

import torch

from shadowmetric.losses.exhaustive import STREAMED, is_exhaustive
from shadowmetric.mining.checked_batch import NAMING
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.ops.memory import Bytes, Cost, each, gathering_phases, streaming_phases, width_of
from shadowmetric.types import Miner

NUMBERS_KEPT = 6  # of a triplet: two slopes of each pair, and what the hinge saves for backward
MEASURED = 128.0  # bytes of a triplet while its pairs are measured in float64


def mined_cost(miner: Miner, scratch_bytes: int, dtype: torch.dtype, *, normalize: bool, references: bool) -> Cost:
    """Return what a loss of the triplets of a miner takes, for embeddings of a type."""
    if is_exhaustive(miner):
        kept, phases = _stream_cost(scratch_bytes, dtype, normalize=normalize, references=references)
    elif isinstance(miner, TripletMiner):
        kept, phases = _list_cost(miner, dtype, normalize=normalize, references=references)
    else:
        raise ValueError(f"{type(miner).__name__} does not say what it takes; give a miner of shadowmetric.")
    return Cost(kept, (*phases, NAMING)) if references else Cost(kept, tuple(phases)).own()


def _stream_cost(
    scratch_bytes: int, dtype: torch.dtype, *, normalize: bool, references: bool
) -> tuple[Bytes, list[Bytes]]:
    working = width_of(dtype).working
    rows = Bytes(row=80.0 + 8 * working, reference=64.0)
    kept = Bytes(row=40.0 + working, reference=16.0 + (8 + working if references else 0))
    parts = streaming_phases(scratch_bytes, dtype, STREAMED, normalize=normalize, exact=True, references=references)
    return kept, [rows + part for part in parts]


def _list_cost(
    miner: TripletMiner, dtype: torch.dtype, *, normalize: bool, references: bool
) -> tuple[Bytes, list[Bytes]]:
    unit = miner.triplet_for_each
    triplet = 32.0 + (NUMBERS_KEPT + (0 if normalize else 2)) * width_of(dtype).working
    kept = Bytes(row=8.0, reference=8.0 if references else 0.0) + each(unit, triplet)
    pairs = each(unit, triplet + MEASURED)
    parts = gathering_phases(dtype, normalize=normalize, references=references)
    mining = miner.memory(dtype, references=references).phases
    return kept, [*mining, *(pairs + part for part in parts)]
