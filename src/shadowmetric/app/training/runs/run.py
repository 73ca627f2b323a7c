"""A run is a folder.

settings.yaml        everything that decides it, resolved
replay.txt           the command that trains it again
journal.jsonl        a line an epoch
best.safetensors     weights of the best epoch
last/state.pt        all that an exact resume needs; tensors and plain values, read without unpickling code
scores.json          of the test split, once, at the end
queries.safetensors  what each test query contributed, for paired tests
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from shadowmetric.app.training.runs.settings import TrainSettings, as_plain, from_plain
from shadowmetric.errors import Mistake
from shadowmetric.runtime.files import write_json, write_text


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
    def queries_file(self) -> Path:
        """Values of each test query."""
        return self.folder / "queries.safetensors"

    def resume_command(self) -> str:
        """Return what goes on with this run."""
        return f"shadowmetric train --resume {shell_quote(self.folder)}"

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
        again = shell_quote(Path(f"{self.folder}-again"))
        command = f"shadowmetric train --config {shell_quote(self.settings_file)} --out {again}\n"
        write_text(self.folder / "replay.txt", command)
        write_text(self.settings_file, yaml.safe_dump(as_plain(settings), sort_keys=False, allow_unicode=True))

    def settings(self) -> TrainSettings:
        """Return what decides the run."""
        try:
            document = yaml.safe_load(self.settings_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if not self.folder.exists():
                raise Mistake(f"{self.folder} is not there; name the folder of a run.") from None
            below = sorted(self.folder.glob(f"*/{self.settings_file.name}"))
            one = f"; name one below it, such as {below[0].parent}" if below else ""
            raise Mistake(f"{self.folder} holds no run: there is no {self.settings_file.name} in it{one}.") from None
        except NotADirectoryError:
            raise Mistake(f"{self.folder} is a file; a run is a folder, which `shadowmetric train` wrote.") from None
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise Mistake(f"{self.settings_file} cannot be read ({' '.join(str(error).split())}).") from None
        if not isinstance(document, dict):
            raise Mistake(f"{self.settings_file} holds no settings.")
        try:
            return from_plain(document, self.settings_file)
        except (TypeError, Mistake) as error:
            raise Mistake(f"{self.settings_file}: {error}") from None

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines of the journal; a last line that was cut short by a kill is left out."""
        lines = []
        for line in self.journal_file.read_text(encoding="utf-8").splitlines() if self.journal_file.exists() else []:
            try:
                lines.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return lines

    def write_journal(self, lines: list[dict[str, Any]]) -> None:
        """Write all lines anew, as a resume must: some may be of epochs that are trained again."""
        write_text(self.journal_file, "".join(json.dumps(line) + "\n" for line in lines))

    def scores(self) -> dict[str, Any] | None:
        """Return the scores, if the run is finished."""
        try:
            document = json.loads(self.scores_file.read_text(encoding="utf-8"))
            if not isinstance(document, dict):
                raise ValueError("no scores")
            return document
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Mistake(f"{self.scores_file} cannot be read ({error}); remove it and resume the run.") from None

    def write_scores(self, scores: dict[str, Any]) -> None:
        """Write the scores."""
        write_json(self.scores_file, scores)


def foreign(path: Path) -> bool:
    """Return whether a file is not what a kill in the first moment of a run can have left."""
    return path.name != "replay.txt" and not path.name.startswith(".")


def shell_quote(path: Path) -> str:
    """Return a path as a shell takes it."""
    import shlex

    return shlex.quote(str(path))
