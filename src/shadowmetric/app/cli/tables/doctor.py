"""What `shadowmetric doctor` found, as tables and sentences."""

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shadowmetric.app.cli.screen import fits, new_table, say, show
from shadowmetric.app.doctor.environment import Environment, Trouble
from shadowmetric.app.doctor.ranks.agreement import CONTROL, Certificate, Check
from shadowmetric.app.doctor.ranks.steps import MICRO_BATCH
from shadowmetric.app.doctor.ranks.subject import ROWS
from shadowmetric.batches.budget import format_bytes

FORMS = {"gathered": "gathered", "cached": f"gathered, {MICRO_BATCH} at a time", "apart": "not gathered (control)"}
TITLES = {"value": "value", "relative": "gradient", "absolute": "absolute", "collectives": "collectives"}
GIVE_WAY = ("absolute", "value", "collectives")  # columns that are left out where there is no room, the first first
STATES = {True: "equal", False: "DIFFERENT", None: "–"}


def print_environment(console: Console, here: Environment, troubles: list[Trouble]) -> None:
    """Print what is here, and what to do about what is wrong."""
    table = new_table("Environment", "figure")
    table.show_header = False
    table.add_column("", overflow="fold")
    for name, words in facts(here).items():
        table.add_row(Text(name), Text(words))
    show(console, table)
    for trouble in troubles:
        say(console, f"Warning: {trouble.what}; {trouble.remedy}.", "yellow")


def facts(here: Environment) -> dict[str, str]:
    """Return the facts in words."""
    limit = "" if here.memory_limit is None else f"; this container may use {format_size(here.memory_limit)}"
    memory = f"{format_size(here.memory)}, {format_size(here.memory_available)} of it available{limit}"
    entries = {
        "python": f"{here.python} on {here.system}",
        "packages": list_packages(here.packages),
        **{f"[{extra}]": list_packages(packages) for extra, packages in here.extras.items()},
        "processor": f"{here.processor}; {here.cores} core(s), {here.threads} thread(s)",
        "memory": f"{memory}; this process holds {format_size(here.held)}",
        "devices": devices(here),
        "ranks talk by": ", ".join(here.backends) or "nothing",
        "data root": f"{here.data_root} ({'there' if here.data_root_exists else 'not there: only glyphs and digits'})",
        "--memory-budget": "can be used" if here.can_measure_memory else "cannot predict here",
    }
    if here.shared_memory is not None:
        entries["shared memory"] = format_size(here.shared_memory)
    return entries


def list_packages(packages: dict[str, str | None]) -> str:
    """Return packages with their versions."""
    return ", ".join(f"{name} {version or '(not installed)'}" for name, version in packages.items())


def format_size(count: int | None) -> str:
    """Return bytes as people say them."""
    return "unknown" if count is None else format_bytes(float(count))


def devices(here: Environment) -> str:
    """Return what torch can compute on."""
    names = [f"{device.name}, {format_size(device.bytes)}" for device in here.devices]
    if here.mps:
        names.append("MPS")
    built = "" if here.cuda is None else f" (torch is built for CUDA {here.cuda})"
    return "; ".join(["CPU", *names]) + ("" if names else f", no GPU is seen{built}")


def print_certificate(console: Console, certificate: Certificate) -> None:
    """Print the checks, and how to read them."""
    columns, table = list(TITLES), certificate_table(certificate, list(TITLES))
    for name in GIVE_WAY:
        if not fits(console, table):
            columns.remove(name)
            table = certificate_table(certificate, columns)
    show(console, table)
    console.print()
    for sentence in sentences(certificate):
        say(console, sentence)
    for note in certificate.notes:
        say(console, f"Note {note}")


def certificate_table(certificate: Certificate, columns: list[str]) -> Table:
    """Return the checks with these columns."""
    title = f"Relative difference of {certificate.ranks} rank(s) from one process"
    has_state = any(check.same_state is not None for check in certificate.checks)
    headings = [TITLES[name] for name in columns] + ["memories"] * has_state + ["verdict"]
    table = new_table(title, "figure", "figure", *headings)
    table.columns[0].header, table.columns[1].header = "loss", "rows are"
    before = None
    for check in certificate.checks:
        name = Text("" if check.loss == before else short(check))
        table.add_row(name, FORMS[check.form], *cells(check, columns, has_state))
        before = check.loss
    return table


def cells(check: Check, columns: list[str], has_state: bool) -> list[str]:
    """Return the figures of a check."""
    figures = {
        "value": number(check.value_difference),
        "relative": number(check.relative),
        "absolute": number(check.absolute),
        "collectives": str(check.collectives),
    }
    verdict = check.verdict if check.is_ok else check.verdict.upper()
    return [figures[name] for name in columns] + [STATES[check.same_state]] * has_state + [verdict]


def short(check: Check) -> str:
    """Return the name of a loss; of a user's own, that of its factory."""
    return check.loss.rpartition(":")[2]


def number(value: float) -> str:
    """Return a difference by its size."""
    return "–" if math.isnan(value) else "0" if value == 0 else f"{value:.1e}"


def sentences(certificate: Certificate) -> list[str]:
    """Say how the table is to be read."""
    shares = ", ".join(map(str, certificate.shares))
    lines = [
        f"One process has all {ROWS} rows of a batch, the ranks have {shares}. "
        f"Up to {certificate.tolerance:.0e} is rounding (float64). Gradients are of all weights, those of the loss "
        "included; "
        "a difference is the largest of all ranks, as a share of the largest number of one process."
    ]
    if any(check.form == CONTROL for check in certificate.checks):
        lines.append(
            "The control is not judged: each rank compares its own rows alone, and DistributedDataParallel takes the "
            "mean. It shows what the check would find."
        )
    return lines
