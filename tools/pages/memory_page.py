"""The figures of docs/memory.md: the formulas that its calculator evaluates, and its table of examples.

    python -m tools.pages.memory_page        (a part of `make docs`)

Both are what `loss.memory(dtype)` returns (`ops/memory.py`), so no formula is written twice. The coefficients of every
loss, miner, type and scratch go into docs/assets/memory-formulas.js. Equal ones are written once: a number that depends
on the scratch is a list, in the order of `SCRATCHES`. A test fails if a file differs from what the code says.
Nothing of the size of a batch is made: a second, and no memory.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shadowmetric.app.report.tables import Table, as_markdown
from shadowmetric.losses.catalogue import CONTROLS, LOSSES, build_loss
from shadowmetric.losses.mined import MINERS, MinedLoss
from shadowmetric.losses.proxies import ProxyLoss
from shadowmetric.ops.memory import AT_ONCE, PAIRS_OF_A_ROW, SMALL, UNITS, Bytes, Cost, Sizes
from shadowmetric.runtime.files import write_text

SCRATCHES = (8, 32, 128, 512)  # MiB
DTYPES = ("float16", "bfloat16", "float32", "float64")
EXAMPLES = (  # loss, miner
    ("shadow", "semi_hard"),
    ("shadow", "hard"),
    ("shadow", "batch_hard"),
    ("shadow", "all"),
    ("multi_similarity", None),
    ("lifted_structure", None),
    ("soft_triple", None),
)
SIZES = ((512, 128), (4096, 128), (4096, 2048), (65536, 128))  # rows, numbers in a row
PER_CLASS, CLASSES = 5, 100
BEGIN, END = "<!-- made by `make docs`: begin -->", "<!-- made by `make docs`: end -->"


def loss_of(name: str, miner: str | None = None, *, dim: int = 8, classes: int = 1, scratch_mb: int = 32) -> nn.Module:
    """Return a loss by the names that the calculator shows."""
    miner = miner or "semi_hard"
    return build_loss(name, margin=0.2, miner=miner, classes=classes, dim=dim, scratch_bytes=scratch_mb * 2**20)


def sizes_of(loss: nn.Module, rows: int, dim: int, per_class: int) -> Sizes:
    """Return the sizes of a batch of whole classes; the rows that remain are of one more class."""
    whole, rest = divmod(rows, per_class)
    positives = whole * per_class * (per_class - 1) + rest * (rest - 1)
    return Sizes(rows, dim, positives, centers=len(loss.centers) if isinstance(loss, ProxyLoss) else 0)


def formulas() -> dict[str, Any]:
    """Return every loss with its formulas, by miner (one named "-" if it mines nothing) and type."""
    losses = {}
    for name in (name for name in LOSSES if name not in CONTROLS):
        loss = loss_of(name)
        miners = tuple(MINERS) if isinstance(loss, MinedLoss) else (None,)
        losses[name] = {
            "title": type(loss).__name__,
            "centers": len(loss.centers) if isinstance(loss, ProxyLoss) else 0,  # of one class
            "miners": {miner or "-": {dtype: formula(name, miner, dtype) for dtype in DTYPES} for miner in miners},
        }
    widths = {dtype: getattr(torch, dtype).itemsize for dtype in DTYPES}
    return {
        "small": SMALL,
        "at_once": AT_ONCE,
        "pairs_of_a_row": PAIRS_OF_A_ROW,
        "units": UNITS,
        "scratches": SCRATCHES,
        "widths": widths,
        "losses": losses,
    }


def formula(name: str, miner: str | None, dtype: str) -> dict[str, Any]:
    """Return kept and phases of a loss for all scratches."""
    loss: Any
    costs: list[Cost] = []
    for scratch_mb in SCRATCHES:
        loss = loss_of(name, miner, scratch_mb=scratch_mb)
        costs.append(loss.memory(getattr(torch, dtype)))
    phases = zip(*(cost.phases for cost in costs), strict=True)
    return {"kept": join_terms([cost.kept for cost in costs]), "phases": [join_terms(phase) for phase in phases]}


def join_terms(parts: Any) -> dict[str, Any]:
    """Return one sum for several scratches, without its zeros."""
    fields = [asdict(part) for part in parts]
    columns = {str(field["columns"]) for field in fields}
    terms: dict[str, Any] = {"columns": columns.pop()} if fields[0]["thinnest"] else {}
    for name in (name for name in asdict(Bytes()) if name != "columns"):
        values = [field[name] for field in fields]
        if any(values):
            terms[name] = values[0] if len(set(values)) == 1 else values
    return terms


def script(tables: dict[str, Any]) -> str:
    """Return the file that the page loads: JSON in a name, since a page in a folder may not read files."""
    losses = ",\n".join(f"    {json.dumps(name)}: {json.dumps(loss)}" for name, loss in tables["losses"].items())
    head = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in tables.items() if name != "losses"
    )
    banner = "// Made by `make docs` from what loss.memory() returns; do not edit."
    return f'{banner}\nwindow.MEMORY_FORMULAS = {{\n{head},\n  "losses": {{\n{losses}\n  }}\n}};\n'


def example_rows() -> Iterator[tuple[str, ...]]:
    """Return what the examples keep and take at the peak in float32, with the default scratch; then the tensors."""
    for name, miner in EXAMPLES:
        cells = []
        for rows, dim in SIZES:
            loss: Any = loss_of(name, miner, dim=dim, classes=CLASSES)
            cost, sizes = loss.memory(), sizes_of(loss, rows, dim, PER_CLASS)
            cells.append(f"{format_bytes(cost.kept.at(sizes))}, {format_bytes(cost.peak(sizes))}")
        title = type(loss_of(name)).__name__
        yield f"`{title}`" + (f", {miner.replace('_', '-')}" if miner else ""), *cells
    yield "one S × S matrix", *(format_bytes(4 * rows**2) for rows, _ in SIZES)
    yield "one S × S × S mask, a byte each", *(format_bytes(rows**3) for rows, _ in SIZES)


def format_bytes(count: int) -> str:
    """Return bytes as people read them, three digits, in units of 1,000."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 99.95 else f"{size:.3g} {unit}"


def page(text: str) -> str:
    """Return docs/memory.md with its table between the marks."""
    rows = tuple(example_rows())
    headings = ("kept, peak", *(f"S = {rows:,}, D = {dim:,}" for rows, dim in SIZES))
    table = as_markdown(Table("", "", headings, rows, ("",) * len(rows)))
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/memory.md has no marks {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n{table}{END}{after}"


def files(root: Path) -> dict[Path, str]:
    """Return each file with what it should hold."""
    place = root / "docs" / "memory.md"
    return {
        root / "docs" / "assets" / "memory-formulas.js": script(formulas()),
        place: page(place.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for path, text in files(Path.cwd()).items():
        write_text(path, text)
        print(f"{path.name} written")
