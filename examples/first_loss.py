"""A first look: train a small embedder with Shadow loss, then a batch that no (batch, batch) tensor would allow.

Run with `python examples/first_loss.py`. Takes about half a minute on two cores.

1. Sixteen classes of noisy points in 64 dimensions, most of which say nothing. A linear embedder learns
   to see the classes; Recall@1 is the share of rows whose nearest neighbor is of their class.
2. The control: on unit rows Shadow at margin m is half the squared Triplet at margin 2m, so that the same training
   with Triplet differs by rounding alone, which float32 lets grow over the steps. The demo shows both.
3. Semi-hard mining and the loss of 16,384 rows, with the memory it took.
"""

import resource
import time

import torch
from torch import nn

import shadowmetric as sm

CLASSES, PER_CLASS, INPUTS, DIM = 16, 5, 64, 16


def batch(generator: torch.Generator, centers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy points of every class, and their labels."""
    labels = torch.arange(CLASSES).repeat_interleave(PER_CLASS)
    points = centers[labels] + 1.6 * torch.randn(len(labels), INPUTS, generator=generator)
    return points, labels


def recall_at_1(embeddings: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of rows whose most similar other row has their label."""
    similarity = nn.functional.normalize(embeddings) @ nn.functional.normalize(embeddings).T
    nearest = similarity.fill_diagonal_(-1).argmax(1)
    return float((labels[nearest] == labels).float().mean())


def train(loss: nn.Module, steps: int = 300) -> list[float]:
    """Train a linear embedder and return Recall@1 on fresh points, before and during training."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    centers = torch.zeros(CLASSES, INPUTS)
    centers[:, :DIM] = 2.0 * torch.randn(CLASSES, DIM, generator=generator)
    embedder = nn.Linear(INPUTS, DIM)
    optimizer = torch.optim.Adam(embedder.parameters(), lr=1e-2)
    curve = []
    for step in range(steps + 1):
        if step % (steps // 3) == 0:
            with torch.no_grad():
                tested = [batch(generator, centers) for _ in range(10)]
                curve.append(sum(recall_at_1(embedder(x), y) for x, y in tested) / len(tested))
        points, labels = batch(generator, centers)
        optimizer.zero_grad()
        loss(embedder(points), labels).backward()
        optimizer.step()
    return curve


def main() -> None:
    """Print the three parts."""
    print("1. Recall@1 of a linear embedder on fresh points, at steps 0, 100, 200, 300")
    for name, loss in (("Shadow, margin 0.2", sm.ShadowLoss(0.2)), ("Triplet, margin 0.4", sm.TripletLoss(0.4))):
        print(f"   {name:42s}", "  ".join(f"{value:.3f}" for value in train(loss)))
    print("2. On unit rows the two are one loss, up to a factor that Adam ignores: what differs is float32 rounding,")
    print("   which grows until other triplets are mined (float64: the same weights to 1e-12, test_identities.py).")
    print("   A margin of 0.2 in gaps, in every unit:")
    print(sm.equivalent_margins(0.2, "gap"))

    rows, dim = 16_384, 64
    embeddings, labels = torch.randn(rows, dim, requires_grad=True), torch.arange(rows) // 5
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    sm.ShadowLoss(0.2)(embeddings, labels).backward()
    seconds = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"3. Semi-hard mining, loss and gradient of {rows:,} rows: {seconds:.1f} s, {grown:.0f} MB more memory;")
    print(f"   their similarity matrix alone would be {4 * rows**2 / 1e6:,.0f} MB.")


if __name__ == "__main__":
    main()
