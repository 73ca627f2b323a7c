"""`shadowmetric bench training`: images per second of `train` beside a bare torch loop."""


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
    from shadowmetric.bench.training_speed import WORKLOADS, training_speed
    from shadowmetric.cli.screen import new_table, screen, show
    from shadowmetric.mistakes import Mistake

    for name, value, least in (("--batch", batch, 2), ("--per-class", per_class, 2), ("--rounds", rounds, 1)):
        if value < least:
            raise Mistake(f"{name} is {value}; it must be {least} or more.")
    table = new_table("Images per second, training", "figure", "bare loop", "train", "ratio")
    table.columns[0].header = "backbone"
    for workload in WORKLOADS:
        found = training_speed(workload, batch=batch, per_class=per_class, rounds=rounds)
        name = f"{workload.backbone}, {workload.size} pixels, batch {batch}"
        table.add_row(name, f"{found.bare:,.0f}", f"{found.ours:,.0f}", f"{found.ratio:.3f}")
    show(screen(), table)
