"""The file that a user can post: what was checked on which device with which libraries, as JSON or as Markdown.

It names no host, user or folder. A time stands in it only if an accelerator was there and the step ran on it.
"""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shadowmetric.app.doctor.devices.certificate import (
    GRADIENT_TOLERANCE,
    VALUE_TOLERANCE,
    DeviceCertificate,
    DeviceCheck,
)
from shadowmetric.app.doctor.environment import Environment
from shadowmetric.app.training.runs.origin import commit
from shadowmetric.errors import Mistake
from shadowmetric.runtime.files import write_json, write_text

HEADINGS = ("", "S", "verdict", "value", "gradient", "waits", "kernels", "µs")


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is measured."""
    if path.suffix not in WRITERS:
        raise Mistake(f"--certificate is {str(path)!r}; name a file that ends in {' or '.join(WRITERS)}.")
    if not path.absolute().parent.is_dir():
        raise Mistake(f"--certificate is {str(path)!r}; the folder {str(path.parent)!r} is not there: make it first.")


def write_certificate(path: Path, here: Environment, device: DeviceCertificate, ranks: dict[str, Any] | None) -> None:
    """Write everything; ranks: the certificate of ranks, if it was made."""
    WRITERS[path.suffix](path, record(here, device, ranks), device)


def record(here: Environment, device: DeviceCertificate, ranks: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts in plain Python."""
    facts = {name: getattr(here, name) for name in ("python", "system", "packages", "processor", "cuda")}
    return {
        "summary": summary(device),
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "commit": commit(),
        **facts,
        "device": device.as_dict(),
        "ranks": ranks,
    }


def summary(device: DeviceCertificate) -> list[str]:
    """Return in sentences what was checked and where."""
    good = sum(check.is_ok for check in device.checks)
    to_the_bit = sum(check.verdict == "equal" for check in device.checks)
    counted = f"{good} of {len(device.checks)} checks give what the CPU gives, {to_the_bit} of them to the bit."
    tolerance = (
        f"Triplets must be equal; values may differ by {VALUE_TOLERANCE:.0e}, gradients by {GRADIENT_TOLERANCE:.0e}."
    )
    if not device.has_accelerator:
        return [
            "No accelerator was there: kernels and host waits were counted on a pretended device that computes on the "
            "CPU, and nothing was timed on an accelerator.",
            counted,
            tolerance,
        ]
    waits = "" if device.device == "cuda" else f" Torch does not report host waits on {device.device}."
    return [f"Losses and miners ran on {device.name} ({device.device}).{waits}", counted, tolerance]


def as_markdown(facts: dict[str, Any], device: DeviceCertificate) -> str:
    """Return the certificate as a page."""
    packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items() if version)
    lines = [f"# shadowmetric on {device.name}", "", *(f"{sentence}\n" for sentence in facts["summary"])]
    lines += [f"{packages}; Python {facts['python']} on {facts['system']}; {facts['processor']}; {facts['date']}", ""]
    lines += [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    lines += [f"| {' | '.join(cells(check))} |" for check in device.checks]
    return "\n".join(lines) + "\n"


def cells(check: DeviceCheck) -> list[str]:
    """Return a check as words: differences by their size, times of ours and of others."""
    differences = [
        "–" if value is None else "0" if value == 0 else f"{value:.0e}" for value in (check.value, check.gradient)
    ]
    counts = ["–" if count is None else f"{count:,}" for count in (check.waits, check.kernels)]
    verdict = f"{check.verdict}: {check.reason}" if check.reason else check.verdict
    return [f"{check.kind} {check.name}", f"{check.batch:,}", verdict, *differences, *counts, times(check)]


def difference(value: float | None) -> str:
    """Return a difference by its size."""
    return "–" if value is None else "0" if value == 0 else f"{value:.0e}"


def times(check: DeviceCheck) -> str:
    """Return the microseconds that were measured on an accelerator, by contender; a dash for none."""
    measured = {name: value for name, value in (check.times_us or {}).items() if isinstance(value, float)}
    return ", ".join(f"{name} {value:,.0f}" for name, value in measured.items()) or "–"


WRITERS: dict[str, Callable[[Path, dict[str, Any], DeviceCertificate], None]] = {
    ".json": lambda path, facts, device: write_json(path, facts),
    ".md": lambda path, facts, device: write_text(path, as_markdown(facts, device)),
}
