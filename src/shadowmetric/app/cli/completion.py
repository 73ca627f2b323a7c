"""`shadowmetric --install-completion`: the Tab key completes commands, options and names of files.

The file that a shell reads is written once and needs no Python at the key press. cyclopts makes it; what makes it is
imported when it is asked for, so that other commands start as before. Run it again after an update.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from shadowmetric.errors import Mistake

START = {"bash": "~/.bashrc", "zsh": "~/.zshrc"}


def completion_of(app: Any) -> Callable[..., None]:
    """Return the command that installs completion of an application."""

    def install_completion(
        *,
        shell: Annotated[Literal["bash", "zsh", "fish"] | None, Parameter(show_default=False)] = None,
        out: Annotated[Path | None, Parameter(show_default=False)] = None,
    ) -> None:
        """Let Tab complete commands and options in bash, zsh or fish.

        Writes a file into the home folder, and for bash and zsh a line into ~/.bashrc or ~/.zshrc that loads it.

        Parameters
        ----------
        shell
            Which shell. Default: the one that runs this.
        out
            Write the file here instead, and change no other.
        """
        shell = shell or running_shell()
        place = app.install_completion(shell=shell, output=out, add_to_startup=out is None)
        print(f"Written: {place}")
        if out is None and shell in START:
            print(f"{START[shell]} loads it; open a new shell, or run `exec {shell}`.")

    return install_completion


def running_shell() -> Literal["bash", "zsh", "fish"]:
    """Return the shell that runs this, or ask for its name."""
    from cyclopts.completion.detect import ShellDetectionError, detect_shell

    try:
        shell = detect_shell()
    except ShellDetectionError:
        raise Mistake("which shell runs this is unknown; add --shell bash, zsh or fish.") from None
    if shell == "powershell":
        raise Mistake("the shell is PowerShell, which is not completed; add --shell bash, zsh or fish.")
    return shell
