"""A run is a folder.

settings.yaml        everything that decides it, resolved
replay.txt           the command that trains it again
journal.jsonl        a line an epoch
best.safetensors     weights of the best epoch
last/state.pt        all that an exact resume needs; tensors and plain values, read without unpickling code
scores.json          of the test split, once, at the end
plan.json            what was planned and what it took, where somebody watched
queries.safetensors  what each test query contributed, for paired tests
digests.json         the SHA-256 of all these: a file that is not as it was written is refused by name
.lock                held by the process that trains it

Nothing is written into a folder that was removed: the run ends and says so.
"""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from shadowmetric.app.training.runs.settings import TrainSettings, as_plain, check_settings, from_plain
from shadowmetric.app.training.runs.yaml_text import parse_yaml
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.integrations.pml_losses import PREFIX
from shadowmetric.runtime.digests import RECORD, Digests
from shadowmetric.runtime.files import without_nan

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REPLAY = "replay.txt"


@dataclass(frozen=True)
class Run:
    """The folder of a run and the names in it."""

    folder: Path

    @property
    def settings_file(self) -> Path:
        """Everything that decides the run."""
        return self.folder / "settings.yaml"

    @property
    def journal_file(self) -> Path:
        """A line an epoch."""
        return self.folder / "journal.jsonl"

    @property
    def best_file(self) -> Path:
        """Weights of the best epoch."""
        return self.folder / "best.safetensors"

    @property
    def state_file(self) -> Path:
        """All that a resume needs."""
        return self.folder / "last" / "state.pt"

    @property
    def scores_file(self) -> Path:
        """Scores of the test split."""
        return self.folder / "scores.json"

    @property
    def plan_file(self) -> Path:
        """What was planned, and what it took."""
        return self.folder / "plan.json"

    @property
    def queries_file(self) -> Path:
        """Values of each test query."""
        return self.folder / "queries.safetensors"

    @property
    def replay_file(self) -> Path:
        """The command that trains it again."""
        return self.folder / REPLAY

    @property
    def lock_file(self) -> Path:
        """Held by the process that trains it."""
        return self.folder / ".lock"

    @property
    def digests(self) -> Digests:
        """The digests of its files."""
        return Digests(self.folder, "bring back a copy of the run, or train it anew with another --out")

    def resume_command(self) -> str:
        """Return what goes on with this run."""
        return f"shadowmetric train --resume {shell_quote(self.folder)}"

    def write(self, file: Path, fill: Callable[[Path], object]) -> None:
        """Let `fill` write a file of the run, whose digest is recorded; refuse to do so in a folder that is gone."""
        self.check_there()
        try:
            self.digests.write(file, fill)
        except OSError as error:
            raise Stopped(
                f"{file} cannot be written ({error.strerror or error}); what was saved before is whole: "
                f"{'make room' if error.errno in NO_ROOM else 'make the folder writable'} and go on with "
                f"`{self.resume_command()}`."
            ) from None

    def write_text(self, file: Path, text: str) -> None:
        """Write a text file of the run."""
        self.write(file, lambda place: place.write_text(text, encoding="utf-8"))

    def read(self, file: Path) -> bytes:
        """Return a file of the run, or refuse it if it is not as it was written."""
        return self.digests.read(file)

    def check(self, file: Path) -> str:
        """Return the SHA-256 of a file of the run, or refuse it if it is not as it was written."""
        try:
            return self.digests.check(file)
        except OSError as error:
            raise Mistake(
                f"{file} cannot be read ({error.strerror}); train the run first: `{self.resume_command()}`."
            ) from None

    def check_there(self) -> None:
        """Stop where the folder was removed or renamed."""
        if not self.folder.is_dir():
            raise Stopped(
                f"{self.folder} was removed or renamed while it was written to; nothing more is written: train anew, "
                "or go on with the folder where it is now by --resume."
            )

    def check_free(self) -> None:
        """Refuse a folder that holds a run, or anything else."""
        if self.settings_file.exists():
            raise Mistake(
                f"{self.folder} holds a run already; go on with it by `{self.resume_command()}`, or name another --out."
            )
        if self.folder.exists() and (not self.folder.is_dir() or any(map(foreign, self.folder.iterdir()))):
            raise Mistake(f"{self.folder} is there and holds no run; name another --out.")

    def begin(self, settings: TrainSettings) -> None:
        """Write the settings into a new folder."""
        self.check_free()
        self.make_folder()
        again = shell_quote(Path(f"{self.folder}-again"))
        command = f"shadowmetric train --config {shell_quote(self.settings_file)} --out {again}\n"
        self.write(self.replay_file, lambda place: place.write_bytes(os.fsencode(command)))
        self.write_text(self.settings_file, yaml.safe_dump(as_plain(settings), sort_keys=False, allow_unicode=True))

    def make_folder(self) -> None:
        """Make the folder, or say why it cannot be."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Mistake(f"{self.folder} cannot be made ({error.strerror}); name another --out.") from None

    def settings(self) -> TrainSettings:
        """Return what decides the run."""
        if self.folder.is_file():
            raise Mistake(f"{self.folder} is a file; a run is a folder, which `shadowmetric train` wrote.")
        try:
            document = parse_yaml(self.read(self.settings_file))
        except FileNotFoundError:
            if not self.folder.exists():
                raise Mistake(f"{self.folder} is not there; name the folder of a run.") from None
            below = sorted(self.folder.glob(f"*/{self.settings_file.name}"))
            one = f"; name one below it, such as {below[0].parent}" if below else ""
            raise Mistake(f"{self.folder} holds no run: there is no {self.settings_file.name} in it{one}.") from None
        except OSError as error:
            raise Mistake(f"{self.settings_file} cannot be read ({error.strerror}).") from None
        except Mistake:
            raise
        except ValueError as error:
            raise Mistake(f"{self.settings_file} cannot be read ({error}); {self.digests.remedy}.") from None
        try:
            settings = from_plain(document, self.settings_file)
            foreign_loss = str(settings.loss).startswith(PREFIX)  # whose library a finished run does not need
            check_settings(replace(settings, loss=TrainSettings.loss) if foreign_loss else settings)
            return settings
        except (TypeError, Mistake) as error:
            raise Mistake(f"{self.settings_file}: {error}") from None

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines of the journal; a last line that was cut short by a kill is left out."""
        try:
            stored = self.read(self.journal_file)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Mistake(f"{self.journal_file} cannot be read ({error.strerror}).") from None
        lines: list[dict[str, Any]] = []
        written = stored.decode("utf-8", "replace").splitlines()
        for number, line in enumerate(written, start=1):
            try:
                found = json.loads(line)
            except (RecursionError, ValueError):
                if number == len(written):
                    break
                found = None
            if found is None or not is_journal_line(found):
                raise Mistake(f"{self.journal_file} has a line that is none of a journal; {self.digests.remedy}.")
            lines.append(found)
        return lines

    def write_journal(self, lines: list[dict[str, Any]]) -> None:
        """Write all lines anew, as a resume must: some may be of epochs that are trained again."""
        self.write_text(self.journal_file, "".join(json.dumps(line) + "\n" for line in lines))

    def replay(self) -> str:
        """Return the command that trains it again; nothing if there is none."""
        try:
            return os.fsdecode(self.read(self.replay_file)).strip()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise Mistake(f"{self.replay_file} cannot be read ({error.strerror}).") from None

    def scores(self) -> dict[str, Any] | None:
        """Return the scores, if the run is finished."""
        try:
            document = json.loads(self.read(self.scores_file))
            if not isinstance(document, dict):
                raise ValueError("no scores")
            return document
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Mistake:
            raise
        except (OSError, RecursionError, ValueError) as error:
            raise Mistake(f"{self.scores_file} cannot be read ({error}); remove it and resume the run.") from None

    def write_scores(self, scores: dict[str, Any]) -> None:
        """Write the scores."""
        self.write_text(self.scores_file, json.dumps(without_nan(scores), indent=2, allow_nan=False) + "\n")


def is_journal_line(found: Any) -> bool:
    """Return whether JSON is what an epoch brought: figures, and sentences of warning."""
    return isinstance(found, dict) and all(
        isinstance(value, int | float | None)
        or (name == "warnings" and isinstance(value, list) and all(isinstance(one, str) for one in value))
        for name, value in found.items()
    )


def foreign(path: Path) -> bool:
    """Return whether a file is not what a kill in the first moment of a run can have left."""
    return path.name not in (REPLAY, RECORD) and not path.name.startswith(".")


def shell_quote(path: Path) -> str:
    """Return a path as a shell takes it."""
    import shlex

    return shlex.quote(str(path))
