"""The `shadowmetric` command: one file per sub-command, which parses, calls the library and prints.

What a user got wrong is one sentence on standard error and exit code 2; a traceback is our mistake.
"""

import sys
from collections.abc import Sequence


def main(tokens: Sequence[str] | None = None) -> None:
    """Run the command with these words, or those of the command line."""
    from cyclopts import CycloptsError

    from shadowmetric.cli.mistake import Mistake

    try:
        command_line()(sys.argv[1:] if tokens is None else list(tokens), exit_on_error=False, print_error=False)
    except (Mistake, CycloptsError) as mistake:
        print(" ".join(str(mistake).split()), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


def command_line():
    """Return the cyclopts application with every sub-command."""
    import importlib.metadata

    from cyclopts import App

    from shadowmetric.cli.bench import bench
    from shadowmetric.cli.evaluate import EXAMPLES, USAGE, evaluate

    app = App(
        name="shadowmetric",
        help="Memory-linear deep metric learning for PyTorch.",
        version=importlib.metadata.version("shadowmetric"),
        suppress_keyboard_interrupt=False,
    )
    app.command(bench)
    app.command(evaluate, usage=USAGE, help_epilogue=EXAMPLES)
    return app
