"""The `shadowmetric` command: one file per sub-command, which parses, calls the library and prints.

What a user got wrong is one sentence on standard error and exit code 2; a traceback is our mistake. Libraries are
imported when `main` runs, since torch takes seconds in which people press Ctrl-C.
"""

import contextlib
import errno
import importlib.util
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

COMMANDS = {  # a module of this folder each, imported when it is called, and what the first help says of it
    "train": "Train an embedder on a dataset or your own images.",
    "evaluate": "Measure a run, or embeddings of any tool.",
    "compare": "Train several losses on equal terms; one table.",
    "report": "Draw runs and comparisons on one page.",
    "export": "Write a run as ONNX files that need no torch.",
    "index": "Embed a folder of images to be searched.",
    "search": "Find the indexed images most like yours.",
    "verify": "Say whether two images show the same.",
    "serve": "Search an index in a browser, or by JSON.",
    "data": "List, check and add datasets.",
    "doctor": "Say what is here; check the GPU, and several ranks.",
}
NEEDED = (  # what the extra `app` brings, as it is imported
    "PIL",
    "accelerate",
    "cyclopts",
    "filelock",
    "packaging",
    "rich",
    "safetensors",
    "timm",
    "torchvision",
    "yaml",
)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")  # as torch says it
MOST_LETTERS = 1500  # of a sentence: a value may be a megabyte
Application = Callable[..., Any]  # (config, first_help=...) -> a cyclopts App


def main(tokens: Sequence[str] | None = None, application: Application | None = None) -> None:
    """Run the command with these words, or those of the command line; Ctrl-C is heard from the first import on.

    application: another program's, which then has the same exit codes and `--config`.
    """
    with collect_interrupts() as pressed:
        try:
            run(sys.argv[1:] if tokens is None else tokens, application or command_line)
        except (Exception, KeyboardInterrupt) as error:
            sys.exit(exit_code(error, bool(pressed)))


def run(tokens: Sequence[str], application: Application) -> None:
    """Parse the words and do what they say."""
    from shadowmetric.app.cli.config import without_config

    check_extra()
    words, config = without_config(tokens)
    first_help = list(words) in ([], ["--help"], ["-h"])
    application(config, first_help=first_help)(words, exit_on_error=False, print_error=False)


def check_extra() -> None:
    """Refuse to begin where the library was installed without what commands need."""
    from shadowmetric.errors import Mistake

    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Mistake(f"commands need {', '.join(missing)}, not installed; run `pip install 'shadowmetric[app]'`.")


def exit_code(error: BaseException, pressed: bool) -> int:
    """Say in one sentence how a command ended early, and return its exit code; pressed: after a Ctrl-C."""
    from shadowmetric.errors import Interrupted, Mistake, Stopped

    if isinstance(error, Interrupted):
        if os.environ.get("RANK", "0") == "0":
            several = os.environ.get("WORLD_SIZE", "1")
            how = "" if several == "1" else f", started with {several} processes as before"
            print(f"Stopped and saved. Go on with{how}:\n{error}", file=sys.stderr)
        return 130
    if pressed or isinstance(error, KeyboardInterrupt):
        print("Stopped.", file=sys.stderr)
        return 130
    if isinstance(error, Mistake):
        print(f"{who()}{one_line(str(error))}", file=sys.stderr)
        return 2
    from cyclopts import CycloptsError, UnusedCliTokensError

    if isinstance(error, CycloptsError):
        unused = isinstance(error, UnusedCliTokensError)
        sentence = about_unused([str(word) for word in error.unused_tokens or ()]) if unused else str(error)
        print(f"{who()}{one_line(sentence)}", file=sys.stderr)
        return 2
    if isinstance(error, Stopped):
        print(f"{who()}Stopped: {one_line(str(error))}", file=sys.stderr)
        return 1
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(map(str(error).count, NO_MEMORY))):
        print(f"{who()}{about_memory(error)}", file=sys.stderr)
        return 1
    if isinstance(error, BrokenPipeError):  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError):  # a full disk, a folder that may not be written to
        named = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        remedy = "; make room there, and run the command again" if error.errno in NO_ROOM else ""
        print(f"{who()}{one_line(named + (error.strerror or str(error)))}{remedy}.", file=sys.stderr)
        return 1
    raise error


def about_unused(words: list[str]) -> str:
    """Return what to do with words that belong to no option."""
    first = words[0] if words else "a word"
    if first.startswith(("folder:", "csv:", "npz:")):
        return f"{first!r} stands alone; write --data {first}."
    return f"{first!r} belongs to no option and is not expected here; --help shows what is."


def about_memory(error: BaseException) -> str:
    """Return what to do where there is not enough memory, and how much was asked for, if that is known."""
    asked = re.search(r"([\d,.]+ ?(?:bytes|[KMGT]i?B)) for|allocate ([\d,.]+ ?(?:bytes|[KMGT]i?B))", str(error))
    much = f"of {next(filter(None, asked.groups()))} at once" if asked else "at once"
    remedy = "smaller numbers, such as --batch, --micro-batch, --dim or --size, or a machine with more memory"
    return f"Stopped: there is not enough memory for a piece {much}; take {remedy}."


@contextlib.contextmanager
def collect_interrupts() -> Iterator[list[int]]:
    """Yield a list that each Ctrl-C enters: C code that is being loaded makes another error of it."""
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not in_main_thread():
        yield pressed
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def in_main_thread() -> bool:
    """Return whether this thread may say what a signal does."""
    return threading.current_thread() is threading.main_thread()


def one_line(sentence: str) -> str:
    """Return a sentence on one line, without what a terminal would obey and without the middle of a long value."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(sentence.split()))
    half = MOST_LETTERS // 2
    return line if len(line) <= MOST_LETTERS else f"{line[:half]} … {line[-half:]}"


def who() -> str:
    """Return which of several processes speaks; nothing if there is one."""
    return f"rank {os.environ.get('RANK')}: " if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""


def command_line(config: Path | None = None, *, first_help: bool = False):
    """Return the cyclopts application with every sub-command; config is a file of options.

    first_help: with a line for each, so that none is imported to be listed. Once it is, it would lose its own help.
    """
    import importlib.metadata

    from cyclopts import App

    from shadowmetric.app.cli.completion import completion_of
    from shadowmetric.app.cli.config import check_whole_numbers, config_reader

    app = App(
        name="shadowmetric",
        help="Memory-linear deep metric learning for PyTorch.",
        version=importlib.metadata.version("shadowmetric"),
        suppress_keyboard_interrupt=False,
        config=[*([] if config is None else [config_reader(config)]), check_whole_numbers],
    )
    app.command(completion_of(app), name="--install-completion")
    for number, (name, does) in enumerate(COMMANDS.items()):
        app.command(f"shadowmetric.app.cli.{name}:app", name=name, help=does if first_help else None, sort_key=number)
    return app
