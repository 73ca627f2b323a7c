"""What `make demo` says, from its record: a paragraph for the first page, and the table of losses and floors.

The record is made by `python -m tools.record_demo`. Memory: some kilobytes.
"""

import json
from pathlib import Path
from typing import Any

from shadowmetric.app.report.tables import Table, plain_table
from tools.pages.guide import over_seeds
from tools.pages.record_files import record_file


def read_demo(root: Path) -> dict[str, Any]:
    """Return the record of the demo."""
    return json.loads(record_file(root, "demo.json").read_text(encoding="utf-8"))


def demo_words(demo: dict[str, Any]) -> str:
    """Return what the demo says first, and how long it took."""
    seconds = demo.get("processor_seconds")
    minutes = f" takes {seconds / 60:.1f} minutes of a core, half as many on two, and" if seconds else ""
    return f"`make demo`{minutes} ends with a page that begins: *{demo['said']}*\n"


def demo_table(demo: dict[str, Any]) -> Table:
    """Return each loss, control and floor with the mean and the spread of its seeds."""
    rows = demo["rows"]
    kinds = {row["name"]: row["kind"] for row in rows}
    cells = [
        (name, *(over_seeds(rows, name, one) for one in ("recall_at_1", "map_at_r")), interval(demo, name))
        for name in kinds
    ]
    seeds = len({row["seed"] for row in rows})
    took = f", {demo['processor_seconds']} s of a core in all, the page included" if "processor_seconds" in demo else ""
    caption = (
        f"*measured*: `make demo`, which is `{demo['command']}` and `report`{took}; per cent, mean ± spread of {seeds} "
        "seeds, and the difference from Shadow in points with its 95 % interval over test images. Record: "
        "[demo.json](../benchmarks/records/demo.json)."
    )
    headings = ("glyphs", "Recall@1", "MAP@R", "Recall@1 − Shadow's (95 %)")
    return plain_table(caption, headings, cells, tuple(kinds.values()))


def interval(demo: dict[str, Any], name: str) -> str:
    """Return the interval of a difference, nothing for the reference."""
    ends = demo["differences"].get(name)
    return "" if ends is None else f"{ends[0]:+.1f} to {ends[1]:+.1f}".replace("-", "−")
