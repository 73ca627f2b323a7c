"""A whole training step is measured: in micro-batches it has the loss and gradient of the plain one, in less memory."""

import pytest

from benchmarks.step.steps import CONTENDERS, StepJob, figures, make_images, record
from shadowmetric.batches.meter import held_bytes


def test_cached_and_plain_steps_compute_the_same():
    plain, cached = (
        figures(StepJob(name, "small_cnn", 32, 24, micro_batch))
        for name, micro_batch in (("plain", None), ("cached", 7))
    )
    assert cached["loss"] == pytest.approx(plain["loss"], rel=1e-5)
    assert cached["gradient"] == pytest.approx(plain["gradient"], rel=1e-3)
    assert plain["images_per_second"] == pytest.approx(24 / plain["seconds"])


@pytest.mark.skipif(held_bytes() is None, reason="this system has no /proc")
def test_micro_batches_take_less_memory():
    plain, cached = (
        figures(StepJob(name, "small_cnn", 64, 512, micro_batch))
        for name, micro_batch in (("plain", None), ("cached", 16))
    )
    assert cached["peak_extra_mb"] < 0.5 * plain["peak_extra_mb"]


def test_the_peer_takes_its_own_way():
    assert set(CONTENDERS) == {"plain", "cached", "pml"}
    found = record(StepJob("pml", "small_cnn", 32, 16))
    assert "reason" in found or found["loss"] > 0


def test_a_failure_is_a_reason():
    assert "no_such_backbone" in record(StepJob("plain", "no_such_backbone", 32, 8))["reason"]


def test_classes_have_four_images_each():
    images, labels = make_images(10, 8)
    assert images.shape == (10, 3, 8, 8)
    assert labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
