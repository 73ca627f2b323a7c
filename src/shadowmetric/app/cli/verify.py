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
    shadowmetric verify runs/birds first.jpg known/wren
    shadowmetric verify runs/birds first.jpg known --unknown-accept-rate 0.05
"""
Some = Annotated[Path | None, Parameter(show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


app = App(name="verify", usage="Usage: shadowmetric verify RUN IMAGE IMAGE|FOLDER [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def verify(
    run: Some = None,
    first: Some = None,
    second: Some = None,
    /,
    *,
    prior: float = EVEN,
    false_accept_rate: Annotated[float | None, Parameter(show_default=False)] = None,
    unknown_accept_rate: Annotated[float | None, Parameter(show_default=False)] = None,
    explain: Flag = False,
    data_root: Some = None,
    json: Flag = False,
) -> None:
    """Say whether two images show the same, and how probable that is; or whether an image is of a class of a folder.

    With a folder of images in place of the second image, or a folder of such folders, its nearest images vote for a
    class, and an image that is too far from all of them is of none. What a likeness means is measured on the run's test
    images, once, and kept in its folder if that can be written to.

    Parameters
    ----------
    run
        The folder of a run.
    first
        An image.
    second
        Another; or a folder of images of one class, or of folders, one a class.
    prior
        How often your pairs show the same: 0.5 if every second one does, 0.01 if one of a hundred.
    false_accept_rate
        Decide by this instead: at most so many pairs of two classes may be taken for one, such as 0.01.
    unknown_accept_rate
        With a folder: of images that are of none of its classes, the share that may pass for one. Default: about as
        many as are wrongly refused.
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
        raise Mistake("give a run and two images, or an image and a folder: `shadowmetric verify RUN IMAGE IMAGE`.")
    if second.is_dir():
        check_folder_options(prior, false_accept_rate, explain)
        answer_folder(run, first, second, unknown_accept_rate, data_root, json)
        return
    if unknown_accept_rate is not None:
        raise Mistake("--unknown-accept-rate is of images beside a folder; for two images give --false-accept-rate.")
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


def check_folder_options(prior: float, false_accept_rate: float | None, explain: bool) -> None:
    """Refuse options of two images."""
    given = {"--prior": prior != EVEN, "--false-accept-rate": false_accept_rate is not None, "--explain": explain}
    for name, is_given in given.items():
        if is_given:
            raise Mistake(f"{name} is of two images, and the second is a folder; give --unknown-accept-rate instead.")


def answer_folder(
    run: Path, image: Path, folder: Path, rate: float | None, data_root: Path | None, as_json_text: bool
) -> None:
    """Print of which class of a folder an image is."""
    from shadowmetric.app import serving
    from shadowmetric.app.cli.screen import say, screen
    from shadowmetric.progress import Bar

    notes: list[str] = []
    with Bar() as bar:
        answer = serving.verify_in_folder(run, image, folder, rate, data_root=data_root, notes=notes, tell=bar)
    for note in notes:
        print(one_line(note), file=sys.stderr)
    if as_json_text:
        print(as_json.dumps(answer.plain(), indent=2))
        return
    known = answer.decision is None or answer.decision.in_catalog
    console, (first, *rest) = screen(), answer.words()
    say(console, first, "bold green" if known else "bold yellow")
    for sentence in rest:
        say(console, sentence)


def plain(decision: "Verified") -> dict[str, Any]:
    """Return a decision as JSON has it."""
    figures = {name: value for name, value in asdict(decision).items() if name != "calibration"}
    return figures | {"measured_on": decision.calibration.images}
