"""`python -m benchmarks scale`: what a training step costs on many ranks, computed, and here also measured."""

import csv
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from cyclopts import Parameter

from benchmarks.settings import File, Flag, Sizes, open_csv
from shadowmetric.errors import Mistake

BATCHES = (1_000, 10_000, 100_000, 1_000_000)
RANKS = (1, 8, 64, 1024)
DIM, CROSSING_DIMS = 512, (64, 512, 4096)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScaleSettings:
    """Settings of `python -m benchmarks scale`."""

    paper: Flag = False
    """Only compute: measure nothing here."""
    batch: int = 1024
    """Measured: images of a logical batch, over all ranks."""
    dim: int = 64
    """Measured: numbers in an embedding."""
    micro_batch: int = 64
    """Measured: images embedded at once."""
    ranks: Sizes = (1, 2, 3)
    """Measured: processes, one or several numbers. Default: 1 2 3."""
    repeats: int = 7
    """Measured: steps, of which the fastest counts."""
    per_class: int = 4
    """Images of a class in a batch."""
    paper_batch: Sizes = BATCHES
    """Computed: images of a logical batch. Default: 1000 10000 100000 1000000."""
    paper_ranks: Sizes = RANKS
    """Computed: GPUs. Default: 1 8 64 1024."""
    paper_dim: Sizes = ()
    """Computed: numbers in an embedding. Default: 512, and where the gather overtakes 64 512 4096."""
    paper_micro_batch: int = 64
    """Computed: images embedded at once on a GPU."""
    loss: str = "mined"
    """Computed: mined, or rows for a loss of whole similarity rows."""
    image_gflop: float = 8.18
    """Computed: 10^9 operations of the embedder for an image, forward. Default: ResNet-50 at 224 pixels."""
    image_mb: float = 43.0
    """Computed: 10^6 bytes that autograd keeps of an image. Default: ResNet-50, half of what float32 keeps."""
    weights_millions: float = 24.6
    """Computed: 10^6 weights. Default: ResNet-50 with a head of 512."""
    embedder_tflops: float = 300.0
    """Computed: 10^12 operations a second of the embedder, in bfloat16."""
    product_tflops: float = 60.0
    """Computed: 10^12 operations a second of the loss's product, which is in float32."""
    memory_tb: float = 3.0
    """Computed: 10^12 bytes a second of a GPU's own memory."""
    memory_gb: float = 80.0
    """Computed: 10^9 bytes of memory of a GPU."""
    link_gbit: float = 400.0
    """Computed: 10^9 bits that a GPU receives in a second."""
    latency_us: float = 5.0
    """Computed: 10^-6 seconds from a GPU to the next."""
    json: Flag = False
    """Print everything as JSON instead of tables."""
    out: File = None
    """CSV file to write."""


def scale(*, settings: ScaleSettings | None = None) -> None:
    """Compute bytes, operations, traffic and seconds of a training step on many ranks; compare with steps run here.

    First 1, 2 and 3 processes train small_cnn here, and what the model says of them stands beside what they took:
    the model knows this machine from parts (an embedder's pass, a loss, a gather) that are timed by themselves.
    Then the same model is asked about GPUs that are not here; their speeds are assumptions and can be set.
    """
    from shadowmetric.app.cli.screen import say, screen

    settings = settings or ScaleSettings()
    check(settings)
    with nullcontext() if settings.out is None else open_csv(settings.out) as file:
        results = ({} if settings.paper else measure_this_machine(settings)) | predict_rows(settings)
        show(results, settings)
        if file is not None:
            write_rows(file, [*results.get("measured", []), *results["computed"]])
    if settings.out is not None and not settings.json:
        say(screen(), f"The CSV is {settings.out.resolve()}")


def predict_rows(settings: ScaleSettings) -> dict[str, Any]:
    """Return rows and crossings of the assumed GPUs."""
    from benchmarks.scale.costs import Step, crossings, row, rows_where_overtaken

    machine, network = assume_machine(settings)

    def step(batch: int, dim: int, ranks: int = 1) -> Step:
        return Step(batch, dim, ranks, settings.paper_micro_batch, settings.per_class, settings.loss)

    rows = [
        row(machine, network, step(batch, dim, ranks))
        for dim in settings.paper_dim or (DIM,)
        for batch in settings.paper_batch
        for ranks in settings.paper_ranks
        if ranks <= batch
    ]
    points = [
        {"batch": batch, "dim": dim, "rows": rows_where_overtaken(machine, step(batch, dim))}
        | crossings(machine, network, step(batch, dim))._asdict()
        for dim in settings.paper_dim or CROSSING_DIMS
        for batch in settings.paper_batch
    ]
    return {"computed": rows, "crossings": points, "assumed": {"machine": machine, "network": network}}


