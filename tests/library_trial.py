"""Every loss, miner, batch and measure, where nothing but torch and numpy is installed: run by `test_extras.py`.

    python library_trial.py ENVIRONMENT

ENVIRONMENT is where shadowmetric must come from. Prints the packages that were loaded. This file imports torch, numpy
and shadowmetric alone, and looks up what there is, so that a new loss is tried as soon as it is in the catalogue.
"""

import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path

import torch
from torch import nn

import shadowmetric as sm
from shadowmetric.batches.budget import parse_bytes, probe_embedder
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.evaluation.measuring import STAGES
from shadowmetric.losses.catalogue import LOSSES, build_loss
from shadowmetric.losses.mined import MINERS

ROOMS = ("ops", "mining", "losses", "batches", "evaluation")
CLASSES, PER_CLASS, DIM = 6, 5, 8


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows that overlap, and their labels."""
    torch.manual_seed(0)
    labels = torch.arange(CLASSES).repeat_interleave(PER_CLASS)
    return (torch.randn(CLASSES, DIM)[labels] + torch.randn(len(labels), DIM)).requires_grad_(), labels


def every_module_imports() -> None:
    for room in ROOMS:
        package = importlib.import_module(f"shadowmetric.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("triton_ops"):  # imports triton, where torch has it
                importlib.import_module(module.name)


def every_public_name_is_there() -> None:
    assert all(getattr(sm, name) is not None for name in sm.__all__)


def every_loss_with_every_miner_has_a_gradient() -> None:
    for name in LOSSES:
        for miner in MINERS:
            embeddings, labels = batch()
            loss = build_loss(name, margin=0.2, miner=miner, classes=CLASSES, dim=DIM)
            value = loss(embeddings, labels)
            value.backward()
            assert torch.isfinite(value), (name, miner)
            assert embeddings.grad is not None, (name, miner)


def every_miner_finds_triplets() -> None:
    embeddings, labels = batch()
    kinds = [getattr(sm, name) for name in sm.__all__ if name.endswith("Miner")]
    assert len(kinds) >= len(MINERS)
    for kind in kinds:
        anchor, positive, negative = kind()(embeddings, labels)
        assert len(anchor) > 0, kind
        assert (labels[anchor] == labels[positive]).all(), kind
        assert (labels[anchor] != labels[negative]).all(), kind


def every_batch_gives_the_gradient_of_the_whole() -> None:
    torch.manual_seed(0)
    first = nn.Linear(12, 16)
    embedder, images = nn.Sequential(first, nn.Tanh(), nn.Linear(16, DIM)), torch.randn(CLASSES * PER_CLASS, 12)
    _, labels = batch()
    loss = sm.ShadowLoss(0.2)

    def gradient(step) -> torch.Tensor:
        embedder.zero_grad()
        step()
        assert first.weight.grad is not None
        return first.weight.grad.clone()

    whole = gradient(lambda: loss(embedder(images), labels).backward())
    steps = {
        "cached_backward": lambda: sm.cached_backward(embedder, images, labels, loss, micro_batch=7),
        "cached_rows": lambda: loss(sm.cached_rows(embedder, images, micro_batch=7), labels).backward(),
        "GatheredLoss": lambda: sm.GatheredLoss(loss)(embedder(images), labels).backward(),
    }
    for name, step in steps.items():
        torch.testing.assert_close(gradient(step), whole, msg=name)
    memory = sm.CrossBatchMemory(loss, size=64)
    for _ in range(2):
        gradient(lambda: memory(embedder(images), labels).backward())
    gradient(lambda: sm.TwoTowerLoss(loss)(embedder(images), embedder(images.flip(1)), labels).backward())
    sampler = PKSampler(labels, batch=10, per_class=5)
    assert sorted({len(numbers) for numbers in sampler}) == [10]
    assert probe_embedder(embedder, images, 8).bytes(8) > 0
    assert parse_bytes("1 GiB") == 2**30


def every_measure_is_measured() -> None:
    embeddings, labels = batch()
    scores = sm.evaluate(embeddings.detach(), labels)
    assert all(value == value for value in scores.figures().values()), scores.figures()
    assert len(scores.figures()) > len(STAGES)
    assert sm.evaluate(embeddings.detach().numpy(), labels.numpy(), progress=False).recall_at[1] == scores.recall_at[1]
    assert sm.convergence_epoch([0.1, 0.5, 0.5, 0.5]) > 0
    interval = scores.interval("map_at_r", resamples=50)
    assert interval.low <= scores.map_at_r <= interval.high


def main(environment: str) -> None:
    """Try everything, and print what was loaded."""
    assert Path(environment).resolve() in Path(inspect.getfile(sm)).resolve().parents, sm.__file__
    trials = [found for name, found in globals().items() if name.startswith("every_")]
    for trial in trials:
        trial()
    loaded = sorted({name.split(".")[0] for name in sys.modules})
    print(json.dumps({"tried": [trial.__name__ for trial in trials], "loaded": loaded}))


if __name__ == "__main__":
    main(*sys.argv[1:])
