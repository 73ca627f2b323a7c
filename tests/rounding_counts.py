"""How often a product that rounds at random changes triplets and gradients: `python tests/rounding_counts.py`.

Batches of every kind of `made_rows`, sizes from 12 to 90, miners and losses, several seeds. Prints for each kind
how many minings were tried, how many of them chose other triplets than without the random rounding, and the same for
values and gradients of losses that are off by more than a rounding can explain.
"""

import argparse
from collections import Counter

import torch
from every_loss import CLASSES, LOSSES
from made_rows import KINDS, made_rows
from random_rounding import random_rounding

import shadowmetric as sm

MINERS = (
    sm.SemiHardMiner(0.5),
    sm.SemiHardMiner(0.5, "all"),
    sm.HardMiner(),
    sm.BatchHardMiner(),
    sm.SemiHardMiner(0.5, normalize=False),
    sm.HardMiner(normalize=False),
)
SHAPES = ((12, 2), (24, 5), (40, 16), (90, 12))
DTYPES = (torch.float32, torch.float64)


def minings(kind: str, seeds: int) -> tuple[int, int]:
    """Return how many minings were tried, and how many differed."""
    tried = differed = 0
    for rows, dim in SHAPES:
        for dtype in DTYPES:
            embeddings = torch.from_numpy(made_rows(kind, rows, dim, rows)).to(dtype)
            labels = torch.randint(0, 6, (rows,), generator=torch.Generator().manual_seed(rows))
            for miner in MINERS:
                plain = torch.stack(miner(embeddings, labels))
                for seed in range(seeds):
                    with random_rounding(seed, ulps=1):
                        moved = torch.stack(miner(embeddings, labels))
                    tried, differed = tried + 1, differed + (not torch.equal(plain, moved))
    return tried, differed


def losses(kind: str, seeds: int) -> tuple[int, int]:
    """Return how many values and gradients were tried, and how many differed by more than 1e-6 of the gradient."""
    tried = differed = 0
    embeddings = torch.from_numpy(made_rows(kind, 24, 5, 1))
    labels = torch.randint(0, CLASSES, (24,), generator=torch.Generator().manual_seed(1))
    for make in LOSSES.values():
        torch.manual_seed(0)
        loss = make(5).double()
        plain = gradient(loss, embeddings, labels)
        for seed in range(seeds):
            with random_rounding(seed, ulps=1):
                moved = gradient(loss, embeddings, labels)
            tried, differed = tried + 1, differed + bool((plain - moved).abs().max() > 1e-6 * (1 + plain.abs().max()))
    return tried, differed


def gradient(loss: torch.nn.Module, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    return torch.cat([value.detach()[None], leaf.grad.flatten()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    seeds = parser.parse_args().seeds
    total: Counter[str] = Counter()
    for kind in KINDS:
        (tried, other), (valued, off) = minings(kind, seeds), losses(kind, seeds)
        print(f"{kind:10}  minings {tried:5,}, differ {other:5,}   losses {valued:5,}, differ {off:5,}")
        total.update(tried=tried, other=other, valued=valued, off=off)
    print(f"{'all':10}  minings {total['tried']:5,}, differ {total['other']:5,}   ", end="")
    print(f"losses {total['valued']:5,}, differ {total['off']:5,}")


if __name__ == "__main__":
    main()
