"""What can be known of the kernels without a GPU: that compilers take them, and what they make of them."""

import importlib.util
import re
import sys
from unittest import mock

import pytest
import torch
from kernel_work import compile_everything, run

from shadowmetric.ops import fused_gather, fused_nearest, triton_ops
from shadowmetric.ops.grid_rows import GridRows

with_triton = pytest.mark.skipif(bool(triton_ops.missing()), reason=f"kernels need {triton_ops.missing()}")

CAPABILITIES = [80, 90]  # A100, H100
KERNELS = {"nearest": 5, "gather": 3}  # how often each is compiled
SPILLED = {(80, "nearest D=130 SLOTS=1"): 8}  # bytes: ptxas stops at 128 registers, so that two programs fit at once


@pytest.fixture(scope="module")
def known():
    """What one process, without an interpreter, knows of the kernels."""
    from triton.backends.nvidia import compiler

    try:
        assert all(compiler.get_ptxas(capability).path for capability in CAPABILITIES)
    except RuntimeError as error:
        pytest.skip(f"Triton comes without ptxas here: {error}")
    return run(compile_everything, CAPABILITIES, interpret=False)


@with_triton
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_registers_do_not_spill_for_want_of_more(kernel, capability, known):
    compiled = {name: made for name, made in known.compiled[capability].items() if name.startswith(kernel)}
    assert len(compiled) == KERNELS[kernel]
    for name, made in compiled.items():
        assert f"sm_{capability}" in made.log
        (spilled,) = re.findall(r"(\d+) bytes spill stores", made.log)
        (registers,) = re.findall(r"Used (\d+) registers", made.log)
        assert int(spilled) <= SPILLED.get((capability, name), 0)
        assert int(spilled) == 0 or int(registers) == 128


@with_triton
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_products_are_made_by_tensor_cores_in_float64(capability, known):
    for name, made in known.compiled[capability].items():
        assert made.products == ({"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"} if "nearest" in name else set())


@with_triton
def test_torch_compile_sees_the_kernels_and_that_they_write_to_their_answers_alone(known):
    nearest, gather = known.launches
    assert (nearest.kernel, nearest.written) == ("nearest_kernel", ["distance", "column"])
    assert (nearest.grid, nearest.warps) == ((2, 3, 2), [fused_nearest.WARPS])  # 70 rows, 70 columns, 5 slots
    assert (gather.kernel, gather.written, gather.grid) == ("gather_kernel", ["out"], (70, 1, 1))


@with_triton
def test_torch_knows_which_kernels_its_caches_depend_on(known):
    assert known.kernels == [["nearest_kernel"], ["gather_kernel"]]


def ask_nearest():
    grid = GridRows(torch.ones(4, 3), normalize=True, finer=False)
    fused_nearest.fused_nearest(grid, grid, torch.arange(4), torch.arange(4), torch.zeros(4, 1, dtype=torch.float64))


def ask_gather():
    fused_gather.fused_gather(torch.ones(4, 3), torch.zeros(2, 2, dtype=torch.int64), torch.ones(2, 2))


@with_triton
@pytest.mark.parametrize("ask", [ask_nearest, ask_gather])
def test_rows_that_are_not_on_a_gpu_are_refused(ask):
    with pytest.raises(ValueError, match="rows are on cpu, and fused kernels run on a GPU"):
        ask()


def anew(module):
    """Return a module as it is where it is imported now, beside the one that is there."""
    spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    return fresh


@pytest.mark.parametrize("lacking", ["triton", "torch"])
def test_without_triton_files_import_and_operators_refuse(lacking, monkeypatch):
    if lacking == "triton":
        monkeypatch.setitem(sys.modules, "triton", None)
    else:
        old = mock.Mock(spec=["custom_op"])  # torch.library of torch 2.4
        monkeypatch.setattr(torch, "library", old)
    door = anew(triton_ops)
    monkeypatch.setitem(sys.modules, triton_ops.__name__, door)
    words = "needs Triton, which is not installed" if lacking == "triton" else "needs torch 2.6 or newer"
    grid = GridRows(torch.ones(4, 3), normalize=True, finer=False)
    labels, floors = torch.arange(4), torch.zeros(4, 1, dtype=torch.float64)
    with pytest.raises(ValueError, match=f"^fused_nearest {words}"):
        anew(fused_nearest).fused_nearest(grid, grid, labels, labels, floors)
    with pytest.raises(ValueError, match=f"^fused_gather {words}"):
        anew(fused_gather).fused_gather(torch.ones(4, 3), labels.view(2, 2), torch.ones(2, 2))
