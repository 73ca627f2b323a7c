"""Which way a batch is mined: the one place that chooses. What is chosen is the same either way.

matrix    (`matrix.py`)    one matrix of all distances, in numpy. A CPU: at most 2^18 distances (512 x 512), which
                           fit into the scratch together with the rows in float64
slots     (`slots.py`)     a place for each positive of a row, shapes that do not depend on labels. Other devices,
                           which then never wait, and compiled graphs: every batch; but see `arrange_slots`. Every
                           batch with a relation in place of labels
class     (`nearest.py`)   rows in class order, half of the product. A CPU: all larger batches
"""

from typing import Any, Literal

import torch

from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.types import Relation

Way = Literal["matrix", "slots", "class"]
SMALL_BATCH = 2**18  # distances; a CPU searches larger batches faster in class order
ENTRY_BYTES = 40  # of a distance: two float64, masks, and those of some pairs again
NUMBER_BYTES = 24  # of a row: in float64, its square, and its finer part


def choose_way(batch: CheckedBatch, miner: Any, *, fused: bool = False) -> Way:
    """Return the way that a miner, which says what it fits, mines a batch."""
    if isinstance(batch.labels, Relation):
        return "slots" if miner.fits_slots else "class"
    if fused or torch.compiler.is_compiling() or batch.labels.device.type != "cpu":
        return "slots" if miner.fits_slots else "class"
    if not miner.fits_matrix:
        return "class"
    rows, references = len(batch.labels), len(batch.others)
    distances, numbers = rows * references, (rows + references) * batch.embeddings.shape[1]
    fits = ENTRY_BYTES * distances + NUMBER_BYTES * numbers <= miner.scratch_bytes
    return "matrix" if fits and distances <= SMALL_BATCH else "class"
