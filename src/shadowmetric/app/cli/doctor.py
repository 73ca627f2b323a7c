"""`shadowmetric doctor`: what is here, whether a device computes as the CPU does, and N ranks train as one process."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.app.cli.config import CONFIG_HELP
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.losses.catalogue import CONTROLS, LOSSES

EXAMPLES = f"""\
{CONFIG_HELP}

Examples:

    shadowmetric doctor
    shadowmetric doctor --loss shadow soft_triple --ranks 3
    shadowmetric doctor --loss mypackage.losses:make_loss
    shadowmetric doctor --all-losses --cross-batch-memory 30
    shadowmetric doctor --quick
    shadowmetric doctor --quick --certificate doctor-device.md
"""
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
File = Annotated[Path | None, Parameter(show_default=False)]
Quick = Annotated[bool, Parameter(name=("--quick", "--no-ranks"), negative="", show_default=False)]


app = App(name="doctor", usage="Usage: shadowmetric doctor [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def doctor(
    *,
    loss: Names = (),
    all_losses: Flag = False,
    margin: float = 0.2,
    miner: str = "semi_hard",
    cross_batch_memory: int = 0,
    dim: int = 8,
    ranks: int = 2,
    quick: Quick = False,
    certificate: File = None,
    json: Flag = False,
) -> None:
    """Say what is installed here, compare a GPU with the CPU, and one process with several ranks.

    Every loss and miner runs on the accelerator that is here, beside the CPU: equal triplets, the same values and
    gradients, how often the host waits, how long a step takes. Without one they run on a pretended accelerator, which
    counts kernels and waits and has no times. Then a small fixed batch in float64 goes through the loss on one process,
    and in uneven shares through as many processes as --ranks; the weights must get the same gradient. Exit code 1 if
    something differs.

    Parameters
    ----------
    loss
        Names as in `train`, or your own as module:factory, importable from this folder: factory() gives an nn.Module
        that is called with (embeddings, labels). Default: shadow.
    all_losses
        Every loss that has a name.
    margin
        Of losses of triplets.
    miner
        Of losses of triplets: hard semi_hard batch_hard all.
    cross_batch_memory
        Rows of the earlier batch that anchors are compared with too; 0 for none.
    dim
        Embedding dimension. The labels are 0 to 5.
    ranks
        Processes, from 1 to 8.
    quick
        Say what is installed, and start no process; losses run on a device only if --certificate asks for it.
    certificate
        File to write what was found on the device to, for others to read: .json, or .md for a page.
    json
        Print JSON instead of tables.
    """
    from shadowmetric.app.doctor.devices.certificate import certify_device
    from shadowmetric.app.doctor.devices.certificate_file import check_file, write_certificate
    from shadowmetric.app.doctor.environment import environment
    from shadowmetric.app.doctor.ranks import agreement as ranks_doctor
    from shadowmetric.app.doctor.ranks.subject import Subject
    from shadowmetric.progress import Bar

    for option, value in (("--cross-batch-memory", cross_batch_memory), ("--dim", dim - 1)):
        if value < 0:
            least = 1 if option == "--dim" else 0
            raise Mistake(f"{option} is {value + least}; it must be {least} or more.")
    if certificate is not None:
        check_file(certificate)
    named = (*loss, *(name for name in LOSSES if all_losses and name not in CONTROLS)) or ("shadow",)
    subjects = [Subject(name, margin, miner, cross_batch_memory, dim) for name in dict.fromkeys(map(spelt, named))]
    here = environment()
    rank_checks = device = None
    if not quick:
        with Bar(patience=0.0) as bar:
            rank_checks = ranks_doctor.certificate(subjects, ranks, report=bar)
    if not quick or certificate is not None:
        with Bar(patience=0.0) as bar:
            device = certify_device(report=bar)
    show(here, device, rank_checks, ranks, json)
    if certificate is not None and device is not None:
        write_certificate(certificate, here, device, None if rank_checks is None else rank_checks.as_dict())
        print(f"The certificate is {certificate.resolve()}", file=sys.stderr if json else sys.stdout)
    if rank_checks is not None and not rank_checks.is_ok:
        raise Stopped(sentence([check.loss for check in rank_checks.checks if not check.is_ok], ranks))
    if device is not None and not device.is_ok:
        raise Stopped(device_sentence(device))


def spelt(name: str) -> str:
    """Return a name as the catalogue spells it, and a user's own as it is."""
    return name if ":" in name else name.replace("-", "_")


def sentence(losses: list[str], ranks: int) -> str:
    """Say which losses failed."""
    names = ", ".join(dict.fromkeys(losses))
    return (
        f"{ranks} rank(s) do not give {names} the gradient of one process; train it on one, or see "
        "help(shadowmetric.GatheredLoss) for what a loss must keep to."
    )


def device_sentence(device) -> str:
    """Say what is not on the device as it is on the CPU."""
    names = ", ".join(dict.fromkeys(f"{check.kind} {check.name}" for check in device.checks if not check.is_ok))
    return (
        f"on {device.name} ({device.device}) not everything is as on the CPU: {names}; post the file of --certificate "
        "in an issue, and compute these on the CPU."
    )


def show(here, device, rank_checks, ranks: int, as_json: bool) -> None:
    """Print everything."""
    from json import dumps

    from shadowmetric.app.cli.screen import screen
    from shadowmetric.app.cli.tables.doctor import print_certificate, print_environment
    from shadowmetric.app.cli.tables.doctor_device import print_device
    from shadowmetric.runtime.files import without_nan

    console = screen()
    if not as_json:
        print_environment(console, here, here.troubles(1 if rank_checks is None else ranks))
        if device is not None:
            print_device(console, device)
        if rank_checks is not None:
            print_certificate(console, rank_checks)
        return
    everything = {
        "environment": here.as_dict(),
        "warnings": [trouble._asdict() for trouble in here.troubles(1 if rank_checks is None else ranks)],
        "certificate": None if rank_checks is None else rank_checks.as_dict(),
        "device": None if device is None else device.as_dict(),
        "ok": all(one is None or one.is_ok for one in (rank_checks, device)),
    }
    console.out(dumps(without_nan(everything), indent=2), highlight=False)
