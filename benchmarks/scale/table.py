"""The tables of `python -m benchmarks scale`: predicted beside measured, and what is computed for GPUs."""

from typing import Any

from rich.console import Console

from benchmarks.scale.costs import Machine, Network
from shadowmetric.app.cli.screen import new_table, say

SMALLEST = 0.01  # that a table shows


def print_measured(console: Console, results: dict[str, Any]) -> None:
    """Print what the model said of steps here beside what they took."""
    rows, machine, network = results["measured"], *results["calibrated"].values()
    first = rows[0]
    say(console, f"Measured here: {network.name}, S = {first['batch']:,}, D = {first['dim']}, one thread a rank.")
    busy = f"{machine.cores:.0f} core(s), each {machine.together:.2f} × as slow while another computes"
    say(console, f"This machine: {speeds(machine)}; {busy}.")
    times = new_table(
        "Seconds of a step: computed, then measured",
        *("ranks", "on the clock", "measured", "ratio", "of a core", "measured", "ratio"),
    )
    sizes = new_table(
        "Bytes of a rank in a step, in millions: computed, then measured",
        *("ranks", "above idle", "measured", "ratio", "received", "counted", "on loopback", "measured", "ratio"),
    )
    for row in rows:
        times.add_row(str(row["ranks"]), *beside(row, "seconds"), *beside(row, "core_seconds"))
        received = beside(row, "received_bytes", 1e6)[:2]
        extra, loopback = (beside(row, name, 1e6) for name in ("extra_bytes", "loopback_bytes"))
        sizes.add_row(str(row["ranks"]), *extra, *received, *loopback)
    for table in (times, sizes):
        console.print()
        console.print(table)
    console.print()


def beside(row: dict[str, Any], name: str, unit: float = 1.0) -> list[str]:
    """Return what was computed, what was measured, and the quotient of the two."""
    computed, measured = row[name] / unit, row[f"measured_{name}"]
    measured = None if measured is None else measured / unit
    ratio = f"{computed / measured:.2f}" if computed and measured else "–"
    return [digits(computed), "–" if measured is None else digits(measured), ratio]


def print_computed(console: Console, results: dict[str, Any]) -> None:
    """Print bytes, operations and traffic, then seconds, then where the gather overtakes."""
    machine, network = results["assumed"].values()
    say(console, "Computed, not measured: GPUs that are not here. Assumed:")
    say(
        console,
        f"  a GPU of {machine.memory / 1e9:,.0f} GB: {speeds(machine)}, blocks {machine.passes / 1e12:.2g} TB/s;",
    )
    say(console, f"  an embedder of {describe_embedder(network)}.")
    costs = new_table(
        "Bytes, operations (TF: 10^12) and traffic of a rank in a step",
        *("S", "D", "ranks", "rows", "held GB", "peak GB", "fits"),
        *("embedder TF", "loss TF", "received MB", "gather MB", "calls"),
    )
    times = new_table(
        "Milliseconds of a step, one part after another",
        *("S", "D", "ranks", "embedder", "loss", "gather", "weights", "small", "step", "gather %", "ring"),
    )
    for row in results["computed"]:
        where = [f"{row['batch']:,}", str(row["dim"]), f"{row['ranks']:,}"]
        peak = row["held_bytes"] + row["extra_bytes"]
        costs.add_row(
            *(*where, f"{row['rows']:,}", digits(row["held_bytes"] / 1e9), digits(peak / 1e9)),
            *("yes" if peak <= machine.memory else "no", digits(row["embedder_flops"] / 1e12)),
            *(digits(row["loss_flops"] / 1e12), digits(row["received_bytes"] / 1e6)),
            *(digits(row["gather_bytes"] / 1e6), str(row["collectives"])),
        )
        parts = [row[f"{name}_seconds"] for name in ("embedder", "loss", "gather", "weights", "small")]
        share = row["gather_seconds"] / row["seconds"]
        step, ring = digits(row["seconds"] * 1e3), digits(row["ring_seconds"] * 1e3)
        times.add_row(*where, *(digits(part * 1e3) for part in parts), step, f"{100 * share:.0f}", ring)
    points = new_table(
        "Ranks from which the gather takes longer than what a rank computes",
        *("S", "D", "than the loss", "than the embedder", "than both", "rows a rank (loss, no latency)"),
    )
    for point in results["crossings"]:
        ranks = [f"{point[name]:,.0f}" for name in ("loss", "embedder", "both")]
        points.add_row(f"{point['batch']:,}", str(point["dim"]), *ranks, f"{point['rows']:,.0f}")
    for table in (costs, times, points):
        console.print()
        console.print(table)


def speeds(machine: Machine) -> str:
    """Say how fast a machine is."""
    unit, size = ("TFLOP/s", 1e12) if machine.embedder > 1e12 else ("GFLOP/s", 1e9)
    return (
        f"embedder {machine.embedder / size:.3g} {unit}, product {machine.product / size:.3g} {unit}, "
        f"link {machine.link / 1e9:.3g} GB/s, {machine.latency * 1e6:.0f} µs a hop"
    )


def describe_embedder(network: Network) -> str:
    """Say what an embedder costs."""
    return (
        f"{network.flops / 1e9:.3g} GFLOP an image forward, {network.kept_bytes / 1e6:.3g} MB kept of it, "
        f"{network.weights / 1e6:.3g} million weights"
    )


def digits(value: float) -> str:
    """Return three digits of a figure of any size."""
    if 0 < value < SMALLEST:
        return f"<{SMALLEST}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
