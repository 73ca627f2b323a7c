"""The model against what can be counted: operations of real losses, collectives of two real ranks, plain search."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import shadowmetric as sm
from benchmarks.scale import costs as scale
from benchmarks.scale import ranks as scale_ranks
from benchmarks.scale.costs import Machine, Network, Step
from shadowmetric.app.models import build_embedder

GPU = Machine("gpu", embedder=3e14, product=6e13, link=5e10, latency=5e-6, passes=3e12)
NETWORK = Network("resnet50", 8.2e9, 43e6, 24_600_000, 150_528.0)
TINY = scale_ranks.Trial(batch=20, dim=8, micro_batch=4, per_class=4, repeats=1, ranks=(1, 2))


@cache
def found():
    """Return what one and two real ranks say. Started once: it takes longest."""
    return scale_ranks.measure_ranks(TINY)


def counted_flops(action):
    def in_place(out, left, right, *_, **__):
        return 2 * left[0] * left[1] * right[1]

    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: in_place}) as counter:
        action()
    return counter.get_total_flops()


def batch(size, dim, per_class=4):
    rows = torch.randn(size, dim, generator=torch.Generator().manual_seed(0))
    return rows.requires_grad_(), torch.arange(size) // per_class


def of_a_rank(loss, rows, labels, count):
    own = rows.detach()[:count].clone().requires_grad_()
    loss.sums(own, labels[:count], references=rows, reference_labels=labels, anchors_at=0).value().backward()


@pytest.mark.parametrize(("size", "dim", "ranks"), [(1024, 16, 2), (2048, 8, 4), (1024, 64, 2)])
def test_operations_of_a_mined_loss_on_a_rank(size, dim, ranks):
    rows, labels = batch(size, dim)
    step = Step(size, dim, ranks)
    counted = counted_flops(lambda: of_a_rank(sm.ShadowLoss(), rows, labels, step.rows))
    assert counted == pytest.approx(scale.product_flops(step), rel=0.05)


@pytest.mark.parametrize(("size", "share"), [(1023, 1.0), (1024, 0.75), (3072, 0.625), (6144, 0.5625)])
def test_one_process_multiplies_the_upper_triangle_of_blocks(size, share):
    rows, labels = batch(size, 4)
    step = Step(size, 4)
    assert scale.blocks_made(step) == share
    assert counted_flops(lambda: sm.ShadowLoss()(rows, labels)) == pytest.approx(scale.product_flops(step), rel=0.05)


def test_two_ranks_multiply_twice_as_much_as_one_process_with_a_large_batch():
    one, two = (scale.product_flops(Step(10**6, 64, ranks)) for ranks in (1, 2))
    assert 2 * two / one == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("ranks", [1, 4])
def test_operations_of_a_loss_of_whole_rows(ranks):
    rows, labels = batch(512, 128)
    step = Step(512, 128, ranks, kind="rows")
    counted = counted_flops(lambda: of_a_rank(sm.MultiSimilarityLoss(), rows, labels, step.rows))
    assert counted == pytest.approx(scale.product_flops(step), rel=0.01)


def test_operations_of_a_cached_embedder():
    embedder, images = build_embedder("small_cnn", channels=1, size=28), torch.rand(12, 1, 28, 28)
    forward = counted_flops(lambda: embedder(images[:1]))
    network = replace(NETWORK, flops=float(forward))
    cached = counted_flops(lambda: scale_ranks.embed_twice(embedder, images, 4))
    plain = counted_flops(lambda: embedder(images).sum().backward())
    assert cached == pytest.approx(scale.embedder_flops(network, Step(12, 64)), rel=0.01)  # the first layer's input
    assert plain == pytest.approx(scale.embedder_flops(network, Step(12, 64, micro_batch=None)), rel=0.02)


def test_bytes_and_calls_are_those_of_real_ranks():
    one, two = found()[1], found()[2]
    _, network = scale_ranks.calibrate(found(), TINY)
    sent = scale.traffic(network, TINY.step(2))
    assert sent.rows == sent.gradient == 10 * 8 * 4
    assert sent.labels == 10 * 8
    assert [rank["received_bytes"] for rank in two] == [sum(sent) - sent.buffers, sum(sent)]  # rank 0 sends statistics
    assert [rank["collectives"] for rank in two] == [scale.collectives(network, TINY.step(2))] * 2
    assert (
        (one[0]["received_bytes"], one[0]["collectives"])
        == (0, 0)
        == (
            sum(scale.traffic(network, TINY.step(1))),
            scale.collectives(network, TINY.step(1)),
        )
    )


def test_gloo_sends_the_gradient_of_the_rows_twice():
    machine, network = scale_ranks.calibrate(found(), TINY)
    assert machine.scatter == 2
    for rank in found()[2]:
        if "loopback_bytes" in rank:  # headers and other programs come on top
            sent = scale.traffic(network, TINY.step(2))
            assert rank["loopback_bytes"] > 0.95 * (sum(sent) + sent.gradient)


def test_a_calibrated_machine_is_the_parts():
    machine, network = scale_ranks.calibrate(found(), TINY)
    assert network.weights == sum(parameter.numel() for parameter in scale_ranks.make_subject(TINY)[0].parameters())
    assert network.pixel_bytes == 28 * 28
    parts = scale.seconds(machine, network, TINY.step(1))
    one = found()[1][0]
    assert parts.embedder == pytest.approx(one["embedder"])
    assert parts.update == pytest.approx(one["update"])
    assert parts.loss == pytest.approx(one["loss"], rel=0.01)
    assert all(math.isfinite(number) and number > 0 for number in (machine.link, machine.product, machine.latency))


@pytest.mark.parametrize("latency", [0.0, 5e-6, 1e-3])
@pytest.mark.parametrize("kind", scale.KINDS)
@pytest.mark.parametrize(("size", "dim"), [(2**14, 64), (2**20, 512)])
def test_crossings_are_where_a_plain_search_finds_them(latency, kind, size, dim):
    machine, step = replace(GPU, latency=latency), Step(size, dim, kind=kind)
    points = scale.crossings(machine, NETWORK, step)

    def first(computed):
        """Return the first power of two whose gather takes longer, so that shares of rows are whole."""
        for power in range(1, 15):
            parts = scale.seconds(machine, NETWORK, replace(step, ranks=2**power))
            if parts.gather > computed(parts):
                return 2**power
        return math.inf

    for point, computed in (
        (points.loss, lambda parts: parts.loss),
        (points.embedder, lambda parts: parts.embedder),
        (points.both, lambda parts: parts.embedder + parts.loss),
    ):
        power = max(2, 2 ** math.ceil(math.log2(point)))
        assert first(computed) == (power if power <= 2**14 else math.inf)


def test_without_latency_the_closed_forms_hold():
    machine, step = replace(GPU, latency=0.0, passes=math.inf), Step(10**6, 512)
    points = scale.crossings(machine, NETWORK, step)
    assert points.embedder == pytest.approx(1 + 2 * 8.2e9 * 5e10 / (512 * 4 * 3e14))
    assert points.loss == pytest.approx(1 + 10**6 * 5e10 / (4 * 6e13), rel=0.01)  # D cancels but for the column more
    rows = scale.rows_where_overtaken(machine, step)
    assert rows == pytest.approx(4 * 6e13 / 5e10, rel=0.01)
    assert 10**6 / points.loss == pytest.approx(rows, rel=0.01)
    assert scale.crossings(machine, NETWORK, replace(step, batch=10**3)).embedder == pytest.approx(points.embedder)


def test_a_gather_sent_twice_overtakes_earlier():
    twice, once = (scale.crossings(replace(GPU, scatter=scatter), NETWORK, Step(10**6, 512)) for scatter in (2, 1))
    assert all(few < many for few, many in zip(twice, once, strict=True))


def test_ranks_on_fewer_cores_share_them():
    machine = replace(GPU, cores=2.0, together=1.25)
    one, two, three = (scale.seconds(machine, NETWORK, Step(1200, 64, ranks)).embedder for ranks in (1, 2, 3))
    assert two == pytest.approx(1.25 * one / 2)
    assert three == pytest.approx(1.25 * one / 2)
    core = [scale.row(machine, NETWORK, Step(1200, 64, ranks))["core_seconds"] for ranks in (2, 3)]
    assert core[0] / core[1] == pytest.approx(1.5, rel=0.01)


def test_memory_grows_with_rows_and_not_with_pairs():
    small, large = (scale.memory(NETWORK, Step(size, 512, 64)) for size in (10**5, 10**6))
    assert large.loss < 11 * small.loss
    assert (
        scale.memory(NETWORK, Step(10**6, 512, 1024, micro_batch=32)).peak < 10**6 * 10**6
    )  # a millionth of S x S x 4


def test_micro_batches_bound_activations():
    cached, plain = (scale.memory(NETWORK, Step(1024, 64, micro_batch=size)) for size in (16, None))
    assert plain.embedding - cached.embedding == (1024 - 16) * NETWORK.kept_bytes


def test_a_ring_hides_the_shorter_of_loss_and_gather():
    parts = scale.seconds(GPU, NETWORK, Step(10**6, 512, 64))
    assert parts.ring == pytest.approx(sum(parts) - parts.gather)
    few = scale.seconds(GPU, NETWORK, Step(10**6, 512, 1024))
    assert few.ring == pytest.approx(sum(few) - few.loss)


@pytest.mark.parametrize(("weights", "buckets"), [(1000, 1), (2**18, 1), (2**18 + 1, 2), (24_600_000, 5)])
def test_buckets_of_gradients(weights, buckets):
    assert scale.buckets(replace(NETWORK, weights=weights)) == buckets
