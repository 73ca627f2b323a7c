"""Start-up: public names without torch, and Ctrl-C while torch is being imported."""

import ast
import importlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shadowmetric
from shadowmetric.app import cli
from shadowmetric.errors import Mistake

SLOW = """
import sys, time
class Slow:  # stands before torch, as a disk that is slow
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("importing", flush=True)
            {how}
sys.meta_path.insert(0, Slow())
from shadowmetric.app.cli import main
main(["verify", "run", "a.png", "b.png"])
"""


@pytest.mark.parametrize(
    "how",
    [
        "time.sleep(60)",
        "try: time.sleep(60)\n            except KeyboardInterrupt: raise ImportError('failed') from None",
        "try: time.sleep(60)\n            except KeyboardInterrupt: raise ValueError('half loaded') from None",
    ],
)
@pytest.mark.usefixtures("interruptible")
def test_an_early_interrupt_is_one_line(how):
    words = [sys.executable, "-c", SLOW.format(how=how)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "importing\n", "torch must not be imported before the command is"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (said, process.returncode) == ("Stopped.\n", 130)


def test_the_package_itself_and_the_command_import_no_torch():
    code = "import sys, shadowmetric.app.cli; from shadowmetric.app.cli import main; print('torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "False\n"


def test_the_first_help_names_every_command_and_imports_none():
    code = (
        "import sys; from shadowmetric.app.cli import main\n"
        "try: main(['--help'])\nfinally: print('torch' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.endswith("False\n")
    assert all(f"│ {name} " in printed and does in printed for name, does in cli.COMMANDS.items())


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_a_help_of_its_own(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([name, "--help"])
    printed = capsys.readouterr().out
    assert printed.startswith(f"Usage: shadowmetric {name} ")
    assert cli.COMMANDS[name] not in printed, "the first help is short, this one says more"


def test_an_error_without_an_interrupt_is_no_stop(monkeypatch):
    monkeypatch.setattr(cli, "run", lambda *_: 1 / 0)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError):
        cli.main([])
    assert signal.getsignal(signal.SIGINT) is before


def test_what_editors_see_is_what_is_imported():
    (only_for_types,) = (
        node.body
        for node in ast.parse(Path(shadowmetric.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    homes = {
        name: line.module
        for line in only_for_types
        for alias in line.names
        for name in (importlib.import_module(line.module).__all__ if alias.name == "*" else (alias.name,))
    }
    assert sorted(homes) == sorted(shadowmetric.__all__)
    for name, home in homes.items():
        assert getattr(shadowmetric, name) is getattr(importlib.import_module(home), name)
    assert set(dir(shadowmetric)) >= set(homes)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = shadowmetric.nothing


def test_rooms_are_there_without_an_import_of_their_own():
    code = "import shadowmetric as sm; print(sm.types.Triplets is sm.Triplets, len(sm.evaluation.MEASURES) > 3)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "True True\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError("Unable to allocate 3.64 TiB for an array with shape"), "a piece of 3.64 TiB at once; take"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 512 bytes."), "of 512 bytes"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0"), "of 2.00 GiB at once"),
        (MemoryError(), "a piece at once; take smaller numbers, such as --batch"),
    ],
)
def test_memory_that_is_not_there_is_one_sentence(capsys, error, words):
    assert cli.exit_code(error, False) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_a_sentence_leaves_out_the_middle_of_a_value_that_is_a_megabyte(capsys):
    assert cli.exit_code(Mistake("--loss is '" + "x" * 10**6 + "'; choose one of shadow."), False) == 2
    said = capsys.readouterr().err
    assert len(said) < 2000
    assert said.startswith("--loss is 'xxx")
    assert said.endswith("; choose one of shadow.\n")
