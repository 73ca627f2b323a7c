"""Plans within a memory budget: what a step takes is measured, and the largest micro-batch that fits is chosen."""

import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from shadowmetric.batches.budget import (
    LEAST_SCRATCH,
    Needs,
    Plan,
    Probe,
    format_bytes,
    kept_bytes,
    least_micro_batch,
    make_plan,
    parse_bytes,
    probe_embedder,
)
from shadowmetric.batches.meter import held_bytes, peak_extra_bytes
from shadowmetric.errors import Mistake

NEEDS = Needs(held=1000, optimizer=20, gradients=10, images=5, rows=6, loss=7, evaluation=50)
MB = 2**20


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("2GB", 2 * 10**9), ("512 MiB", 512 * MB), ("1.5g", 1_500_000_000), ("700mb", 700_000_000), ("1TiB", 2**40)],
)
def test_budgets_are_read_as_people_write_them(text, wanted):
    assert parse_bytes(text) == wanted


@pytest.mark.parametrize("text", ["", "much", "-2GB", "0", "0GB", "2", "100000", "2 GB more", "1e9", "5kB"])
def test_what_is_no_budget_is_said(text):
    with pytest.raises(Mistake, match="give a number with a unit, such as 2GB or 512MB"):
        parse_bytes(text)


def test_bytes_are_said_as_people_say_them():
    assert [format_bytes(count) for count in (2.5e9, 45_000_000, 1500)] == ["2.50 GB", "45 MB", "2 kB"]


def test_the_peak_is_the_largest_phase():
    assert NEEDS.peak(step=100, scratch=1) == 1000 + 20 + 5 + 6 + 100
    assert NEEDS.peak(step=0, scratch=40) == 1000 + 20 + 50 + 3 * 40  # evaluation
    many = Needs(held=1000, optimizer=20, gradients=10, images=500, rows=6, loss=7, evaluation=50)
    assert many.peak(step=100, scratch=1) == 1000 + 20 + 5 * 500  # making the images
    big_loss = Needs(held=1000, optimizer=20, gradients=10, images=5, rows=6, loss=700, evaluation=50)
    assert big_loss.peak(step=100, scratch=1) == 1000 + 20 + 5 + 6 + 10 + 700 + 1


@given(st.integers(1, 300), st.integers(10 * MB, 900 * MB), st.integers(1, 2))
def test_a_plan_is_the_largest_that_fits(batch, budget, least):
    needs, probe = Needs(5 * MB, MB, MB, MB // 2, MB // 8, MB // 8, MB // 8), Probe(per_image=MB, step=2 * MB)
    batch = max(batch, least)
    if Plan(budget, needs, probe, batch, least, LEAST_SCRATCH).predicted > 0.95 * budget:
        with pytest.raises(Mistake, match="the smallest that will do is"):
            make_plan(budget, needs, probe, batch, least=least, scratch=8 * MB)
        return
    plan = make_plan(budget, needs, probe, batch, least=least, scratch=8 * MB)
    assert plan.predicted <= 0.95 * budget
    assert least <= plan.micro_batch <= batch
    if plan.micro_batch < batch:
        larger = min(2 * plan.micro_batch, batch)
        assert Plan(budget, needs, probe, batch, larger, LEAST_SCRATCH).predicted > 0.95 * budget


def test_a_refusal_names_a_budget_that_will_do():
    probe = Probe(per_image=MB, step=2 * MB)
    needs = Needs(50 * MB, MB, MB, MB, MB, MB, MB)
    with pytest.raises(Mistake) as refused:
        make_plan(20 * MB, needs, probe, 64, scratch=32 * MB)
    enough = parse_bytes(str(refused.value).split("will do is ")[1].split(":")[0])
    assert make_plan(enough, needs, probe, 64, scratch=32 * MB).micro_batch == 1


def test_a_micro_batch_that_was_asked_for_is_kept_or_refused():
    probe, needs = Probe(per_image=MB, step=0), Needs(0, 0, 0, 0, 0, 0, 0)
    assert make_plan(100 * MB, needs, probe, 64, micro_batch=8, scratch=MB).micro_batch == 8
    with pytest.raises(Mistake, match="a step of 8 image"):
        make_plan(5 * MB, needs, probe, 64, micro_batch=8, scratch=MB)


def embedder_of() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(16, 8))


def test_kept_bytes_are_counted_exactly():
    layer = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 5), nn.Tanh())
    assert sorted(kept_bytes(layer, torch.ones(6, 10))) == [6 * 5 * 4, 6 * 20 * 4]  # what tanh returns


def test_a_probe_within_a_tight_budget_gives_batch_normalization_two_images():
    embedder = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8)).train()
    assert probe_embedder(embedder, torch.randn(64, 1, 8, 8), most=0).per_image > 0


def test_a_probe_predicts_larger_steps_and_leaves_no_trace():
    embedder, images = embedder_of(), torch.rand(64, 3, 64, 64)
    state = {name: value.clone() for name, value in embedder.state_dict().items()}
    generator = torch.get_rng_state()
    found = probe_embedder(embedder, images[:16], most=2**30)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(value, state[name]) for name, value in embedder.state_dict().items())
    assert all(parameter.grad is None for parameter in embedder.parameters())
    layer = 16 * 64 * 64 * 4
    assert 15 * layer <= found.per_image < 23 * layer  # 7 convolutions, 7 rectifiers, one gradient; workspaces
    if held_bytes() is None:
        return  # this system has no /proc
    measured = peak_extra_bytes(lambda: embedder(images).sum().backward())
    assert 0.6 * measured < found.bytes(64) < 1.5 * measured  # workspaces of convolutions grow too, on some machines


def test_statistics_of_a_batch_take_two_images():
    embedder = embedder_of()
    assert least_micro_batch(embedder) == 2
    assert least_micro_batch(embedder.eval()) == 1


def test_a_plan_says_what_it_does_and_what_came_of_it():
    plan = Plan(2 * 10**9, Needs(10**9, 0, 0, 0, 0, 0, 0), Probe(10**6, 10**7), 64, 32, MB)
    assert "embedded 32 at a time (1 MB an image and 10 MB a step)" in plan.sentence()
    assert "1.04 GB predicted at the peak, of a budget of 2.00 GB" in plan.sentence()
    assert "1.00 GB measured at the peak, 1.04 GB predicted (+4 %), within the budget" in plan.outcome(10**9)
    assert "OVER the budget" in plan.outcome(3 * 10**9)


def test_counting_leaves_nothing_behind():
    outputs = []
    layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Sigmoid())  # a sigmoid keeps its own output
    layers[1].register_forward_hook(lambda layer, given, found: outputs.append(weakref.ref(found)))
    assert kept_bytes(layers, torch.randn(5, 4)) == [5 * 8 * 4]
    gc.collect()
    assert [output() for output in outputs] == [None]
