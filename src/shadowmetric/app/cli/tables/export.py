"""The parity report of an export as a table."""

from shadowmetric.app.cli.screen import new_table, say, screen, show
from shadowmetric.app.serving.exporting.export import Exported
from shadowmetric.app.serving.exporting.parity import TORCH, Measured

HEADINGS = (
    "model",
    "Recall@1",
    "points",
    "cosine error",
    "mean",
    "MB",
    "ms, 1 thread",
    "2 threads",
    "images/s",
    "resident MB",
)


def print_parity(exported: Exported) -> None:
    """Print what was measured, a line a model."""
    console = screen()
    title = f"Torch and what was exported, on {exported.images:,} test images of {exported.dataset}"
    table = new_table(title, *HEADINGS)
    table.columns[0].justify = "left"
    for one in exported.measured:
        table.add_row(*cells(one))
    show(console, table)
    for file in exported.files.values():
        say(console, f"{file}, {file.stat().st_size / 1e6:.2f} MB")
    say(console, f"{exported.folder / 'parity.json'} has the figures.")


def cells(one: Measured) -> list[str]:
    """Return a line of the table."""
    of_torch = one.model == TORCH
    return [
        one.model,
        f"{100 * one.recall_at_1:.2f} %",
        "" if of_torch else f"{100 * one.change:+.2f}",
        "" if of_torch else f"{one.largest_cosine_error:.1g}",
        "" if of_torch else f"{one.mean_cosine_error:.1g}",
        f"{one.bytes / 1e6:.2f}",
        f"{one.milliseconds['1']:.2f}",
        f"{one.milliseconds['2']:.2f}",
        f"{one.images_per_second:,.0f}",
        f"{one.resident_bytes / 1e6:.0f}",
    ]
