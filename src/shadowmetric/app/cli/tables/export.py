"""The parity report of an export as a table."""

from shadowmetric.app.cli.screen import new_table, say, screen, show
from shadowmetric.app.serving.exporting.export import Exported
from shadowmetric.app.serving.exporting.parity import TORCH, Measured
from shadowmetric.runtime.counting import count

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
    title = f"Torch and what was exported, on {count(exported.images, 'test image')} of {exported.dataset}"
    table = new_table(title, *HEADINGS)
    table.columns[0].justify = "left"
    for one in exported.measured:
        table.add_row(*cells(one))
    show(console, table)
    if sentence := about_images(exported):
        say(console, sentence)
    for file in exported.files.values():
        say(console, f"{file}, {file.stat().st_size / 1e6:.2f} MB")
    say(console, f"{exported.folder / 'parity.json'} has the figures.")


def about_images(exported: Exported) -> str:
    """Return why torch has another Recall@1 here than the run; nothing if it has the same."""
    before, now = exported.run_recall_at_1, exported.of(TORCH).recall_at_1
    if before is None or f"{100 * before:.2f}" == f"{100 * now:.2f}":
        return ""
    if exported.images < exported.test_images:
        some = f"these are {exported.images:,} of {count(exported.test_images, 'test image')}; --images says how many"
        return f"The run's Recall@1 is {100 * before:.2f} %, on all test images: {some}."
    return (
        f"The run's Recall@1 is {100 * before:.2f} %, on the same images resized as in training; these are resized as "
        "in search, by pillow."
    )


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
