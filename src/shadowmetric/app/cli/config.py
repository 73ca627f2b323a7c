"""`--config FILE.yaml` of every command: options by name, which the command line overrides.

The file is found among the words before they are parsed, since it says what the others mean. A run's settings.yaml
is such a file. Every name in it is an option of the command that is called, or is refused: `data:` is the option of
`train`, though a command is called so as well.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from shadowmetric.errors import Mistake

CONFIG_HELP = "Options can also stand in a file, --config FILE.yaml; the command line overrides it."
PLAIN = (str, int, float, type(None))


def without_config(tokens: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the words without --config, and the file that it names."""
    file, rest, words = None, [], list(tokens)
    while words:
        word = words.pop(0)
        if word == "--":
            return [*rest, word, *words], file
        name, equals, value = word.partition("=")
        if name != "--config":
            rest.append(word)
        elif file is not None:
            raise Mistake(f"--config names {str(file)!r} and another file; give one.")
        elif equals or words:
            file = Path(value if equals else words.pop(0))
        else:
            raise Mistake("--config names no file; write --config FILE.yaml.")
    return rest, file


class ConfigReader:
    """Gives cyclopts the options of a file, whatever commands are called."""

    def __init__(self, path: Path, options: dict[str, Any]):
        self.path, self.options = path, options

    def __call__(self, app: Any, commands: tuple[str, ...], arguments: Any) -> None:
        """Enter the options that the command line has not given; refuse those that the command has not."""
        from cyclopts.argument import update_argument_collection

        update_argument_collection(
            self.options,
            str(self.path),
            arguments,
            app.app_stack.stack[-1],
            root_keys=(),
            allow_unknown=False,
        )


def check_whole_numbers(app: Any, commands: tuple[str, ...], arguments: Any) -> None:
    """Refuse a fraction where an option takes whole numbers: cyclopts would round it in silence."""
    for argument in arguments:
        kinds = get_args(argument.hint) or (argument.hint,)
        for token in argument.tokens if int in kinds and float not in kinds else ():
            if is_fraction(str(token.value)):
                where = "" if token.source == "cli" else f" in {token.source}"
                raise Mistake(f"{argument.name} is {token.value}{where}; it must be a whole number.")


def is_fraction(word: str) -> bool:
    """Return whether a word is a number that is not whole; what is no number, cyclopts refuses itself."""
    try:
        return "." in word and not float(word).is_integer()
    except ValueError:
        return False


def config_reader(path: Path) -> ConfigReader:
    """Return what reads the file for cyclopts, or refuse a file that is no YAML of options."""
    from shadowmetric.app.training.runs.run import Run
    from shadowmetric.app.training.runs.yaml_text import parse_yaml

    run = Run(path.parent)
    try:
        options = parse_yaml(run.read(path) if path.name == run.settings_file.name else path.read_bytes())
    except Mistake as refusal:
        raise Mistake(f"--config: {refusal} To change settings, copy the file first.") from None
    except (OSError, ValueError) as error:
        reason = (
            f"cannot be read: {error.strerror}" if isinstance(error, OSError) else f"is no YAML of options: {error}"
        )
        raise Mistake(f"--config {str(path)!r} {reason}.") from None
    spelled: dict[str, str] = {}
    for name, value in options.items():
        before = spelled.setdefault(name.replace("-", "_"), name)
        if before != name:
            raise Mistake(f"--config {str(path)!r} has {before!r} and {name!r}, which are one option; give one.")
        if not all(isinstance(one, PLAIN) for one in (value if isinstance(value, list) else [value])):
            raise Mistake(
                f"--config {str(path)!r} has {type(value).__name__} for {name!r}; write one value, in quotes if it "
                "is a text, or a list of values."
            )
        if isinstance(value, int) and abs(value) >= 2**63:
            raise Mistake(f"--config {str(path)!r} has a number beyond 64 bits for {name!r}; write a smaller one.")
    return ConfigReader(path, options)
