"""Rows whose backward embeds again: the gradient of embedder(images), whatever is done with the rows."""

import pytest
import torch
from every_loss import CLASSES, LOSSES
from torch import nn

import shadowmetric as sm
from shadowmetric.batches import rows_again
from shadowmetric.batches.cached import BATCH_NORM_CHANGES

IMAGES = 26  # 26 = 3 x 8 + 2


def embedder_of(*, dropout: float = 0.0, norm: bool = False) -> nn.Module:
    torch.manual_seed(1)
    layers = [nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6) if norm else nn.Identity(), nn.Tanh(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(6 * 16, 5)).double()


def make_images() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    return torch.randn(IMAGES, 2, 6, 6, dtype=torch.float64), torch.arange(IMAGES) % CLASSES


def gradients(*modules: nn.Module) -> list[torch.Tensor]:
    found = [parameter.grad.clone() for module in modules for parameter in module.parameters()]
    for module in modules:
        module.zero_grad()
    return found


@pytest.mark.parametrize("name", LOSSES)
def test_weights_and_loss_get_the_gradient_of_the_whole_batch(name):
    embedder, (images, labels) = embedder_of(), make_images()
    torch.manual_seed(3)
    loss = LOSSES[name](5).double()
    loss(embedder(images), labels).backward()
    wanted = gradients(embedder, loss)
    rows = sm.cached_rows(embedder, images, 8)
    torch.testing.assert_close(rows, embedder(images), rtol=0, atol=1e-12)
    loss(rows, labels).backward()
    for one, other in zip(gradients(embedder, loss), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_two_uses_of_the_rows_and_two_backwards_add_up():
    embedder, (images, labels), loss = embedder_of(), make_images(), sm.ShadowLoss(miner="hard")
    rows = embedder(images)
    (loss(rows, labels) + rows.square().mean()).backward()
    wanted = gradients(embedder)
    rows = sm.cached_rows(embedder, images, 8)
    loss(rows, labels).backward(retain_graph=True)
    rows.square().mean().backward()
    for one, other in zip(gradients(embedder), wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_dropout_is_replayed_and_the_generator_goes_on_as_after_one_pass():
    embedder, (images, labels), loss = embedder_of(dropout=0.5), make_images(), sm.ShadowLoss(miner="hard")
    torch.manual_seed(7)
    loss(torch.cat([embedder(part) for part in images.split(8)]), labels).backward()
    wanted, after = gradients(embedder), torch.rand(3)
    torch.manual_seed(7)
    loss(sm.cached_rows(embedder, images, 8), labels).backward()
    assert torch.equal(torch.rand(3), after)
    for one, other in zip(gradients(embedder), wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_autocast_of_the_first_pass_holds_in_backward_outside_of_it():
    embedder, (images, labels) = embedder_of().float(), make_images()
    images, loss = images.float(), sm.ShadowLoss(miner="hard")
    cast = []
    embedder.register_forward_pre_hook(lambda *_: cast.append(torch.is_autocast_enabled("cpu")))
    with torch.autocast("cpu", torch.bfloat16):
        loss(embedder(images), labels).backward()
        wanted = gradients(embedder)
        rows = sm.cached_rows(embedder, images, 8)
        assert rows.dtype == torch.bfloat16
        value = loss(rows, labels)
    cast.clear()
    value.backward()
    assert cast == [True] * 4
    for one, other in zip(gradients(embedder), wanted, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05 * float(other.abs().max()))


def test_running_statistics_move_once_and_batch_statistics_are_warned_of():
    embedder, (images, _) = embedder_of(norm=True), make_images()
    with pytest.warns(UserWarning, match=BATCH_NORM_CHANGES.split("{")[0]):
        rows = sm.cached_rows(embedder, images, 8)
    assert int(embedder[1].num_batches_tracked) == 0
    rows.sum().backward()
    assert int(embedder[1].num_batches_tracked) == 4


def test_without_gradients_it_only_embeds():
    embedder, (images, _) = embedder_of(), make_images()
    with torch.no_grad():
        assert not sm.cached_rows(embedder, images, 8).requires_grad
    for parameter in embedder.parameters():
        parameter.requires_grad_(False)
    assert not sm.cached_rows(embedder, images, 8).requires_grad


def test_a_frozen_or_unused_part_gets_no_gradient():
    embedder, (images, _) = embedder_of(), make_images()
    embedder[0].weight.requires_grad_(False)
    embedder.unused = nn.Linear(2, 2).double()
    embedder.forward = lambda x: nn.Sequential(*list(embedder)[:6])(x)
    sm.cached_rows(embedder, images, 8).square().sum().backward()
    assert embedder[0].weight.grad is None
    assert embedder.unused.weight.grad is None
    assert embedder[-2].weight.grad is not None


def test_a_part_that_only_some_pieces_use_keeps_their_gradient():
    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.low, self.high = nn.Linear(3, 4).double(), nn.Linear(3, 4).double()

        def forward(self, rows):
            part = self.low if float(rows.detach().mean()) < 0 else self.high
            return part(rows)

    embedder, rows = Routed(), torch.randn(20, 3, dtype=torch.float64).abs()
    rows[:8] *= -1
    wanted = torch.cat([embedder.low(rows[:8]), embedder.high(rows[8:])])
    wanted.square().sum().backward()
    wanted = gradients(embedder)
    sm.cached_rows(embedder, rows, 4).square().sum().backward()
    for one, other in zip(gradients(embedder), wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_hooks_on_weights_see_the_whole_gradient_once():
    embedder, (images, _) = embedder_of(), make_images()
    embedder(images).square().sum().backward()
    wanted, seen = gradients(embedder), []
    embedder[0].weight.register_hook(lambda gradient: seen.append(gradient) or 2 * gradient)
    sm.cached_rows(embedder, images, 8).square().sum().backward()
    found = gradients(embedder)
    assert len(seen) == 1
    torch.testing.assert_close(found[0], 2 * wanted[0])
    torch.testing.assert_close(found[1:], wanted[1:])


class Total(nn.Module):
    """The sum of all numbers as a loss."""

    def forward(self, rows, labels):
        return rows.sum()


@pytest.mark.parametrize("how", ["rows", "backward"])
def test_half_precision_weights_lose_nothing_by_many_pieces(how):
    torch.manual_seed(0)
    embedder, images = nn.Linear(16, 4), torch.randn(2048, 16).abs()
    labels = torch.zeros(2048, dtype=torch.int64)
    exact = torch.autograd.grad(embedder(images).sum(), embedder.weight)[0]
    half = nn.Linear(16, 4).to(torch.bfloat16)
    half.load_state_dict(embedder.state_dict())
    for _ in range(2):  # a second time adds to what is there
        if how == "rows":
            sm.cached_rows(half, images.bfloat16(), 4).sum().backward()
        else:
            sm.cached_backward(half, images.bfloat16(), labels, Total(), micro_batch=4)
    assert half.weight.grad.dtype == torch.bfloat16
    torch.testing.assert_close(half.weight.grad.float(), 2 * exact, rtol=0.02, atol=0)


def test_a_second_derivative_and_weights_or_images_that_changed_are_refused():
    embedder, (images, _) = embedder_of(), make_images()
    (slope,) = torch.autograd.grad(
        sm.cached_rows(embedder, images, 8).square().sum(), embedder[0].weight, create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
    for changed in (embedder[0].weight, images):
        rows = sm.cached_rows(embedder, images, 8)
        with torch.no_grad():
            changed.add_(1e-3)
        with pytest.raises(RuntimeError, match="weights or images were changed between cached_rows and backward"):
            rows.sum().backward()


def test_weights_that_are_others_during_the_call_are_refused():
    class Calling(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedder = embedder_of()

        def forward(self, images):
            return sm.cached_rows(self.embedder, images, 8)

    module, (images, _) = Calling(), make_images()
    others = {name: weight.detach().clone().requires_grad_() for name, weight in module.named_parameters()}
    rows = torch.func.functional_call(module, others, (images,))
    with pytest.raises(RuntimeError, match="no weight of the embedder got a gradient"):
        rows.sum().backward()


@pytest.mark.filterwarnings("ignore:batch normalization")
def test_buffers_move_once_however_they_move():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
            self.register_buffer("replaced", torch.zeros(()))
            self.register_buffer("untouched", torch.ones(()))

        def forward(self, rows):
            self.replaced = self.replaced + 1
            return self.norm(self.layer(rows)) * self.untouched

    embedder = Counting()
    embedder.training = False  # its child still is
    with torch.enable_grad():
        plain = embedder(torch.randn(6, 3))
    assert int(embedder.replaced) == int(embedder.norm.num_batches_tracked) == 1
    rows = sm.cached_rows(embedder, torch.randn(8, 3), 4)
    assert int(embedder.replaced) == int(embedder.norm.num_batches_tracked) == 1
    plain.sum().backward()  # nothing that it needs was touched
    for _ in range(2):
        rows.sum().backward(retain_graph=True)
        assert int(embedder.replaced) == int(embedder.norm.num_batches_tracked) == 3


def test_rows_can_be_changed_in_place():
    embedder, (images, _) = embedder_of(), make_images()
    sm.cached_rows(embedder, images, 8).mul_(2).sum().backward()
    found = gradients(embedder)
    (2 * embedder(images)).sum().backward()
    torch.testing.assert_close(found, gradients(embedder))


def test_activations_of_one_micro_batch_are_held_and_no_graph():
    """What is kept between forward and backward: rows, images, generators; nothing of the embedder."""
    images = torch.randn(512, 64)
    embedder = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 8))
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: sizes.append(kept.nbytes) or kept, lambda kept: kept):
        rows = sm.cached_rows(embedder, images, 8)
        before = len(sizes)
        rows.square().sum().backward()
    assert sum(sizes[:before]) == 512 * 8 * 4
    assert max(sizes) <= 4096 * 64 * 4 < 512 * 4096 * 4 / 7  # a weight; the activations of all would be eight times it


def test_what_can_not_be_cut_and_a_wrapped_embedder_are_refused_in_a_sentence(monkeypatch):
    embedder, (images, _) = embedder_of(), make_images()
    with pytest.raises(ValueError, match="micro_batch is 0; it must be a number of images"):
        sm.cached_rows(embedder, images, 0)
    with pytest.raises(ValueError, match="there are 3 images and 26 rows of another part"):
        sm.cached_rows(embedder, {"one": images, "other": images[:3]}, 8)
    with pytest.raises(ValueError, match="a part of the images is True, which has no row for each image; leave it out"):
        sm.cached_rows(embedder, {"flag": True, "images": images}, 8)
    with pytest.raises(ValueError, match="there are no images"):
        sm.cached_rows(embedder, {}, 8)
    with pytest.raises(ValueError, match="the images want a gradient"):
        sm.cached_rows(embedder, nn.Conv2d(2, 2, 1).double()(images), 8)
    embedder._is_replica = True  # as torch marks what DataParallel makes
    with pytest.raises(ValueError, match="a replica of DataParallel"):
        sm.cached_rows(embedder, images, 8)
    embedder._is_replica = False
    monkeypatch.setattr(rows_again, "DistributedDataParallel", nn.Sequential)
    with pytest.raises(ValueError, match="got a DistributedDataParallel; call it in the forward"):
        sm.cached_rows(embedder, images, 8)
