"""Where figures come from is said without a word about whose machine it is."""

import getpass
import platform
import subprocess

from shadowmetric.app.training.runs import origin as where
from shadowmetric.app.training.runs.origin import commit, cpu_name, machine, origin


def test_it_names_program_and_machine_but_no_host_user_or_folder():
    found = origin()
    assert set(found) == {"version", "commit", "python", "torch", "machine"}
    assert all(found.values())
    words = " ".join(found.values())
    assert platform.node() not in words
    assert "/" not in words.replace("+cpu", "")
    assert getpass.getuser() not in words.split()
    assert "cores" in machine()


def git(folder, *words):
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def test_the_commit_says_whether_files_differ(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "training").mkdir(parents=True)
    file = package / "training" / "origin.py"
    file.write_text("first")
    monkeypatch.setattr(where, "__file__", str(file))
    assert commit() == "unknown"
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    first = commit()
    assert len(first) == 12
    file.write_text("second")
    assert commit() == first + "+"


def test_a_package_installed_inside_another_repository_is_not_of_its_commit(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text("own")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "theirs")
    file = tmp_path / ".venv" / "training" / "origin.py"
    file.parent.mkdir(parents=True)
    file.write_text("ours")
    monkeypatch.setattr(where, "__file__", str(file))
    assert commit() == "unknown"


def test_the_processor_is_known_without_proc(tmp_path, monkeypatch):
    monkeypatch.setattr(where, "CPU_FILE", tmp_path / "none")
    assert cpu_name()
    (tmp_path / "some").write_text("processor : 0\nmodel name : A processor\n")
    monkeypatch.setattr(where, "CPU_FILE", tmp_path / "some")
    assert cpu_name() == "A processor"
