"""`python -m paper`: its tables, its mistakes, and what Ctrl-C leaves."""

import importlib.util
import json
import re

import pytest
from made_records import like_the_paper, made_record

from paper import study as studying
from paper.catalogue import STUDIES
from paper.command import ReproduceSettings, command, main
from paper.screen import print_study
from shadowmetric.errors import Interrupted


def said(capsys, *words):
    """Run the command; return its exit code and what it printed."""
    with pytest.raises(SystemExit) as end:
        main(words)
    out = capsys.readouterr()
    return end.value.code or 0, out.out + out.err


def test_the_geometry_at_any_scale(capsys, tmp_path):
    code, text = said(capsys, "geometry", "--scale", "smoke", "--out", str(tmp_path))
    assert code == 0
    assert re.search(r"^0:00:\d\d  \S", text, re.MULTILINE)  # a line for whoever reads a log
    assert "Shadow" in text
    assert str(tmp_path / "records") in text
    found = json.loads((tmp_path / "records" / "geometry.json").read_text())
    assert found["facts"]["command"] == "python -m paper geometry --scale smoke"
    assert (tmp_path / "records" / "geometry.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["standards"], "there is no study 'standards'; choose one of"),
        (["standard", "--scale", "tiny"], "--scale is 'tiny'; choose one of paper, small, smoke"),
        (["standard", "--only", "cub200"], "--only names 'cub200'; standard has cifar10"),
        (["geometry", "--only", "x"], "none: it has no parts"),
        (["standard", "--jobs", "0"], "--jobs is 0; it must be 1 or more"),
    ],
)
def test_mistakes_are_one_sentence(capsys, tmp_path, words, sentence):
    code, text = said(capsys, *words, "--out", str(tmp_path))
    assert code == 2
    assert sentence in text
    assert list(tmp_path.iterdir()) == []


def test_a_study_whose_packages_are_not_there_is_refused_at_once(capsys, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "openTSNE" else find(name, *more)
    )
    code, text = said(capsys, "tsne", "--scale", "smoke", "--out", str(tmp_path))
    assert code == 2
    assert "openTSNE is not installed; run `pip install 'shadowmetric[report]'`" in text
    assert list(tmp_path.iterdir()) == []


def test_data_that_are_not_there_are_named(capsys, tmp_path):
    code, text = said(
        capsys, "fine-grained", "--only", "cub200", "--data-root", str(tmp_path), "--out", str(tmp_path / "o")
    )
    assert code == 2
    assert "cub200" in text


def test_ctrl_c_says_the_whole_command(capsys, tmp_path, monkeypatch):
    def stopped(cells, jobs, tell):
        raise Interrupted

    monkeypatch.setattr(studying, "run_cells", stopped)
    monkeypatch.setattr(studying, "run_floors", lambda plan, tell: None)
    out = str(tmp_path / "a folder")
    code, text = said(capsys, "medical", "--scale", "smoke", "--out", out, "--jobs", "1")
    assert code == 130
    assert f"python -m paper medical --scale smoke --out '{out}' --jobs 1" in text


def test_failed_trainings_are_named_and_exit_1(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(studying, "run_cells", lambda cells, jobs, tell: {"ham10000/shadow-0": "it went wrong"})
    monkeypatch.setattr(studying, "run_floors", lambda plan, tell: None)
    code, text = said(capsys, "medical", "--scale", "smoke", "--only", "ham10000", "--out", str(tmp_path))
    assert code == 1
    assert "ham10000/shadow-0 failed: it went wrong" in text
    assert "1 part(s) failed: ham10000/shadow-0." in text


def test_the_command_beside_a_figure_names_no_place():
    what = ReproduceSettings(scale="small", only=("cub200",), weights="/home/me/lite0.safetensors")
    assert command("fine-grained", what) == (
        "python -m paper fine-grained --scale small --only cub200 --weights lite0.safetensors"
    )
    assert "/home/me/lite0.safetensors" in command("fine-grained", what, places=True)


def test_the_help_names_every_study(capsys):
    _, text = said(capsys, "--help")
    assert all(name in text for name in STUDIES)


def test_a_table_shows_what_fits_and_names_the_rest(capsys, tmp_path):
    record = made_record(**like_the_paper())
    text = json.dumps({"facts": record.facts, "runs": record.runs})
    (tmp_path / "cifar10.json").write_text(text)
    print_study(STUDIES["standard"], tmp_path, {})
    shown = capsys.readouterr().out
    assert "Recall@1, %, quoted" in shown
    assert "Shadow's Recall@1 less this" in shown
    assert "…" not in shown
    whole = (tmp_path / "standard.md").read_text()
    assert "## CIFAR-10" in whole
    assert whole.count("quoted |") >= 2
