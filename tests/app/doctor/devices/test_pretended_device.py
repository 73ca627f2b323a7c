"""The pretended accelerator: known programs with known counts, the CPU's values to the bit, and shapes alone."""

import pytest
import torch
from every_loss import LOSSES

import shadowmetric as sm
from shadowmetric.app.doctor.devices.counts import HostRead
from shadowmetric.app.doctor.devices.loss_steps import split_weights
from shadowmetric.app.doctor.devices.pretended_device import count_forward, count_step

DIM = 8


def rows(count=30, dim=DIM):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(0))


def count(program, *tensors):
    return count_forward(program, *tensors)[0]


def test_every_operation_is_a_kernel_forward_and_backward():
    counts = count_step(lambda x: (x * 2).sum(), rows())
    # mul, sum; backward: ones for the value, expand is a view, mul
    assert counts.by_name == {"mul": 2, "sum": 1, "ones_like": 1}
    assert (counts.kernels, counts.waits, counts.mixes) == (4, 0, [])


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.T[2:5, None].expand(-1, 4, -1).detach(),
        lambda x: (x.view(5, -1).split(2)[0].unbind(1)[0], x[0, 1], x.diagonal()),
        lambda x: (torch.empty(3, device=x.device), torch.empty_like(x), x.new_empty(7)),
        lambda x: (x.shape, len(x), x.stride(), x.is_contiguous(), x.dtype),
    ],
)
def test_views_allocations_and_facts_are_no_kernels(program):
    counts = count(program, rows())
    assert (counts.kernels, counts.waits) == (0, 0)


@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        (lambda x: x.masked_fill(x > 0, 1.0), 2),
        (lambda x: x.masked_fill_(x > 0, 1.0), 2),
        (lambda x: torch.where(x > 0, x, 0.0), 3),
        (lambda x: x[torch.arange(3, device=x.device)], 2),
        (lambda x: torch.sort(x[:, 0], stable=True), 1),
        (lambda x: x[0].fill_(1.0), 1),
        (lambda x: torch.full((3,), 2.0, device=x.device), 1),
        (lambda x: x.to(torch.float64), 1),
        (lambda x: torch.ones(3).to(x.device, non_blocking=True), 1),
        (lambda x: x * torch.tensor(2.0), 1),  # a number on the host is an argument of the kernel
        (lambda x: torch.arange(3, device=x.device).repeat_interleave(2, output_size=6), None),
    ],
)
def test_what_the_device_does_alone_is_no_wait(program, kernels):
    counts = count(program, rows())
    assert (counts.waits, counts.mixes) == (0, [])
    assert kernels is None or counts.kernels == kernels


@pytest.mark.parametrize(
    ("program", "waits"),
    [
        (lambda x: x[0, 0].item(), 1),
        (lambda x: bool((x > 0).any()), 1),
        (lambda x: float(x.sum()), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: x.to("cpu", non_blocking=True), 1),  # whoever reads it must wait
        (lambda x: torch.empty(30, DIM).copy_(x), 1),
        (lambda x: torch.equal(x, x), 1),
        (lambda x: (x > 0).nonzero(), 1),
        (lambda x: torch.where(x > 0), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: x.masked_select(x > 0), 1),
        (lambda x: x.long().unique(), 1),
        (lambda x: x.long().flatten().unique_consecutive(), 1),
        (lambda x: x.flatten().long().abs().bincount(), 2),  # the least and the largest
        (lambda x: torch.arange(2, device=x.device).repeat_interleave(torch.ones(2, device=x.device).long()), 1),
        (lambda x: torch.tensor([1.0, 2.0], device=x.device), 1),
        (lambda x: torch.as_tensor(2.0, device=x.device), 1),
        (lambda x: x.new_tensor([1.0]), 1),
        (lambda x: torch.ones(3).to(x.device), 1),
        (lambda x: x[[0, 2]], 1),
        (lambda x: x[:, [True, False] * 4], 1),
        (lambda x: x[torch.tensor([0, 2])], 1),
        (lambda x: x.masked_fill(x > 0, x[0, 0]), 1),
        (lambda x: [float(part) for part in x[0, :3]], 3),
    ],
)
def test_what_the_host_must_know_is_a_wait(program, waits):
    counts = count(program, rows())
    assert counts.waits == sum(place.times for place in counts.wait_places) == waits
    assert counts.mixes == []


def assign(value):
    def program(x):
        copy = x.clone()
        copy[copy > 0] = value(copy)

    return program