def check(settings: ScaleSettings) -> None:
    """Refuse settings that make no sense."""
    from benchmarks.losses.plan import check_sizes
    from benchmarks.scale.costs import KINDS
    from shadowmetric.checks import check_choice

    try:
        for name in ("batch", "dim", "micro_batch", "repeats", "per_class", "paper_micro_batch"):
            least = 2 if name in ("batch", "per_class", "micro_batch") else 1
            check_sizes(option(name), [getattr(settings, name)], least)
        for name in ("ranks", "paper_batch", "paper_ranks", "paper_dim"):
            check_sizes(option(name), getattr(settings, name))
        check_choice(settings.loss, KINDS, "--loss")
    except ValueError as error:
        raise Mistake(str(error)) from None
    for name in ("image_gflop", "image_mb", "weights_millions", "embedder_tflops", "product_tflops", "memory_tb"):
        above_zero(name, getattr(settings, name))
    for name in ("memory_gb", "link_gbit"):
        above_zero(name, getattr(settings, name))
    if settings.latency_us < 0:
        raise Mistake(f"--latency-us is {settings.latency_us:g}; it must be 0 or more.")
    if max(settings.ranks, default=1) > settings.batch:
        raise Mistake(f"--ranks is {max(settings.ranks)} and --batch {settings.batch}; give each rank an image.")


def above_zero(name: str, value: float) -> None:
    """Refuse a speed or size that is nothing."""
    if not value > 0:
        raise Mistake(f"{option(name)} is {value:g}; it must be above 0.")


def option(name: str) -> str:
    """Return how a setting is written on the command line."""
    return "--" + name.replace("_", "-")


def assume_machine(settings: ScaleSettings):
    """Return the GPU and the embedder that the settings describe."""
    from benchmarks.scale.costs import Machine, Network

    machine = Machine(
        "assumed GPU",
        embedder=settings.embedder_tflops * 1e12,
        product=settings.product_tflops * 1e12,
        link=settings.link_gbit * 1e9 / 8,
        latency=settings.latency_us * 1e-6,
        memory=settings.memory_gb * 1e9,
        passes=settings.memory_tb * 1e12,
    )
    weights = round(settings.weights_millions * 1e6)
    return machine, Network(
        "assumed embedder", settings.image_gflop * 1e9, settings.image_mb * 1e6, weights, 3.0 * 224**2
    )


def measure_this_machine(settings: ScaleSettings) -> dict[str, Any]:
    """Return predicted and measured rows of this machine, and what it was found to be like."""
    from benchmarks.scale.costs import row
    from benchmarks.scale.ranks import Trial, calibrate, measure_ranks
    from benchmarks.training.speed import Measuring

    trial = Trial(
        settings.batch, settings.dim, settings.micro_batch, settings.per_class, settings.repeats, settings.ranks
    )
    screen = Measuring()
    try:
        screen.begin("starting processes")
        measurements = measure_ranks(trial, screen.begin)
    finally:
        screen.close()
    machine, network = calibrate(measurements, trial)
    names = ("seconds", "core_seconds", "extra_bytes", "received_bytes", "loopback_bytes", "collectives")
    rows = []
    for ranks in sorted(set(settings.ranks)):
        of_ranks = {name: [rank[name] for rank in measurements[ranks] if rank.get(name) is not None] for name in names}
        worst = {f"measured_{name}": max(values) if values else None for name, values in of_ranks.items()}
        rows.append(row(machine, network, trial.step(ranks)) | worst)
    return {"measured": rows, "calibrated": {"machine": machine, "network": network}}


def show(results: dict[str, Any], settings: ScaleSettings) -> None:
    """Print tables or JSON."""
    from benchmarks.run import place
    from benchmarks.scale.table import print_computed, print_measured
    from shadowmetric.app.cli.data import print_json
    from shadowmetric.app.cli.screen import screen

    if settings.json:
        things = {name: results[name] for name in ("calibrated", "assumed") if name in results}
        plain = {name: {part: asdict(thing) for part, thing in parts.items()} for name, parts in things.items()}
        print_json(finite(results | plain | {"place": place()}))
        return
    if "measured" in results:
        print_measured(screen(), results)
    print_computed(screen(), results)


def write_rows(file: TextIO, rows: list[dict[str, Any]]) -> None:
    """Write measured and computed rows as a CSV."""
    from benchmarks.run import place

    here = place()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(file, [*columns, *here])
    writer.writeheader()
    writer.writerows(row | here for row in rows)


def finite(value: Any) -> Any:
    """Return the same with null for what is infinite: JSON has no word for it."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and value == float("inf") else value
