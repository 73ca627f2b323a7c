"""Triton kernels without a GPU: run by Triton's interpreter, compiled for GPUs, and traced by torch.compile.

Triton reads TRITON_INTERPRET when a kernel is defined, so each of these is done in a process of its own, for many
inputs at once: starting one takes longest.
"""

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.multiprocessing as processes
from torch import Tensor

from shadowmetric.ops import fused_gather, fused_nearest
from shadowmetric.ops.grid_rows import GridRows

INPUTS = {  # of the kernels, beside their constants
    "nearest": "rows others *fp64 *fp64 *i64 *i64 *fp64 *fp64 *i64 i32 i32 i32 i32",
    "gather": "rows *i64 *fp32 *i64 rows i32 i32",
}


def run(work: Callable[..., Any], *given: Any, interpret: bool) -> Any:
    """Return what work(*given) returns in a new process; work must be importable, and return what torch.save can."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {"TRITON_INTERPRET": str(int(interpret)), "TRITON_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
        with mock.patch.dict(os.environ, asked):
            processes.spawn(_begin, (folder, work, given), nprocs=1)
        return torch.load(Path(folder) / "answer.pt", weights_only=False)


def _begin(_: int, folder: str, work: Callable[..., Any], given: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    torch.save(work(*given), Path(folder) / "answer.pt")


class Asked(NamedTuple):
    """What `fused_nearest` is asked; references None compares the rows with themselves."""

    embeddings: Tensor
    labels: Tensor
    references: Tensor | None
    reference_labels: Tensor | None
    floors: Tensor

    def grids(self) -> tuple[GridRows, GridRows]:
        """Return both sides on the grid."""
        left = GridRows(self.embeddings, normalize=True, finer=False)
        return left, left if self.references is None else GridRows(self.references, normalize=True, finer=False)

    @property
    def other_labels(self) -> Tensor:
        """Return the labels of the side that is searched."""
        return self.labels if self.reference_labels is None else self.reference_labels


def answer_nearest(questions: list[Asked], programs: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Return the answer to each question, by so many programs at most as the columns are shared out among."""
    answers = []
    for asked, fused_nearest.PROGRAMS in zip(questions, programs, strict=True):
        near = fused_nearest.fused_nearest(*asked.grids(), asked.labels, asked.other_labels, asked.floors)
        answers.append(tuple(near))
    return answers


def answer_gather(questions: dict[str, tuple[Tensor, ...]]) -> dict[str, Tensor]:
    """Return the sums of each question: (rows, index, weight) or (rows, chosen, weight, begins)."""
    gathers = {3: fused_gather.fused_gather, 4: fused_gather.fused_gather_sorted}
    return {name: gathers[len(question)](*question) for name, question in questions.items()}


