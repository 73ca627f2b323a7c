"""`shadowmetric verify`: do two images show the same?"""

import json as as_json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from shadowmetric.app.cli import one_line
from shadowmetric.errors import Mistake
from shadowmetric.runtime.threshold import EVEN, explanation, in_words

if TYPE_CHECKING:
    from shadowmetric.app.serving.verification.verifying import Verified

EXAMPLES = """\
Examples:

    shadowmetric verify runs/birds first.jpg second.jpg
    shadowmetric verify runs/birds first.jpg second.jpg --prior 0.05 --explain
    shadowmetric verify runs/birds first.jpg second.jpg --false-accept-rate 0.001 --json
"""
Some = Annotated[Path | None, Parameter(show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


app = App(name="verify", usage="Usage: shadowmetric verify RUN IMAGE IMAGE [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def verify(
    run: Some = None,
    first: Some = None,
    second: Some = None,
    /,
    *,
    prior: float = EVEN,
    false_accept_rate: Annotated[float | None, Parameter(show_default=False)] = None,
    explain: Flag = False,
    data_root: Some = None,
    json: Flag = False,
) -> None:
    """Say whether two images show the same, and how probable that is.

    What a likeness means is measured on the run's test images, once, and kept in its folder if that can be written to.

    Parameters
    ----------
    run
        The folder of a run.
    first
        An image.
    second
        Another.
    prior
        How often your pairs show the same: 0.5 if every second one does, 0.01 if one of a hundred.
    false_accept_rate
        Decide by this instead: at most so many pairs of two classes may be taken for one, such as 0.01.
    explain
        Say what the decision rests on: cosine, threshold, error rates.
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
        decision = serving.verify(
            run, first, second, false_accept_rate, prior=prior, data_root=data_root, notes=notes, tell=bar
        )
    for note in notes:
        print(one_line(note), file=sys.stderr)
    if json:
        print(as_json.dumps(plain(decision), indent=2))
        return
    console = screen()
    verdict, *sentences = in_words(decision, false_accept_rate)
    say(console, verdict, "bold green" if decision.same else "bold yellow")
    for sentence in sentences:
        say(console, sentence)
    for sentence in explanation(decision, decision.calibration, false_accept_rate) if explain else ():
        say(console, sentence, "dim")


def plain(decision: "Verified") -> dict[str, Any]:
    """Return a decision as JSON has it."""
    figures = {name: value for name, value in asdict(decision).items() if name != "calibration"}
    return figures | {"measured_on": decision.calibration.images}
