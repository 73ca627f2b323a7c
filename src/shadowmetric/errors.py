"""Ways in which work ends early, each with a sentence for people. `cli` turns them into exit codes.

Mistake        the user got something wrong: what, the value, the remedy      exit code 2
Stopped        work that cannot go on, and what to change                     exit code 1
Interrupted    stopped by the user and saved; the text is the command that goes on     exit code 130
"""

from shadowmetric.runtime.errors import Mistake as Mistake


class Stopped(RuntimeError):
    """Why work cannot go on, in one sentence with the remedy."""


class Interrupted(Exception):
    """The user stopped it and everything is saved; the text is the command that goes on."""
