"""Finding an accelerator, and its host waits: played where there is none."""

import warnings

import pytest
import torch

from shadowmetric.app.doctor.devices.accelerator import (
    SYNCHRONIZING,
    device_name,
    find_accelerator,
    record_waits,
    synchronize,
)


@pytest.fixture
def nothing_here(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)


@pytest.fixture
def modes(monkeypatch):
    """Play CUDA's debug mode; return what it was set to."""
    values = [0]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: values[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", values.append)
    return values


def test_without_any_there_is_none(nothing_here):
    assert find_accelerator() is None


@pytest.mark.parametrize(("module", "name"), [(torch.cuda, "cuda"), (torch.backends.mps, "mps"), (torch.xpu, "xpu")])
def test_what_torch_can_use_is_the_accelerator(nothing_here, monkeypatch, module, name):
    monkeypatch.setattr(module, "is_available", lambda: True)
    assert find_accelerator() == torch.device(name)


def test_another_vendor_is_what_torch_calls_its_accelerator(nothing_here, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("hpu"))
    assert find_accelerator() == torch.device("hpu")


def test_an_older_torch_without_that_module_has_none(nothing_here, monkeypatch):
    monkeypatch.delattr(torch, "accelerator")
    assert find_accelerator() is None


def test_a_device_without_a_name_has_its_type(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    assert device_name(torch.device("cuda")) == "Some GPU"
    assert device_name(torch.device("mps")) == "mps"


def test_each_synchronizing_warning_is_a_wait_with_its_line_and_others_are_not(modes):
    def ask():
        warnings.warn(f"{SYNCHRONIZING} (function f)", UserWarning, stacklevel=2)

    with record_waits(torch.device("cuda")) as lines:
        assert modes[-1] == "warn"
        for _ in range(2):
            ask()
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert modes == [0, "warn", 0]
    assert len(lines) == 2
    assert lines[0] == lines[1]
    assert lines[0].startswith("app/doctor/devices/test_accelerator.py:")


def test_the_debug_mode_is_given_back_after_an_error(modes):
    with pytest.raises(RuntimeError, match="no luck"), record_waits(torch.device("cuda")):
        raise RuntimeError("no luck")
    assert modes == [0, "warn", 0]


def test_where_torch_cannot_tell_waits_there_are_none_to_count():
    with record_waits(torch.device("mps")) as lines:
        pass
    assert lines is None


def test_waiting_asks_the_module_of_the_device(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: asked.append("cuda"))
    synchronize(torch.device("cuda"))
    synchronize(torch.device("cpu"))
    assert asked == ["cuda"]
