"""Hard mining: the closest negative of each anchor, with every positive of that anchor.

    n* = arg min over n of d2(a, n)          (paper, eq. 4; d2: squared distance on unit rows)

The paper fixes the negative only, so each positive makes a triplet with it. Ties go to the smaller
row number. Memory: the scratch, and a few numbers per positive pair.
"""

from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import Tensor

from shadowmetric.checks import check_batch, check_scratch
from shadowmetric.mining.nearest import Search, alive
from shadowmetric.mining.ordered import no_triplets, ordered
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Triplets


@dataclass(frozen=True)
class HardMiner:
    """Choose for each anchor its closest negative, and pair it with every positive."""

    _: KW_ONLY
    normalize: bool = True
    scratch_bytes: int = field(default=SCRATCH_BYTES, repr=False)
    debug: bool = field(default=False, repr=False)

    def __post_init__(self):
        check_scratch(self.scratch_bytes)

    @torch.no_grad()
    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
    ) -> Triplets:
        """Return the triplets of a batch, or of a batch against references."""
        labels, reference_labels = check_batch(embeddings, labels, references, reference_labels, debug=self.debug)
        search = Search(
            embeddings, labels, references, reference_labels, normalize=self.normalize, scratch_bytes=self.scratch_bytes
        )
        if not search.possible:
            return no_triplets(embeddings.device)
        (near,) = search.nearest()
        found = near.distance < NEVER
        return ordered(
            [search.triplets(found[: len(p.row)] & alive(p), p, near.rank[: len(p.row)]) for p in search.partners()]
        )
