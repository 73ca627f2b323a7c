"""`--config FILE.yaml` of every command: options by name, which the command line overrides.

The file is found among the words before they are parsed, since it says what the others mean. A run's settings.yaml
is such a file.
"""

from collections.abc import Sequence
from pathlib import Path

from shadowmetric.errors import Mistake

CONFIG_HELP = "Options can also stand in a file, --config FILE.yaml; the command line overrides it."


def without_config(tokens: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the words without --config, and the file that it names."""
    path, rest, words = None, [], list(tokens)
    while words:
        word = words.pop(0)
        if word == "--":
            return [*rest, word, *words], path
        name, equals, value = word.partition("=")
        if name != "--config":
            rest.append(word)
        elif equals or words:
            path = Path(value if equals else words.pop(0))
        else:
            raise Mistake("--config names no file; write --config FILE.yaml.")
    return rest, path


def config_reader(path: Path):
    """Return what reads the file for cyclopts, or refuse a file that is no YAML of options."""
    import yaml
    from cyclopts.config import Yaml

    try:
        options = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Mistake(f"--config {str(path)!r} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Mistake(f"--config {str(path)!r} is no YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(options, dict):
        raise Mistake(f"--config {str(path)!r} holds no options; write lines such as `epochs: 10`.")
    return Yaml(path, must_exist=True, use_commands_as_keys=False)
