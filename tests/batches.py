"""Batches that hypothesis makes: ragged classes, singletons, one class, ties, duplicates, huge labels, odd shapes.

Half of them have rows of exactly representable numbers and length 1 (one-hot rows, rows of four halves),
so that dot products have no rounding and equal distances are truly equal.
"""

import torch
from hypothesis import strategies as st
from torch import Tensor

LABELS = [0, 1, 2, 3, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
HALVES = [[a, b, c, d] for a in (0.5, -0.5) for b in (0.5, -0.5) for c in (0.5, -0.5) for d in (0.5, -0.5)]
ONE_HOT = [[float(sign * (i == j)) for j in range(4)] for i in range(4) for sign in (1, -1)]


@st.composite
def labels(draw: st.DrawFn, rows: int) -> Tensor:
    """Labels of few classes out of extreme values."""
    classes = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=5, unique=True))
    return torch.tensor(draw(st.lists(st.sampled_from(classes), min_size=rows, max_size=rows)), dtype=torch.int64)


@st.composite
def exact_rows(draw: st.DrawFn, rows: int) -> Tensor:
    """Unit rows without rounding, full of ties and duplicates."""
    chosen = draw(st.lists(st.sampled_from(HALVES + ONE_HOT), min_size=rows, max_size=rows))
    return torch.tensor(chosen, dtype=torch.float64).view(rows, 4)


@st.composite
def random_rows(draw: st.DrawFn, rows: int) -> Tensor:
    """Rows of free length, some of them duplicates of others, sometimes not contiguous."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    dim = draw(st.sampled_from([1, 2, 3, 7, 16]))
    made = torch.randn(rows, 2 * dim, generator=generator, dtype=torch.float64)
    for _ in range(draw(st.integers(0, rows // 3))):
        made[draw(st.integers(0, rows - 1))] = made[draw(st.integers(0, rows - 1))]
    return made[:, ::2] if draw(st.booleans()) else made[:, :dim].contiguous()


@st.composite
def batches(draw: st.DrawFn, most_rows: int = 20, exact: bool | None = None) -> tuple[Tensor, Tensor]:
    """Embeddings (float64) and labels."""
    rows = draw(st.integers(1, most_rows))
    exact = draw(st.booleans()) if exact is None else exact
    return draw(exact_rows(rows) if exact else random_rows(rows)), draw(labels(rows))


@st.composite
def with_references(draw: st.DrawFn, most_rows: int = 12) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A batch and references, which contain some or all rows of the batch again."""
    embeddings, batch_labels = draw(batches(most_rows))
    count = draw(st.integers(1, most_rows))
    generator = torch.Generator().manual_seed(count)
    fresh = torch.randn(count, embeddings.shape[1], generator=generator, dtype=torch.float64)
    again = draw(st.integers(0, len(embeddings)))
    references = torch.cat([fresh, embeddings[:again]])
    return embeddings, batch_labels, references, torch.cat([draw(labels(count)), batch_labels[:again]])


def plain_batch(rows: int = 30, dim: int = 8, per_class: int = 5, seed: int = 0, dtype: torch.dtype = torch.float64):
    """An ordinary batch for tests that need no extremes."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(rows, dim, generator=generator, dtype=torch.float64).to(dtype)
    return embeddings, torch.arange(rows) // per_class
