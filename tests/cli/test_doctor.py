"""`shadowmetric doctor`: tables and JSON, exit codes, and a user's loss from the current folder."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from shadowmetric.bench import doctor as library
from shadowmetric.bench.doctor import Certificate, Check
from shadowmetric.cli import main
from shadowmetric.cli.doctor_table import print_certificate

OK = Check("shadow", 0, "gathered", 0.2, 1e-16, 3e-17, 7e-16, 7, None, "ok")
CONTROL = dataclasses.replace(OK, form="apart", relative=1.4, value_difference=0.1, collectives=1, verdict="control")
WRONG = dataclasses.replace(
    OK, loss="my.losses:make", form="cached", relative=0.5, same_state=False, verdict="different"
)
NAN = float("nan")
FAILED = dataclasses.replace(CONTROL, value_difference=NAN, absolute=NAN, relative=NAN, verdict="failed")
FAILS_ON_ONE = """
from torch import nn
from shadowmetric.ops.ranks import ranks_here

def make():
    print("made")
    if ranks_here().rank == 1:
        raise RuntimeError("no luck\\nand more of it")
    return Mean()

class Mean(nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.mean()
"""


@pytest.fixture
def asked(monkeypatch):
    """Let the ranks be played, and return what they were asked."""
    seen = {"checks": (OK, CONTROL), "notes": ()}

    def played(subjects, ranks, *, report):
        seen.update(subjects=subjects, ranks=ranks)
        report("starting", 0.0)
        return Certificate(ranks, (30, 11), 1e-8, seen["checks"], seen["notes"])

    monkeypatch.setattr(library, "certificate", played)
    return seen


def run(*words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *words])
    assert (ended.value.code or 0) == code


def test_the_table_shows_each_check_and_how_to_read_it(capsys, asked):
    asked["notes"] = ("shadow: something to know.",)
    run()
    out, errors = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "Relative difference of 2 rank(s) from one process" in lines
    assert "loss rows are value gradient absolute collectives verdict" in lines
    assert "shadow gathered 1.0e-16 7.0e-16 3.0e-17 7 ok" in lines
    assert "not gathered (control) 1.0e-01 1.4e+00 3.0e-17 1 control" in lines
    assert any(line.startswith("[peers] ") for line in lines)
    assert any("the ranks have 30, 11. Up to 1e-08 is rounding" in line for line in lines)
    assert "Note shadow: something to know." in lines
    assert errors == ""
    assert [subject.name for subject in asked["subjects"]] == ["shadow"]
    assert asked["ranks"] == 2


def test_a_difference_is_shown_and_ends_with_1_and_a_sentence(capsys, asked):
    asked["checks"] = (OK, FAILED, WRONG)
    run(code=1)
    out, errors = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert [
        "make",
        "gathered,",
        "3",
        "at",
        "a",
        "time",
        "1.0e-16",
        "5.0e-01",
        "3.0e-17",
        "7",
        "DIFFERENT",
        "DIFFERENT",
    ] in lines
    assert ["not", "gathered", "(control)", "–", "–", "–", "1", "–", "failed"] in lines
    assert errors.startswith("Stopped: 2 rank(s) do not give my.losses:make the gradient of one process;")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(("width", "columns"), [(120, 8), (100, 7), (92, 6), (78, 5)])
def test_columns_give_way_where_there_is_no_room(width, columns):
    console = Console(width=width, file=io.StringIO(), highlight=False)
    long = dataclasses.replace(OK, loss="soft_margin_triplet", same_state=True)
    print_certificate(console, Certificate(2, (30, 11), 1e-8, (long, CONTROL), ()))
    heading, row = (next(line for line in lines_of(console) if word in line) for word in ("rows are", "triplet"))
    assert len(heading.replace("rows are", "rows").split()) == columns
    assert row.split()[-1] == "ok"
    assert "…" not in "".join(lines_of(console))


def lines_of(console):
    return console.file.getvalue().splitlines()


def test_settings_reach_the_losses(asked):
    run(
        *("--loss", "soft-triple", "my.losses:a-b", "shadow", "shadow", "--margin", "0.3", "--miner", "hard"),
        *("--cross-batch-memory", "30", "--dim", "16", "--ranks", "3"),
    )
    assert [subject.name for subject in asked["subjects"]] == ["soft_triple", "my.losses:a-b", "shadow"]
    subject = asked["subjects"][0]
    assert (subject.margin, subject.miner, subject.memory, subject.dim, asked["ranks"]) == (0.3, "hard", 30, 16, 3)


def test_all_losses_are_those_with_a_name(asked):
    run("--all-losses")
    names = [subject.name for subject in asked["subjects"]]
    assert names[0] == "shadow"
    assert len(names) == 12


@pytest.mark.parametrize(("checks", "code"), [((OK, FAILED), 0), ((OK, WRONG), 1)])
def test_json_has_everything_whatever_is_found(capsys, asked, checks, code):
    asked["checks"] = checks
    run("--json", code=code)
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["ok"] is found["certificate"]["ok"] is (code == 0)
    assert found["certificate"]["checks"][0]["relative"] == 7e-16
    assert found["environment"]["packages"]["shadowmetric"]
    assert isinstance(found["warnings"], list)


@pytest.mark.parametrize("word", ["--quick", "--no-ranks"])
def test_quick_starts_no_process(capsys, monkeypatch, word):
    monkeypatch.setattr(library, "certificate", None)
    run(word)
    out = capsys.readouterr().out
    assert "torch" in out
    assert "gathered" not in out
    run(word, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["certificate"] is None
    assert found["ok"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--ranks", "9"), "--ranks is 9; it must be from 1 to 8."),
        (("--loss", "shade"), "--loss is 'shade'; choose from shadow"),
        (("--loss", "nowhere:make"), "--loss nowhere:make: 'nowhere' could not be imported"),
        (("--cross-batch-memory", "-3"), "--cross-batch-memory is -3; it must be 0 or more."),
        (("--dim", "0"), "--dim is 0; it must be 1 or more."),
    ],
)
def test_a_mistake_is_one_sentence(capsys, words, sentence):
    run(*words, code=2)
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith(sentence)
    assert errors.count("\n") == 1


def test_a_loss_of_the_current_folder_that_fails_on_one_rank_is_one_sentence(capfd, monkeypatch, tmp_path):
    (tmp_path / "lossesofmine.py").write_text(FAILS_ON_ONE)
    monkeypatch.chdir(tmp_path)
    run("--json", "--loss", "lossesofmine:make", code=1)
    out, errors = capfd.readouterr()
    assert out == ""
    said = [line for line in errors.splitlines() if line.replace("made", "")]  # two ranks may share a line
    failed = "make() failed (RuntimeError: no luck); it must give the loss without arguments."
    assert said == [f"Stopped: rank 1 failed: --loss lossesofmine:make: {failed}"]
