"""Precision is the library's own choice: neither autocast nor torch's flag for products changes an answer."""

import pytest
import torch
from every_loss import CLASSES, LOSSES
from torch.utils._python_dispatch import TorchDispatchMode

import shadowmetric as sm
from shadowmetric.losses import mined
from shadowmetric.mining import ways


def made(rows: int = 36, dim: int = 12):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(rows) % CLASSES
    centers = torch.randn(CLASSES, dim, generator=generator)
    return centers[labels] + torch.randn(rows, dim, generator=generator), labels


def value_and_gradient(loss, embeddings, labels, context):
    leaf = embeddings.clone().requires_grad_()
    with context:
        value = loss(leaf, labels)
        value.backward()
    return value.detach(), leaf.grad


@pytest.mark.parametrize("way", ["matrix", "slots", "class"])
@pytest.mark.parametrize("name", LOSSES)
def test_autocast_changes_no_bit(name, way, monkeypatch):
    if way == "class":
        monkeypatch.setattr(ways, "SMALL_BATCH", 0)
    if way == "slots":  # what another device does
        monkeypatch.setattr(mined, "choose_way", lambda batch, miner, fused: "slots" if miner.fits_slots else "class")
    embeddings, labels = made()
    torch.manual_seed(0)
    loss = LOSSES[name](embeddings.shape[1])
    plain = value_and_gradient(loss, embeddings, labels, torch.autocast("cpu", enabled=False))
    cast = value_and_gradient(loss, embeddings, labels, torch.autocast("cpu", torch.bfloat16))
    for expected, answer in zip(plain, cast, strict=True):
        assert answer.dtype == expected.dtype
        assert torch.equal(answer, expected)


class ProductTypes(TorchDispatchMode):
    """Notes the types that matrix products are computed in."""

    def __init__(self):
        super().__init__()
        self.types = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("mm", "addmm", "addmm_", "bmm", "baddbmm", "mv", "dot"):
            self.types |= {one.dtype for one in args if isinstance(one, torch.Tensor)}
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("way", ["matrix", "slots"])
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "group"])  # its game multiplies probabilities
def test_no_product_that_a_flag_could_shorten_decides(name, way, monkeypatch):
    """TF32 is of float32 products: there are none before backward, on the ways that other devices take."""
    if way == "slots":
        monkeypatch.setattr(mined, "choose_way", lambda batch, miner, fused: "slots" if miner.fits_slots else "class")
    embeddings, labels = made()
    loss = LOSSES[name](embeddings.shape[1])
    with ProductTypes() as products:
        loss(embeddings.requires_grad_(), labels)
    assert products.types <= {torch.float64}


def test_the_types_of_products_are_seen():
    with ProductTypes() as products:
        torch.mm(torch.ones(2, 3), torch.ones(3, 2))
    assert products.types == {torch.float32}


@pytest.mark.parametrize("precision", ["high", "medium"])
@pytest.mark.parametrize("miner", [sm.SemiHardMiner(0.5), sm.HardMiner(), sm.BatchHardMiner()], ids=repr)
def test_the_flag_for_float32_products_changes_no_triplet(miner, precision):
    embeddings, labels = made(1200, 24)  # so many that a fast product proposes
    embeddings = embeddings[0] + 1e-2 * embeddings
    expected = miner(embeddings, labels)
    torch.set_float32_matmul_precision(precision)
    try:
        answer = miner(embeddings, labels)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert all(torch.equal(one, other) for one, other in zip(answer, expected, strict=True))
