import subprocess
import sys
from pathlib import Path

import pytest

from shadowmetric.app.cli import command_line, main
from shadowmetric.app.cli.completion import running_shell
from shadowmetric.errors import Mistake

PRESS_TAB = """
. "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
"$(complete -p shadowmetric | sed 's/.*-F \\([^ ]*\\).*/\\1/')" shadowmetric
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("ZSH", "ZSH_CUSTOM", "ZSH_VERSION", "BASH_VERSION", "FISH_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def install(*words):
    with pytest.raises(SystemExit) as ended:
        main(["--install-completion", *words])
    assert not ended.value.code


def commands():
    return {name for name in command_line() if not name.startswith("-")}


def test_tab_in_bash_completes_commands_options_and_files(home):
    install("--shell", "bash")
    script = home / ".local/share/bash-completion/completions/shadowmetric"

    def tab(*words):
        done = subprocess.run(
            ["bash", "-c", PRESS_TAB, "bash", script, "shadowmetric", *words],
            capture_output=True,
            text=True,
            check=True,
            cwd=home,
        )
        assert not done.stderr
        return done.stdout.split()

    assert set(tab("")) == commands()
    assert len(commands()) > 10
    assert tab("tr") == ["train"]
    assert tab("train", "--marg") == ["--margin"]
    assert tab("train", "--data", "digits", "--mic") == ["--micro-batch"]
    assert set(tab("data", "")) == {"list", "check", "add"}
    assert "--false-accept-rate" in tab("verify", "run", "one.png", "other.png", "-")
    assert "--margin" not in tab("verify", "-")
    (home / "photos").mkdir()
    assert tab("index", "pho") == ["photos"]


def test_bash_finds_it_in_a_new_shell_and_a_second_call_adds_no_second_line(home, capsys):
    install("--shell", "bash")
    first = (home / ".bashrc").read_text()
    install("--shell", "bash")
    assert (home / ".bashrc").read_text() == first
    assert "~/.bashrc loads it" in capsys.readouterr().out
    shown = subprocess.run(["bash", "-ic", "complete -p shadowmetric"], capture_output=True, text=True)
    assert "_shadowmetric" in shown.stdout


@pytest.mark.parametrize(
    ("shell", "place"),
    [("zsh", ".zsh/completions/_cyclopts_shadowmetric"), ("fish", ".config/fish/completions/shadowmetric.fish")],
)
def test_files_for_other_shells_name_every_command(home, shell, place):
    install("--shell", shell)
    written = (home / place).read_text()
    assert all(name in written for name in commands())


def test_a_named_file_is_the_only_one_that_is_written(home, capsys):
    install("--shell", "bash", "--out", str(home / "here"))
    assert [path.name for path in home.iterdir()] == ["here"]
    assert capsys.readouterr().out == f"Written: {home / 'here'}\n"


def test_a_shell_that_is_unknown_or_not_completed_is_asked_for(monkeypatch):
    monkeypatch.setenv("SHELL", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", ""))
    with pytest.raises(Mistake, match="add --shell bash, zsh or fish"):
        running_shell()
    monkeypatch.setenv("SHELL", "/usr/bin/pwsh")
    with pytest.raises(Mistake, match="PowerShell"):
        running_shell()
    monkeypatch.setenv("SHELL", str(Path("/bin/fish")))
    assert running_shell() == "fish"


def test_other_commands_do_not_load_what_writes_the_files(monkeypatch, capsys):
    ours = "shadowmetric.app.cli.completion"  # imported again, too
    for name in [name for name in sys.modules if name.startswith(("cyclopts.completion", ours))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit):
        main(["--version"])
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--install-completion" in capsys.readouterr().out
    assert not [name for name in sys.modules if name.startswith("cyclopts.completion")]
