"""Files of weights: the two formats, the wraps that come off, and a hostile pickle that does nothing."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from shadowmetric.app.models.weights import read_weights
from shadowmetric.errors import ModelMistake

TENSORS = {"conv.weight": torch.arange(6.0).view(2, 3), "conv.bias": torch.ones(2)}


def same(found):
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)


def test_safetensors_and_torch_files(tmp_path):
    save_file(TENSORS, tmp_path / "a.safetensors")
    torch.save(TENSORS, tmp_path / "a.pth")
    torch.save(TENSORS, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    for name in ("a.safetensors", "a.pth", "old.bin"):
        same(read_weights(tmp_path / name))


@pytest.mark.parametrize(
    "wrapped",
    [
        {"state_dict": TENSORS, "epoch": 3},
        {"model": TENSORS, "optimizer": {"lr": 0.1}},
        {"model": {"state_dict": TENSORS}},
        {"model_state_dict": TENSORS},
        {f"module.{name}": value for name, value in TENSORS.items()},
        {"state_dict": {f"module._orig_mod.model.{name}": value for name, value in TENSORS.items()}},
        {f"model.module.{name}": value for name, value in TENSORS.items()},
        TENSORS | {"epoch": 3},
    ],
)
def test_wraps_come_off(tmp_path, wrapped):
    torch.save(wrapped, tmp_path / "a.pt")
    same(read_weights(tmp_path / "a.pt"))


def test_a_prefix_that_not_all_share_stays(tmp_path):
    torch.save({"module.a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "a.pt")
    assert read_weights(tmp_path / "a.pt").keys() == {"module.a", "b"}


class Hostile:
    def __init__(self, victim: Path):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_hostile_pickle_is_refused_and_does_nothing(tmp_path, zipped):
    victim, file = tmp_path / "made", tmp_path / "hostile.pt"
    torch.save({"state_dict": TENSORS, "more": Hostile(victim)}, file, _use_new_zipfile_serialization=zipped)
    with pytest.raises(
        ModelMistake, match=r"hostile.pt asks for (posix|nt).mkdir to be loaded, and a pickle can run code"
    ):
        read_weights(file)
    assert not victim.exists()
    torch.load(file, weights_only=False)
    assert victim.exists()  # it would have


def test_a_whole_module_is_refused(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(ModelMistake, match=r"asks for torch.nn.modules.linear.Linear to be loaded.*safetensors"):
        read_weights(tmp_path / "module.pt")


@pytest.mark.parametrize("name", ["noise.safetensors", "noise.pth"])
def test_damaged_files_are_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(b"not weights at all, and quite long enough to be read")
    with pytest.raises(ModelMistake, match=f"{name} cannot be read as weights") as caught:
        read_weights(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_file_that_was_cut_short(tmp_path):
    save_file(TENSORS, tmp_path / "a.safetensors")
    torch.save(TENSORS, tmp_path / "a.pth")
    for name in ("a.safetensors", "a.pth"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) - 10])
        with pytest.raises(ModelMistake, match=f"{name} cannot be read as weights"):
            read_weights(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "held"), [({"epoch": 3}, "epoch"), ([1, 2], "list"), ({}, "nothing"), ({"state_dict": {}}, "nothing")]
)
def test_files_without_named_tensors(tmp_path, content, held):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ModelMistake, match=rf"holds no tensors by name \({held}\); give a state dict"):
        read_weights(tmp_path / "a.pt")


def test_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none.pth"):
        with pytest.raises(ModelMistake, match=r"is not a file; give a .safetensors or a torch file, or `pretrained`"):
            read_weights(path)
