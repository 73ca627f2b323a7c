"""What `shadowmetric doctor` says of a device: a row for each loss and miner, and sentences."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shadowmetric.app.cli.screen import new_table, say, show
from shadowmetric.app.doctor.devices.certificate import DeviceCertificate
from shadowmetric.app.doctor.devices.certificate_file import cells, summary

COLUMNS = ("S", "verdict", "value", "gradient", "waits", "kernels")


def print_device(console: Console, device: DeviceCertificate) -> None:
    """Print the checks, and where they were made."""
    show(console, device_table(device))
    console.print()
    for sentence in summary(device):
        say(console, sentence)
    for check in device.checks:
        if not check.is_ok:
            reason = f" ({check.reason})" if check.reason else ""
            say(
                console, f"Warning: {check.kind} {check.name} at {check.batch} rows: {check.verdict}{reason}.", "yellow"
            )


def device_table(device: DeviceCertificate) -> Table:
    """Return the checks as a table, with times if an accelerator was there."""
    columns = (*COLUMNS, "µs") if device.has_accelerator else COLUMNS
    table = new_table(f"Losses and miners on {device.name}, beside the CPU", "figure", *columns)
    table.columns[0].header = "loss or miner"
    for check in device.checks:
        name, batch, _, *figures = cells(check)
        verdict = check.verdict if check.is_ok else check.verdict.upper()
        table.add_row(Text(name), batch, verdict, *figures[: len(columns) - 2])
    return table
