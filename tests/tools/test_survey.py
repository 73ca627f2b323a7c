"""The survey: what it counts in a checkout of either layout."""

import re

import pytest

from tools import survey as module
from tools.survey import ROOT, closure, names_of, survey, table, time_suite

PROJECT = '[project]\ndependencies = ["torch>=2.4", "numpy>=2"]\n'


@pytest.fixture
def checkout(tmp_path):
    """A small checkout."""
    package = tmp_path / "src" / "shadowmetric"
    for place in ("__init__.py", "ops/__init__.py", "ops/a.py", "ops/b.py", "app/__init__.py", "app/cli/__init__.py"):
        (package / place).parent.mkdir(parents=True, exist_ok=True)
        (package / place).write_text('"""Said."""\nA = 1\n')
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("sm.ArcFaceLoss, arc_faces")
    (tmp_path / "tests" / "test_b.py").write_text("from losses.arc_face import arc_face_loss")
    (tmp_path / "tests" / "test_c.py").write_text("SubCenterArcFaceLoss, sub_center_arc_face")
    return tmp_path


def test_files_lines_rooms_and_dependencies_are_counted(checkout, monkeypatch):
    monkeypatch.setattr(module, "count_touched", lambda checkout: {"files touched by train": "7"})
    found = survey(checkout)
    assert (found["files in the wheel"], found["lines in the wheel"]) == ("6", "12")
    assert found["rooms"] == "2: app, ops; 1 in app: cli"
    assert found["largest flat folder"] == "ops/ with 2 files"
    assert found["base dependencies"] == "2: torch, numpy"
    assert found["packages beyond torch and its own"].startswith("1, ")
    assert found["files that name ArcFaceLoss"] == "2"
    assert table([found, found]).splitlines()[-1] == "| files touched by train | 7 | 7 |"


def test_what_torch_brings_is_found():
    assert {"torch", "filelock", "sympy", "mpmath"} <= closure(["torch"])
    assert "torch" not in closure(["numpy"])


def test_a_process_says_which_files_it_imports(tmp_path):
    names = names_of(ROOT, "import shadowmetric.types\n", tmp_path)
    assert names == ["shadowmetric", "shadowmetric.types"]


def test_a_suite_says_what_passed_and_how_long_it_took(tmp_path):
    (tmp_path / "test_two.py").write_text("def test_one():\n    pass\n\ndef test_other():\n    assert False\n")
    assert re.fullmatch(r"1 failed, 1 passed in [\d.]+s", time_suite(tmp_path, "0").strip("= "))
