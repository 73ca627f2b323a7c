"""One damaged file, read as a command reads it, and what came of it.

    sentence    one line that names the file, or the option in it, and an exit code: what `app/cli` makes of the error
    same        the answer that the whole file gives
    plain       another answer, the very one that a plain reader takes from the damaged file
    other       anything else: a traceback, another answer, a minute without one. There must be none

Memory: the file, and what is read of it.
"""

import contextlib
import io
import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz.damage import damage
from benchmarks.fuzz.formats import COMPUTED_ANEW, Format
from shadowmetric.app.cli import exit_code
from shadowmetric.app.training.runs.run import Run

SENTENCE, SAME, PLAIN, OTHER = "sentences", "same answers", "as a plain reader", "others"
OUTCOMES = (SENTENCE, SAME, PLAIN, OTHER)
LONGEST_SENTENCE = 2000
SECONDS = 60  # of one case
MOST_EXAMPLES = 5


@dataclass
class Counts:
    """What came of the cases of a format."""

    outcomes: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)  # of what must not be


class Unending(BaseException):
    """A case that takes too long."""


def try_format(one: Format, folder: Path, cases: range, seed: int) -> Counts:
    """Return what comes of so many cases; the folder has whole files before and after."""
    counts, usual = Counts(), one.read(folder)
    for case in cases:
        random = np.random.default_rng([seed, case, *one.name.encode()])
        name = one.files[int(random.integers(len(one.files)))]
        with unflushed(), damaged_file(folder / name, one, random):
            outcome = try_case(one, folder, folder / name, usual)
        kind = outcome if outcome in OUTCOMES else OTHER
        counts.outcomes[kind] += 1
        if kind == OTHER and len(counts.examples) < MOST_EXAMPLES:
            counts.examples.append(f"case {case}, {name}: {outcome}")
    return counts


@contextlib.contextmanager
def unflushed() -> Iterator[None]:
    """Let files be written without waiting for the disk: thousands of them need not outlive a power cut."""
    before = os.fsync
    os.fsync = lambda file: None
    try:
        yield
    finally:
        os.fsync = before


@contextlib.contextmanager
def damaged_file(file: Path, one: Format, random: np.random.Generator) -> Iterator[None]:
    """Damage a file, and bring it back."""
    run = Run(file.parent)
    kept = {path: path.read_bytes() for path in (file, run.digests.file) if path.exists()}
    stored = damage(kept[file], random)
    if one.renewed:
        run.write(file, lambda place: place.write_bytes(stored))
    else:
        file.write_bytes(stored)
    try:
        yield
    finally:
        for path, whole in kept.items():
            path.write_bytes(whole)


def try_case(one: Format, folder: Path, file: Path, usual: Any) -> str:
    """Return what comes of a damaged file: one of the outcomes, or what went wrong."""
    try:
        with limited_time():
            answer = one.read(folder)
    except Unending:
        return f"no answer within {SECONDS} seconds"
    except SystemExit as ended:  # a bundle's own program, which says its sentence itself
        return judge_sentence(str(ended.code), file)
    except (Exception, KeyboardInterrupt) as error:
        return judge_error(error, file)
    if answer in (usual, COMPUTED_ANEW):
        return SAME
    if one.plain is None:
        return f"another answer: {str(answer)[:200]}"
    try:
        expected = one.plain(folder)
    except Exception as error:
        return f"an answer, {str(answer)[:200]}, where a plain reader has {error!r}"[:500]
    return PLAIN if answer == expected else f"{str(answer)[:200]}, where a plain reader has {str(expected)[:200]}"


def judge_error(error: BaseException, file: Path) -> str:
    """Return what a command says of an error."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            code = exit_code(error, False)
    except BaseException as raised:
        return f"a traceback: {raised!r}"[:500]
    return judge_sentence(errors.getvalue(), file) if code else f"exit code 0 after {error!r}"


def judge_sentence(text: str, file: Path) -> str:
    """Return whether what was said is a sentence about the file."""
    lines = text.strip().splitlines()
    if len(lines) != 1 or lines[0][-1] not in ".?" or len(lines[0]) > LONGEST_SENTENCE or "Traceback" in lines[0]:
        return f"no sentence: {text[:500]!r}"
    named = file.name in lines[0] or file.parent.name in lines[0] or lines[0].startswith("--")
    return SENTENCE if named else f"it names no file: {lines[0]}"


@contextlib.contextmanager
def limited_time() -> Iterator[None]:
    """Raise Unending in what takes too long."""

    def end(number: int, frame: Any) -> None:
        raise Unending

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