def step(embeddings: Tensor, labels: Tensor, floors: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Use both operators, as a mined loss does."""
    grid = GridRows(embeddings, normalize=True, finer=False)
    near = fused_nearest.fused_nearest(grid, grid, labels, labels, floors)
    return near.distance, near.rank, fused_gather.fused_gather(embeddings, near.rank, weight)


def inputs_of_step(device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what a step takes."""
    embeddings, floors = torch.randn(70, 33, device=device), torch.full((70, 5), -1.0, device=device).double()
    return embeddings, torch.arange(70, device=device) % 7, floors, torch.rand(70, 5, device=device)


def answer_gather_and_step(
    questions: dict[str, tuple[Tensor, ...]],
) -> tuple[dict[str, Tensor], tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    """Return the sums of each question, and a step both ways."""
    return answer_gather(questions), run_compiled_step()


def run_compiled_step() -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a step as it is, and compiled as one graph."""
    given = inputs_of_step("cpu")
    return step(*given), torch.compile(step, fullgraph=True, backend="eager")(*given)


class Compiled(NamedTuple):
    """A kernel compiled for a GPU: the products of its PTX, and what ptxas said of registers."""

    products: set[str]
    log: str


def compile_kernels(capability: int) -> dict[str, Compiled]:
    """Compile the kernels for a GPU that need not be there."""
    from triton import knobs

    knobs.nvidia.dump_ptxas_log = True
    constants = {"ROWS": fused_nearest.ROWS, "COLUMNS": fused_nearest.COLUMNS, "DEPTH": fused_nearest.DEPTH}
    options = {"num_warps": fused_nearest.WARPS, "num_stages": fused_nearest.STAGES}
    compiled = {}
    most = fused_nearest.SLOTS_AT_ONCE
    for dim, slots in ((33, most), (128, most), (128, 1), (130, most), (130, 1)):
        given = {"D": dim, "SLOTS": slots, **constants}
        made = _compile(fused_nearest.nearest_kernel, "fp32", given, capability, options, aligned=dim != 33)
        compiled[f"nearest D={dim} SLOTS={slots}"] = made
    for kind in ("fp32", "fp64", "bf16"):
        given = {"WIDTH": fused_gather.STRETCH}
        compiled[f"gather {kind}"] = _compile(fused_gather.gather_kernel, kind, given, capability, {}, aligned=True)
    return compiled


def _compile(
    kernel: Any, kind: str, given: dict[str, int], capability: int, options: dict[str, int], *, aligned: bool
) -> Compiled:
    """Compile one kernel. aligned: pointers are multiples of 16, as those of whole tensors are."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    inputs = INPUTS[kernel.__name__.removesuffix("_kernel")].replace("rows", f"*{kind}").replace("others", f"*{kind}")
    types = [*inputs.split(), *["constexpr"] * len(given)]
    attributes = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(types) if aligned and name[0] == "*"}
    source = ASTSource(kernel, dict(zip(kernel.arg_names, types, strict=True)), given, attributes)
    with contextlib.redirect_stdout(io.StringIO()) as log:
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return Compiled(set(re.findall(r"mma\.\S+", made.asm["ptx"])), log.getvalue())


class Launch(NamedTuple):
    """A kernel in a graph: its name, its grid, its warps if they were asked for, and the arguments it writes to."""

    kernel: str
    grid: tuple[int, ...]
    warps: list[int]
    written: list[str]


def trace_step() -> list[Launch]:
    """Return the kernels in the one graph that torch.compile makes of a step, for a GPU that need not be there."""
    import triton
    from torch._dynamo.backends.common import aot_autograd
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_functional
    from torch._subclasses import FakeTensorMode
    from triton.backends.compiler import GPUTarget

    launches = []

    def collect(graph: torch.fx.GraphModule, _: list) -> torch.fx.GraphModule:
        for node in graph.graph.nodes:
            if node.target is triton_kernel_wrapper_functional:
                kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
                warps = [config.num_warps for config in getattr(kernel, "configs", ())]
                written = list(node.kwargs["tensors_to_clone"])
                launches.append(Launch(kernel.fn.__name__, tuple(node.kwargs["grid"][0]), warps, written))
        return graph

    driver = mock.Mock(get_current_target=lambda: GPUTarget("cuda", 80, 32))
    triton.runtime.driver.set_active(driver)
    with FakeTensorMode():
        torch.compile(step, fullgraph=True, backend=aot_autograd(fw_compiler=collect))(*inputs_of_step("cuda"))
    return launches


def kernels_that_torch_finds() -> list[list[str]]:
    """Return the kernels of each operator that torch.compile knows of, and so heeds changes of."""
    from torch._library.triton import get_triton_kernels_for_op

    names = ("shadowmetric::fused_nearest", "shadowmetric::fused_gather")
    return [[kernel.__name__ for kernel in get_triton_kernels_for_op(name)] for name in names]


class Known(NamedTuple):
    """What compilers make of the kernels."""

    compiled: dict[int, dict[str, Compiled]]
    launches: list[Launch]
    kernels: list[list[str]]


def compile_everything(capabilities: list[int]) -> Known:
    """Return all that can be known without a GPU."""
    compiled = {capability: compile_kernels(capability) for capability in capabilities}
    return Known(compiled, trace_step(), kernels_that_torch_finds())
