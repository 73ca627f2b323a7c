"""`shadowmetric verify`: do two images show the same?"""

import json as as_json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from shadowmetric.app.cli import one_line
from shadowmetric.errors import Mistake

if TYPE_CHECKING:
    from shadowmetric.app.serving.verification.verifying import Verified

EXAMPLES = """\
Examples:

    shadowmetric verify runs/birds first.jpg second.jpg
    shadowmetric verify runs/birds first.jpg second.jpg --rate 0.001 --json
"""
Some = Annotated[Path | None, Parameter(show_default=False)]


app = App(name="verify", usage="Usage: shadowmetric verify RUN IMAGE IMAGE [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def verify(
    run: Some = None,
    first: Some = None,
    second: Some = None,
    /,
    *,
    rate: float = 0.01,
    data_root: Some = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Say whether two images show the same, and how sure that is.

    The threshold is measured on the run's test images, once, and kept in its folder if that can be written to.

    Parameters
    ----------
    run
        The folder of a run.
    first
        An image.
    second
        Another.
    rate
        False accepts: the share of pairs of two classes that may be taken for one.
    data_root
        Where the run's dataset lies, if it has moved; needed once.
    json
        Print JSON.
    """
    from shadowmetric.app import serving
    from shadowmetric.app.cli.screen import say, screen
    from shadowmetric.progress import Bar

    if run is None or first is None or second is None:
        raise Mistake("give a run and two images: `shadowmetric verify RUN IMAGE IMAGE`.")
    notes: list[str] = []
    with Bar() as bar:
        decision = serving.verify(run, first, second, rate, data_root=data_root, notes=notes, tell=bar)
    calibration = decision.calibration
    for note in notes:
        print(one_line(note), file=sys.stderr)
    if json:
        print(as_json.dumps(plain(decision), indent=2))
        return
    console = screen()
    sign = "at least" if decision.same else "below"
    say(console, "the same" if decision.same else "different", "bold green" if decision.same else "bold yellow")
    say(console, f"The cosine is {decision.cosine:.3f}, {sign} the threshold of {decision.threshold:.3f}.")
    say(
        console,
        f"That threshold takes {percent(decision.false_accept_rate)} of the pairs of two classes for one "
        f"(--rate {rate:g}), and finds {percent(decision.true_accept_rate)} of the pairs of one class.",
    )
    say(
        console,
        f"Of pairs as alike as these {percent(decision.confidence)} are of one class, if both kinds are equally frequent.",
    )
    say(
        console,
        f"Measured on {calibration.genuine_pairs:,} pairs of one class and {calibration.impostor_pairs:,} of two: "
        f"{calibration.images}.",
        "dim",
    )


def plain(found: "Verified") -> dict[str, Any]:
    """Return what was found as JSON has it."""
    decision = {name: value for name, value in asdict(found).items() if name != "calibration"}
    return decision | {"measured_on": found.calibration.images}


def percent(share: float) -> str:
    """Return a share with two digits that count."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %" if share < 0.99 else f"{100 * share:.4g} %"
