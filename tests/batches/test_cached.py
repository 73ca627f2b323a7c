"""A cached step gives the weights the gradient of the plain step, for every loss and miner."""

import warnings

import pytest
import torch
from every_loss import CLASSES, LOSSES
from torch import nn

import shadowmetric as sm
from shadowmetric.batches.cached import run_cached_step

IMAGES = 26  # 26 = 3 x 8 + 2


def embedder_of(*, dropout: float = 0.0, norm: bool = False, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(1)
    layers = [nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6) if norm else nn.Identity(), nn.Tanh(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(6 * 16, 5)).to(dtype)


def make_images(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    return torch.randn(IMAGES, 2, 6, 6, dtype=dtype), torch.arange(IMAGES) % CLASSES


def gradients(*modules: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad.clone() for module in modules for parameter in module.parameters()]


def plain(embedder, images, labels, loss):
    value = loss(embedder(images), labels)
    value.backward()
    return value.detach(), gradients(embedder, loss)


def cached(embedder, images, labels, loss, micro_batch=8, **more):
    embedder.zero_grad()
    loss.zero_grad()
    value = sm.cached_backward(embedder, images, labels, loss, micro_batch, **more)
    return value, gradients(embedder, loss)


EVERY_SIZE = ("shadow/semi_hard", "multi_similarity", "angular", "arc_face")  # a cached step does not look into a loss


@pytest.mark.parametrize(
    ("name", "micro_batch"),
    [(name, micro) for name in LOSSES for micro in (1, 8, 26, 100) if micro == 8 or name in EVERY_SIZE],
)
def test_the_gradient_is_that_of_the_whole_batch(name, micro_batch):
    embedder, (images, labels) = embedder_of(), make_images()
    torch.manual_seed(3)
    loss = LOSSES[name](5).double()
    value, wanted = plain(embedder, images, labels, loss)
    found, gradient = cached(embedder, images, labels, loss, micro_batch)
    assert not found.requires_grad
    torch.testing.assert_close(found, value, rtol=0, atol=1e-10)
    assert any(part.abs().max() > 1e-6 for part in wanted)
    for one, other in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_gradients_are_added_to_those_that_are_there():
    embedder, (images, labels), loss = embedder_of(), make_images(), sm.ShadowLoss(miner="hard")
    _, once = plain(embedder, images, labels, loss)
    sm.cached_backward(embedder, images, labels, loss, 8)
    for one, other in zip(gradients(embedder), once, strict=True):
        torch.testing.assert_close(one, 2 * other)


def test_dropout_is_replayed_and_the_generator_goes_on_as_after_one_pass():
    embedder, (images, labels), loss = embedder_of(dropout=0.5), make_images(), sm.ShadowLoss(miner="hard")
    torch.manual_seed(7)
    rows = torch.cat([embedder(part) for part in images.split(8)])
    value = loss(rows, labels)
    value.backward()
    wanted, after = gradients(embedder), torch.rand(3)
    torch.manual_seed(7)
    found, gradient = cached(embedder, images, labels, loss)
    assert torch.equal(torch.rand(3), after)
    torch.testing.assert_close(found, value.detach())
    for one, other in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_random_numbers_of_the_loss_are_drawn_once():
    embedder, (images, labels) = embedder_of(dropout=0.5), make_images()
    loss = sm.ShadowLoss(miner=sm.SemiHardMiner(0.5, "random"))
    torch.manual_seed(7)
    rows = torch.cat([embedder(part) for part in images.split(8)])
    value, after = loss(rows, labels).detach(), torch.rand(3)
    torch.manual_seed(7)
    assert cached(embedder, images, labels, loss)[0] == value
    assert torch.equal(torch.rand(3), after)


def test_frozen_batch_norm_is_exact_and_silent():
    embedder, (images, labels), loss = embedder_of(norm=True), make_images(), sm.ShadowLoss(miner="hard")
    embedder[1].eval()
    _, wanted = plain(embedder, images, labels, loss)
    _, gradient = cached(embedder, images, labels, loss)
    for one, other in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_batch_norm_is_warned_of_and_its_statistics_move_once_for_each_micro_batch():
    embedder, (images, labels), loss = embedder_of(norm=True), make_images(), sm.ShadowLoss(miner="hard")
    rows = torch.cat([embedder(part) for part in images.split(8)])
    loss(rows, labels).backward()
    wanted, state = gradients(embedder), {name: value.clone() for name, value in embedder.named_buffers()}
    again = embedder_of(norm=True)
    with pytest.warns(UserWarning, match="each micro-batch of 8, not from the whole batch; freeze it"):
        _, gradient = cached(again, images, labels, loss)
    for one, other in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(one, other)
    for name, value in again.named_buffers():
        torch.testing.assert_close(value, state[name])
    assert again[1].num_batches_tracked == 4


@pytest.mark.parametrize("outside", [True, False])
def test_autocast_gives_every_weight_its_gradient(outside):
    """Weights that were cast in the pass without a graph must not be used again in the one that has it."""
    embedder, (images, labels), loss = embedder_of(dtype=torch.float32), make_images(torch.float32), sm.ShadowLoss()

    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = embedder

        def forward(self, images):
            with torch.autocast("cpu", torch.bfloat16):
                return self.inner(images)

    with torch.autocast("cpu", torch.bfloat16):
        rows = torch.cat([embedder(part) for part in images.split(8)])
        loss(rows, labels).backward()
    wanted = gradients(embedder)
    if outside:
        with torch.autocast("cpu", torch.bfloat16):
            _, gradient = cached(embedder, images, labels, loss)
    else:
        _, gradient = cached(Cast(), images, labels, loss)
    for one, other in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=2e-3)


def test_a_scaler_scales_the_gradient_and_not_the_value():
    embedder, (images, labels), loss = embedder_of(), make_images(), sm.ShadowLoss(miner="hard")
    value, wanted = plain(embedder, images, labels, loss)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    found, gradient = cached(embedder, images, labels, loss, scaler=scaler)
    torch.testing.assert_close(found, value)
    for one, other in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(one / 1024, other)


def test_images_may_be_a_mapping_a_tuple_or_anything_that_can_be_cut():
    embedder, (images, labels), loss = embedder_of(), make_images(), sm.ShadowLoss(miner="hard")
    value, wanted = plain(embedder, images, labels, loss)

    class OfTwo(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = embedder

        def forward(self, given):
            first, second = given.values() if isinstance(given, dict) else given
            return self.inner(first + second)

    class Lazy:
        def __len__(self):
            return IMAGES

        def __getitem__(self, piece):
            return images[piece].clone()

    for given, model in (
        ({"a": images - 1, "b": torch.ones_like(images)}, OfTwo()),
        ((images - 1, torch.ones_like(images)), OfTwo()),
        (Lazy(), embedder),
    ):
        found, gradient = cached(model, given, labels, loss)
        torch.testing.assert_close(found, value)
        for one, other in zip(gradient, wanted, strict=True):
            torch.testing.assert_close(one, other)


def test_a_batch_without_triplets_gives_zeros_as_the_plain_step_does():
    embedder, (images, _), loss = embedder_of(), make_images(), sm.ShadowLoss()
    value, gradient = cached(embedder, images, torch.zeros(IMAGES, dtype=torch.int64), loss)
    assert value == 0
    assert all((part == 0).all() for part in gradient)


def test_the_step_tells_rows_and_their_gradient():
    embedder, (images, labels), loss = embedder_of(), make_images(), sm.ShadowLoss(miner="hard")
    rows = embedder(images)
    rows.retain_grad()
    loss(rows, labels).backward()
    step = run_cached_step(embedder, images, labels, loss, 8)
    torch.testing.assert_close(step.embeddings.detach(), rows.detach())
    torch.testing.assert_close(step.embeddings.grad, rows.grad)


def test_an_embedder_with_random_numbers_of_its_own_is_refused():
    generator = torch.Generator().manual_seed(0)

    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = embedder_of()

        def forward(self, images):
            return self.inner(images + torch.randn(images.shape, generator=generator, dtype=images.dtype))

    images, labels = make_images()
    with pytest.raises(ValueError, match="other rows for the same images in the second pass"):
        sm.cached_backward(Noisy(), images, labels, sm.ShadowLoss(miner="hard"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"micro_batch": 0}, "micro_batch is 0; it must be a number of images"),
        ({"labels": torch.arange(3)}, "there are 26 images and 3 labels"),
        ({"embedder": nn.Identity()}, r"the embedder gave \(26, 2, 6, 6\) for 26 images"),
        ({"labels": torch.arange(0), "images": torch.ones(0, 2, 6, 6)}, "the batch is empty"),
    ],
)
def test_mistakes_are_said_in_one_sentence(change, message):
    images, labels = make_images()
    given = {"embedder": embedder_of(), "images": images, "labels": labels, "loss": sm.ShadowLoss()} | change
    with pytest.raises(ValueError, match=message):
        sm.cached_backward(**given)


def test_nothing_is_warned_of_without_batch_norm():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached(embedder_of(dropout=0.1), *make_images(), sm.ShadowLoss())