@pytest.mark.parametrize(
    ("value", "waits"),
    [
        (lambda x: 2.0, 0),
        (lambda x: torch.tensor(2.0), 0),
        (lambda x: x[0, 0], 1),
        (lambda x: x.new_ones(()), 1),
    ],
)
def test_a_mask_that_a_number_fills_does_not_wait_unless_the_number_is_on_the_device(value, waits):
    assert count(assign(value), rows()).waits == waits


def test_a_wait_has_its_line_and_its_phase():
    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            return grad.expand(30, DIM) * grad.item()

    def step(x):
        x.max().item()
        return Reads.apply(x)

    first, second = count_step(step, rows()).wait_places
    assert (first.phase, second.phase) == ("forward", "backward")
    assert first.what == second.what == "_local_scalar_dense"
    assert first.line.startswith("app/doctor/devices/test_pretended_device.py:")
    assert first.line != second.line


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (lambda x: x + torch.ones(DIM), "add"),
        (lambda x: torch.ones(30)[(x[:, 0] > 0).nonzero()[:, 0]], "index"),
        (lambda x: torch.cat([x, torch.ones(1, DIM)]), "cat"),
    ],
)
def test_operations_on_both_sides_are_reported(program, name):
    (mix,) = count(program, rows()).mixes
    assert mix.what == name
    assert mix.line.startswith("app/doctor/devices/test_pretended_device.py:")


def test_the_largest_tensor_is_one_that_was_allocated():
    assert count(lambda x: x.expand(100, 30, DIM), rows()).largest_bytes == 0
    assert count_step(lambda x: (x @ x.T).sum(), rows()).largest_bytes == 30 * 30 * 4


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients_are_those_of_the_cpu(name):
    torch.manual_seed(0)
    loss, labels = LOSSES[name](DIM), torch.arange(30) // 5
    step, weights = split_weights(loss)
    counts = count_step(step, rows(), labels, *weights)
    embeddings = rows().requires_grad_()
    value = loss(embeddings, labels)
    value.backward()
    torch.testing.assert_close(counts.value, value.detach(), rtol=1e-5, atol=0)
    own = [weight.grad for weight in loss.parameters()]
    for mine, theirs in zip((counts.gradients[0], *counts.gradients[2:]), (embeddings.grad, *own), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))  # sums in other orders
    assert counts.gradients[1] is None  # labels
    assert counts.mixes == []
    assert counts.kernels > 0


def test_the_result_of_a_program_comes_back_to_the_cpu():
    counts, (mask, positive) = count_forward(lambda x: (x > 0, x[x > 0]), rows())
    assert torch.equal(mask, rows() > 0)
    assert torch.equal(positive, rows()[rows() > 0])
    assert counts.waits == 1


def test_an_operator_of_ours_is_entered():
    @torch.library.custom_op("shadowmetric::double_of_a_test", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * float(x.new_tensor(2.0))

    counts = count(double, rows())
    assert counts.by_name == {"_to_copy": 1, "_local_scalar_dense": 1, "mul": 1}
    assert [place.what for place in counts.wait_places] == ["tensor of host values", "_local_scalar_dense"]


def test_a_pretended_tensor_is_of_no_use_outside():
    kept = []
    count(kept.append, rows())
    with pytest.raises(RuntimeError, match="outside of count_step"):
        kept[0] + 1


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[0, 0].item(),
        lambda x: x.tolist(),
        lambda x: x[x > 0],
        lambda x: x.cpu(),
        lambda x: (x > 0).nonzero(),
        lambda x: x.long().unique(),
        lambda x: x.flatten().long().bincount(),
    ],
)
def test_shapes_alone_cannot_be_read(program):
    with pytest.raises(HostRead, match=r"at app/doctor/devices/test_pretended_device.py:\d+ reads from the device"):
        count_step(lambda x: program(x.detach()), rows(), values=False)


def test_shapes_alone_count_as_values_do_and_take_no_memory():
    def step(x):
        unit = torch.nn.functional.normalize(x)
        scale = torch.tensor([2.0], device=x.device)
        return torch.relu(unit @ unit.T * scale).amax(1).mean()

    small, large = (count_step(step, torch.empty(size, 128), values=False) for size in (32, 16_384))
    real = count_step(step, rows(32, 128))
    assert small.by_name == large.by_name == real.by_name
    assert small.waits == large.waits == real.waits == 1
    assert large.largest_bytes == 16_384**2 * 4  # a gigabyte that nobody allocated
    assert (large.value, large.gradients) == (None, ())


def test_the_losses_count_the_same_whatever_the_values():
    loss, labels = sm.MultiSimilarityLoss(), torch.arange(30) // 5
    step, _ = split_weights(loss)
    first, second = (count_step(step, scale * rows(), labels) for scale in (1.0, 5.0))
    assert (first.kernels, first.waits) == (second.kernels, second.waits)
