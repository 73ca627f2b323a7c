"""What each row of the bench runs: one step of metric learning on a batch, five ways.

Every contender gets the same rows and labels and mines semi-hard triplets with margin 0.2 on unit
rows. They do not compute the same number, since "semi-hard" means something else in each library:

    ours          SemiHardMiner + Shadow loss: for each (anchor, positive) the nearest negative in the window
    pml           pytorch-metric-learning: every negative in the window, unsquared distance
    st            sentence-transformers: the nearest negative beyond the positive, no upper end
    algorithm-1   our triplets, then the paper's Algorithm 1 as printed: three gathered (triplets, dim) tensors
    bare-product  E @ E.T in blocks of 256 rows into one reused buffer: what exact mining cannot do without

`prepare(embeddings, labels)` does what a training run does once (imports, settings) and returns the
forward pass, which is what gets timed. The bare product has no backward: its forward returns None.
Other losses, and the peer's, are contenders by their names (`peers.py`).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.losses.peers import PREFIX, prepare_loss
from shadowmetric.types import Embeddings, Labels, Scalar

MARGIN = 0.2
BLOCK_ROWS = 256

Forward = Callable[[], Tensor | None]
Prepare = Callable[[Tensor, Tensor], Forward]


def ours(embeddings: Embeddings, labels: Labels) -> Forward:
    """Return this library's loss, mining included."""
    import shadowmetric as sm

    loss = sm.ShadowLoss(margin=MARGIN)
    return lambda: loss(embeddings, labels)


def pml(embeddings: Embeddings, labels: Labels) -> Forward:
    """Return pytorch-metric-learning's semi-hard miner and triplet loss; it makes unit rows itself."""
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.miners import TripletMarginMiner

    miner = TripletMarginMiner(margin=MARGIN, type_of_triplets="semihard")
    loss = TripletMarginLoss(margin=MARGIN)
    return lambda: loss(embeddings, labels, miner(embeddings, labels))


def st(embeddings: Embeddings, labels: Labels) -> Forward:
    """Return sentence-transformers' semi-hard loss, on unit rows as the others."""
    from sentence_transformers.sentence_transformer.losses import BatchSemiHardTripletLoss

    loss = BatchSemiHardTripletLoss(model=None, margin=MARGIN)  # pyright: ignore[reportArgumentType]
    return lambda: loss.compute_loss_from_embeddings([nn.functional.normalize(embeddings)], labels)


def algorithm_1(embeddings: Embeddings, labels: Labels) -> Forward:
    """Return the paper's Algorithm 1 on the rows that our miner chose."""
    from shadowmetric.mining import SemiHardMiner

    miner = SemiHardMiner(MARGIN, unit="gap")

    def forward() -> Tensor:
        unit = nn.functional.normalize(embeddings)
        anchor, positive, negative = miner(embeddings, labels)
        return literal_loss(unit[anchor], unit[positive], unit[negative])

    return forward


def literal_loss(anchor: Tensor, positive: Tensor, negative: Tensor) -> Scalar:
    """Return Algorithm 1 line by line, on three (triplets, dim) tensors."""
    norms = torch.norm(anchor, p=2, dim=1, keepdim=True)
    near_shadow = torch.sum(anchor * positive, 1, keepdim=True) / norms
    far_shadow = torch.sum(anchor * negative, 1, keepdim=True) / norms
    near_gap = (norms - near_shadow).abs()
    far_gap = (norms - far_shadow).abs()
    return torch.clamp(near_gap - far_gap + MARGIN, min=0).mean()


def bare_product(embeddings: Embeddings, labels: Labels) -> Forward:
    """Return the product of the unit rows with themselves, block after block into one buffer."""
    unit = nn.functional.normalize(embeddings.detach())
    buffer = unit.new_empty(min(BLOCK_ROWS, len(unit)), len(unit))

    def forward() -> None:
        for block in unit.split(BLOCK_ROWS):
            torch.mm(block, unit.T, out=buffer[: len(block)])

    return forward


CONTENDERS: dict[str, Prepare] = {
    "bare-product": bare_product,
    "ours": ours,
    "algorithm-1": algorithm_1,
    "st": st,
    "pml": pml,
}


def contender_of(name: str) -> Prepare:
    """Return a contender by its name: one of the five, a loss of the catalogue, or pml: and its name there."""
    return CONTENDERS[name] if name in CONTENDERS else prepare_loss(name)


def package_of(name: str) -> str:
    """Return the package whose version stands beside a contender's figures."""
    return PACKAGES.get(name) or PACKAGES["pml" if name.startswith(PREFIX) else "ours"]


PACKAGES = {  # whose version stands beside a row's figures; torch's stands beside every row
    "ours": "shadowmetric",
    "algorithm-1": "shadowmetric",
    "bare-product": "torch",
    "pml": "pytorch-metric-learning",
    "st": "sentence-transformers",
}
