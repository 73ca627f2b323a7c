"""Facts of a machine, which name nobody, and troubles that each come with a remedy."""

import dataclasses
import json
import platform
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from shadowmetric.app.doctor import environment as module
from shadowmetric.app.doctor.environment import environment

FINE = dataclasses.replace(
    environment(),
    unmet=(),
    cores=8,
    threads=8,
    threads_set=True,
    can_measure_memory=True,
    shared_memory=2**33,
    driver_without_device=False,
    backends=("gloo",),
)


def test_facts_are_those_of_this_process(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("SHADOWMETRIC_DATA", str(tmp_path))
    found = environment()
    assert found.python == platform.python_version()
    assert found.packages["torch"] == torch.__version__.partition("+")[0]
    assert set(found.packages) == {"shadowmetric", "torch", "accelerate", "torchvision", "timm"}
    assert "pytorch-metric-learning" in found.extras["peers"]
    assert found.threads == torch.get_num_threads()
    assert found.threads_set
    assert found.data_root_exists
    assert found.cores >= 1
    if module.MEMORY_FILE.exists():
        assert found.held is not None
        assert found.memory is not None
        assert 10**7 < found.held < found.memory


def test_nothing_names_the_machine_or_its_user(monkeypatch):
    monkeypatch.delenv("SHADOWMETRIC_DATA", raising=False)
    text = json.dumps(environment().as_dict())
    for private in (str(Path.home()), str(Path.cwd()), platform.node(), str(Path(module.__file__).parent)):
        assert private not in text
    monkeypatch.setenv("SHADOWMETRIC_DATA", str(Path.home() / "images"))
    assert environment().data_root == "~/images"


@pytest.mark.parametrize(
    ("changes", "ranks", "what", "remedy"),
    [
        ({"threads_set": False}, 4, "4 ranks would use 8 threads each on 8 core(s)", "export OMP_NUM_THREADS=2"),
        ({"backends": ("nccl",)}, 1, "no gloo", "install torch"),
        ({"shared_memory": 64 * 10**6}, 1, "/dev/shm has only 64 MB", "--shm-size=2g"),
        ({"can_measure_memory": False}, 1, "--memory-budget cannot predict", "--micro-batch"),
        ({"driver_without_device": True, "cuda": "13.2"}, 1, "torch, built for CUDA 13.2, sees no GPU", "nvidia-smi"),
        ({"unmet": ("timm>=99",)}, 1, "timm>=99 is needed", "pip install -U 'timm>=99'"),
    ],
)
def test_each_trouble_has_its_remedy(changes, ranks, what, remedy):
    assert FINE.troubles(ranks) == []
    (found,) = dataclasses.replace(FINE, **changes).troubles(ranks)
    assert what in found.what
    assert remedy in found.remedy


def test_threads_are_no_trouble_to_one_process_or_where_they_fit():
    unset = dataclasses.replace(FINE, threads_set=False)
    assert unset.troubles(1) == []
    assert dataclasses.replace(unset, threads=2).troubles(4) == []


def test_what_is_missing_or_too_old_is_unmet():
    asked = [Requirement(text) for text in ("torch>=2", "torch>=999", "nothing-of-that-name>=1")]
    assert list(map(str, module.unmet(asked))) == ["torch>=999", "nothing-of-that-name>=1"]
    assert not module.unmet(module.list_requirements())
    assert {one.name for one in module.list_requirements("tensorboard")} == {"tensorboard"}


def test_a_container_limit_counts_if_it_is_below_the_memory(tmp_path, monkeypatch):
    file = tmp_path / "memory.max"
    monkeypatch.setattr(module, "CONTAINER_LIMITS", (tmp_path / "absent", file))
    for text, limit in (("max\n", None), ("1000\n", 1000), ("9000\n", None)):
        file.write_text(text)
        assert module.container_limit(5000) == limit


def test_a_system_without_proc_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MEMORY_FILE", tmp_path / "absent")
    monkeypatch.setattr(module.meter, "STATUS", tmp_path / "absent")
    monkeypatch.setattr(module, "SHARED_MEMORY", tmp_path / "absent")
    found = environment()
    assert (found.memory, found.held, found.shared_memory, found.can_measure_memory) == (None, None, None, False)
