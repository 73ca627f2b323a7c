"""Open set: how near is the nearest image, if one of the own class is there, and if none is?

For each row i, with cosines s and labels y:

    same_i    = max over j != i with y_j = y_i of s_ij     (-inf if the class has no other row)
    other_i   = max over j with y_j != y_i of s_ij         (-inf if there is no other class)

A query whose class is in the gallery sees max(same_i, other_i) as its best cosine, and is right if same_i >= other_i.
Were its whole class left out of the gallery, it would see other_i. So one pass over all rows leaves every class out
once, and tells at which cosine "it is nothing that I know" is the better answer.

Naive program: the two maxima of each row of the product. Here a block at a time, with exact cosines
(`ops/exact_rows`), so that they depend on no block and no machine.

Memory: the scratch, and two numbers for each row.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_batch, check_scratch, one_label_each
from shadowmetric.ops.exact_rows import ExactUnitRows
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, Block, Progress, similarity_blocks

NONE = float("-inf")


class NearestCosines(NamedTuple):
    """The largest cosine of each row to others of its class, and to other classes; (batch,) float64."""

    same: Tensor
    other: Tensor


def nearest_cosines(
    embeddings: Tensor, labels: Tensor, *, scratch_bytes: int = SCRATCH_BYTES, progress: Progress | None = None
) -> NearestCosines:
    """Return both maxima of each row; -inf where there is no such row. progress: told the share that is done."""
    check_scratch(scratch_bytes)
    known, _ = check_batch(embeddings, labels, None, None, other="gallery")
    labels = one_label_each(known, "the catalog")
    arranged, order = torch.sort(labels, stable=True)
    rows, columns = ExactUnitRows(embeddings, order), ExactUnitRows(embeddings, order)
    best = torch.full((2, len(labels)), NONE, dtype=torch.float64, device=embeddings.device)
    at_hand = arranged.cpu()
    for block in similarity_blocks(rows, columns, scratch_bytes=scratch_bytes, temporaries=1.25, progress=progress):
        mine, theirs = at_hand[block.top : block.bottom], at_hand[block.first : block.last]
        both, values = best[:, block.top : block.bottom], block.values
        if mine[0] <= theirs[-1] and theirs[0] <= mine[-1]:  # classes lie together, so few blocks hold a class twice
            alike = arranged[block.top : block.bottom, None] == arranged[block.first : block.last]
            both[1] = torch.maximum(both[1], values.masked_fill(alike, NONE).amax(1))
            without_itself(block).masked_fill_(alike.logical_not_(), NONE)
            both[0] = torch.maximum(both[0], values.amax(1))
        else:
            both[1] = torch.maximum(both[1], values.amax(1))
    same, other = torch.empty_like(best).index_copy_(1, order, best)
    return NearestCosines(same, other)


def without_itself(block: Block) -> Tensor:
    """Return the values of a block, with no row beside itself."""
    first, last = max(block.top, block.first), min(block.bottom, block.last)
    if first < last:
        number = torch.arange(first, last, device=block.values.device)
        block.values[number - block.top, number - block.first] = NONE
    return block.values
