"""Ways in which work ends early, each with a sentence for people. `app/cli` turns them into exit codes.

Mistake        the user got something wrong: what, the value, the remedy      exit code 2
    BrokenImage    an image that cannot be read
    DataMistake    a dataset: names the file
    ModelMistake   a backbone or its weights: names the one or the other
NotFinite      rows with NaN, infinity or lengths beyond all measure
Stopped        work that cannot go on, and what to change                     exit code 1
Interrupted    stopped by the user and saved; the text is the command that goes on     exit code 130

The first two are defined in `runtime/errors.py`, which is copied to machines that have nothing else of this library.
"""

from shadowmetric.runtime.errors import BrokenImage as BrokenImage
from shadowmetric.runtime.errors import Mistake as Mistake


class DataMistake(Mistake):
    """What is wrong with a dataset, in one sentence that names the file, the value and the remedy."""


class ModelMistake(Mistake):
    """What is wrong with a backbone or its weights: names the one or the other, the value received and the remedy."""


class NotFinite(ValueError):
    """Rows with NaN, infinity or lengths beyond all measure."""


class Stopped(RuntimeError):
    """Why work cannot go on, in one sentence with the remedy."""


class Interrupted(Exception):
    """The user stopped it and everything is saved; the text is the command that goes on."""
