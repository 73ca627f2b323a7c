"""Memory that this process holds, now and at its highest."""

import torch

from shadowmetric.batches import meter
from shadowmetric.batches.meter import held_bytes, peak_bytes, peak_extra_bytes


def test_peak_sees_memory_that_is_freed_again():
    size = 64 * 2**20
    peak = peak_extra_bytes(lambda: torch.ones(size // 4).sum())
    assert peak is None or 0.9 * size < peak < 1.2 * size


def test_peak_is_unknown_without_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(meter, "CLEAR_REFS", tmp_path / "nowhere" / "clear_refs")
    calls = []
    assert peak_extra_bytes(lambda: calls.append(1)) is None
    assert calls == [1]


def test_nothing_is_known_without_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(meter, "STATUS", tmp_path / "nowhere")
    assert held_bytes() is None
    assert peak_bytes() is None
    assert peak_extra_bytes(lambda: None) is None


def test_what_is_held_is_seen_and_no_more_than_the_peak():
    before = held_bytes()
    if before is None:
        return  # this system has no /proc
    some = torch.ones(16 * 2**20)
    held = held_bytes()
    assert 0.9 * some.nbytes < held - before < 1.2 * some.nbytes
    assert peak_bytes() >= held
