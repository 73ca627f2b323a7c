"""`python -m benchmarks training`: images per second of `train` beside a bare torch loop.

A row is printed as soon as it is measured. Widths are fixed, so that the rows stand under one heading.
"""

FIGURE_WIDTH = 9  # characters


def training(*, batch: int = 32, per_class: int = 4, rounds: int = 7) -> None:
    """Measure how much of a bare torch loop's speed `train` keeps: small_cnn at 28 pixels, resnet18 at 64.

    Parameters
    ----------
    batch
        Images in a batch.
    per_class
        Images of a class in a batch.
    rounds
        How often both are measured in turn; medians are shown.
    """
    from benchmarks.training.speed import WORKLOADS, training_speed
    from shadowmetric.app.cli.screen import screen
    from shadowmetric.errors import Mistake

    for name, value, least in (("--batch", batch, 2), ("--per-class", per_class, 2), ("--rounds", rounds, 1)):
        if value < least:
            raise Mistake(f"{name} is {value}; it must be {least} or more.")
    console = screen()
    names = [f"{workload.backbone}, {workload.size} pixels, batch {batch}" for workload in WORKLOADS]
    width = max(map(len, names))
    for name, workload in zip(names, WORKLOADS, strict=True):
        speed = training_speed(workload, batch=batch, per_class=per_class, rounds=rounds)
        table = row_table(width, heading=workload is WORKLOADS[0])
        table.add_row(name, f"{speed.bare:,.0f}", f"{speed.ours:,.0f}", f"{speed.ratio:.3f}")
        console.print(table)


def row_table(width: int, *, heading: bool):
    """Return a table for one row, with the heading of them all or without; width: of the backbone's column."""
    from shadowmetric.app.cli.screen import new_table

    title = "Images per second, training" if heading else None
    table = new_table(title, "figure", "bare loop", "train", "ratio")
    table.show_header = heading
    table.columns[0].header = "backbone"
    for column, least in zip(table.columns, (width, *[FIGURE_WIDTH] * 3), strict=True):
        column.min_width = least
    return table
