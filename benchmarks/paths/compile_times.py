"""What torch.compile costs and gains: the first step, with compiling, and the best of later ones.

fullgraph=True: a step that the compiler cannot take as one graph is refused, and the reason is the row. Caches on disk
are left aside, so cold means cold.
"""

import time
import warnings
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import step
from benchmarks.paths.paths import Best, run_round
from benchmarks.run import Row
from shadowmetric.app.doctor.devices.contenders import Contender, Program
from shadowmetric.app.doctor.devices.figures import figures_or_reason
from shadowmetric.app.doctor.devices.loss_steps import Case

COMPILED = (("shadow", "semi_hard"), ("multi_similarity", ""))
COLUMNS = ("loss", "miner", "batch", "cold_seconds", "warm_us", "eager_us", "reason")


def measure_compile(case: Case, rounds: int) -> Row:
    """Return cold and warm times of a loss beside eager ones, or the reason why there are none."""
    figures = figures_or_reason(
        lambda: compile_figures(case.build(slots=True), *case.inputs(), rounds), "torch.compile"
    )
    return dict.fromkeys(COLUMNS) | {name: asdict(case)[name] for name in COLUMNS[:3]} | figures


def compile_figures(program: Program, embeddings: Tensor, labels: Tensor, rounds: int) -> dict[str, Any]:
    """Compile a program, and time its first step and the best of later ones."""
    embeddings.requires_grad_()
    torch.compiler.reset()
    without_caches = torch.compiler.config.patch(force_disable_caches=True)  # pyright: ignore
    with without_caches, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's, about its caches
        compiled = torch.compile(program, fullgraph=True)
        start = time.perf_counter()
        step(lambda: compiled(embeddings, labels), embeddings)
        cold = time.perf_counter() - start
    warm, eager = Best(), Best()
    for _ in range(rounds):
        run_round(Contender("compiled", compiled), embeddings, labels, warm)
        run_round(Contender("eager", program), embeddings, labels, eager)
    return {"cold_seconds": cold, "warm_us": warm.total * 1e6, "eager_us": eager.total * 1e6}
