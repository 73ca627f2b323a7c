"""Kept bytes against a case that can be counted by hand; peak memory against a tensor of known size."""

import torch

from benchmarks import measure
from benchmarks.measure import kept_bytes, step, times


def test_kept_bytes_counts_what_a_product_keeps():
    embeddings = torch.randn(8, 4, requires_grad=True)
    weights = torch.randn(8, 4)
    # the product keeps its weights (8 * 4 * 4 bytes), and keeps the embeddings only if the weights want a gradient
    assert kept_bytes(lambda: (embeddings * weights).sum(), embeddings) == 128


def test_kept_bytes_counts_a_storage_once_and_never_the_embeddings():
    embeddings = torch.randn(8, 4, requires_grad=True)
    weights = torch.randn(8, 4)

    def forward():
        return (embeddings * weights).sum() + (embeddings[:2] * weights[:2]).sum() + (embeddings * embeddings).sum()

    assert kept_bytes(forward, embeddings) == 128


def test_kept_bytes_counts_an_exponential_s_own_result():
    embeddings = torch.randn(8, 4, dtype=torch.float64, requires_grad=True)
    assert kept_bytes(lambda: embeddings.exp().sum(), embeddings) == 8 * 4 * 8


def test_kept_bytes_of_a_step_without_backward_is_none():
    assert kept_bytes(lambda: None, torch.zeros(2, 2)) is None


def test_a_step_leaves_the_gradient_of_one_backward():
    embeddings = torch.ones(3, 2, requires_grad=True)
    for _ in range(2):
        step(lambda: embeddings.sum(), embeddings)
    assert embeddings.grad is not None
    assert torch.equal(embeddings.grad, torch.ones(3, 2))


def test_times_gives_up_after_its_patience_but_never_before_one_repeat(monkeypatch):
    monkeypatch.setattr(measure, "PATIENCE_SECONDS", 0.0)
    embeddings = torch.ones(3, 2, requires_grad=True)
    assert times(lambda: embeddings.sum(), lambda: None, embeddings, 7).repeats == 1
    monkeypatch.setattr(measure, "PATIENCE_SECONDS", 60.0)
    assert times(lambda: embeddings.sum(), lambda: None, embeddings, 7).repeats == 7
