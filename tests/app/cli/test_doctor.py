"""`shadowmetric doctor`: tables and JSON, exit codes, and a user's loss from the current folder."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from shadowmetric.app.cli import main
from shadowmetric.app.cli.tables.doctor import print_certificate
from shadowmetric.app.doctor.devices import certificate as device_certificate
from shadowmetric.app.doctor.devices.certificate import DeviceCertificate, DeviceCheck
from shadowmetric.app.doctor.ranks import agreement as library
from shadowmetric.app.doctor.ranks.agreement import Certificate, Check
from shadowmetric.losses.catalogue import LOSSES

OK = Check("shadow", 0, "gathered", 0.2, 1e-16, 3e-17, 7e-16, 7, None, "ok")
CONTROL = dataclasses.replace(OK, form="apart", relative=1.4, value_difference=0.1, collectives=1, verdict="control")
WRONG = dataclasses.replace(
    OK, loss="my.losses:make", form="cached", relative=0.5, same_state=False, verdict="different"
)
NAN = float("nan")
FAILED = dataclasses.replace(CONTROL, value_difference=NAN, absolute=NAN, relative=NAN, verdict="failed")
SAME = DeviceCheck("loss", "shadow hard", 32, "equal", 0.0, 0.0, 3, 40)
OTHER = DeviceCheck("miner", "hard", 32, "different", waits=3, kernels=40)
BROKEN = DeviceCheck("loss", "angular", 32, "failed", reason="TypeError: no float64")
PRETENDED = DeviceCertificate("pretended", "a pretended accelerator", False, (SAME,))
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
    seen = {"checks": (OK, CONTROL), "notes": (), "device": PRETENDED}

    def played(subjects, ranks, *, report):
        seen.update(subjects=subjects, ranks=ranks)
        report("starting", 0.0)
        return Certificate(ranks, (30, 11), 1e-8, seen["checks"], seen["notes"])

    def played_device(report):
        report("losses", 0.5)
        return seen["device"]

    monkeypatch.setattr(library, "certificate", played)
    monkeypatch.setattr(device_certificate, "certify_device", played_device)
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
    assert len(set(names)) == len(names) >= 29
    assert set(names) <= set(LOSSES)


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
    monkeypatch.setattr(device_certificate, "certify_device", None)
    run(word)
    out = capsys.readouterr().out
    assert "torch" in out
    assert "gathered" not in out
    run(word, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["certificate"] is None
    assert found["device"] is None
    assert found["ok"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--ranks", "9"), "--ranks is 9; it must be from 1 to 8."),
        (("--loss", "shade"), "--loss is 'shade'; choose from shadow"),
        (("--loss", "nowhere:make"), "--loss nowhere:make: 'nowhere' could not be imported"),
        (("--cross-batch-memory", "-3"), "--cross-batch-memory is -3; it must be 0 or more."),
        (("--dim", "0"), "--dim is 0; it must be 1 or more."),
        (("--certificate", "here.txt"), "--certificate is 'here.txt'; name a file that ends in .json or .md."),
        (("--certificate", "nowhere/a.md"), "--certificate is 'nowhere/a.md'; the folder 'nowhere' is not there"),
    ],
)
def test_a_mistake_is_one_sentence(capsys, words, sentence):
    run(*words, code=2)
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith(sentence)
    assert errors.count("\n") == 1


def test_without_an_accelerator_the_table_says_so_and_has_no_times(capsys, asked):
    run()
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "Losses and miners on a pretended accelerator, beside the CPU" in lines
    assert "loss or miner S verdict value gradient waits kernels" in lines
    assert "loss shadow hard 32 equal 0 0 3 40" in lines
    assert any("nothing was timed on an accelerator" in line for line in lines)
    assert "µs" not in out


def test_with_an_accelerator_the_times_that_were_measured_there_are_shown(capsys, asked):
    timed = dataclasses.replace(SAME, times_us={"ours": 123.4, "dense": 1234.5, "pml": "not installed"})
    asked["device"] = DeviceCertificate("cuda", "Some GPU", True, (timed,))
    run()
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "loss or miner S verdict value gradient waits kernels µs" in lines
    assert "loss shadow hard 32 equal 0 0 3 40 ours 123, dense 1,234" in lines
    assert "Losses and miners ran on Some GPU (cuda)." in lines


@pytest.mark.parametrize("check", [OTHER, BROKEN])
def test_a_device_that_computes_otherwise_ends_with_1_and_a_sentence(capsys, asked, tmp_path, check):
    asked["device"] = DeviceCertificate("mps", "Some GPU", True, (SAME, check))
    file = tmp_path / "doctor.json"
    run("--certificate", str(file), code=1)
    out, errors = capsys.readouterr()
    named = f"{check.kind} {check.name}"
    assert errors.startswith(f"Stopped: on Some GPU (mps) not everything is as on the CPU: {named};")
    assert f"Warning: {named} at 32 rows: {check.verdict}" in out
    assert not json.loads(file.read_text())["device"]["ok"]


def test_the_certificate_is_one_file_and_needs_no_ranks(capsys, monkeypatch, asked, tmp_path):
    monkeypatch.setattr(library, "certificate", None)
    file = tmp_path / "doctor.json"
    run("--quick", "--certificate", str(file), "--json")
    out, errors = capsys.readouterr()
    assert json.loads(out)["device"]["checks"][0]["waits"] == 3
    assert errors == f"The certificate is {file}\n"
    written = json.loads(file.read_text())
    assert written["ranks"] is None
    assert written["device"]["device"] == "pretended"
    assert list(tmp_path.iterdir()) == [file]


def test_a_loss_of_the_current_folder_that_fails_on_one_rank_is_one_sentence(capfd, monkeypatch, tmp_path):
    (tmp_path / "lossesofmine.py").write_text(FAILS_ON_ONE)
    monkeypatch.chdir(tmp_path)
    run("--json", "--loss", "lossesofmine:make", code=1)
    out, errors = capfd.readouterr()
    assert out == ""
    said = [line for line in errors.splitlines() if line.replace("made", "")]  # two ranks may share a line
    failed = "make() failed (RuntimeError: no luck); it must give the loss without arguments."
    assert said == [f"Stopped: rank 1 failed: --loss lossesofmine:make: {failed}"]
