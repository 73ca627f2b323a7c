"""A small share of `python -m benchmarks fuzz`: damage of every format but those that onnxruntime must make first.

Here a few of each are tried with another seed, and the
trial itself is tried: it must see a traceback, another answer, and a sentence that names nothing.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmarks.command import main
from benchmarks.fuzz import command
from benchmarks.fuzz.damage import CHANGES, damage
from benchmarks.fuzz.formats import FORMATS, Format
from benchmarks.fuzz.originals import write_all
from benchmarks.fuzz.trial import OTHER, PLAIN, SAME, SENTENCE, Counts, judge_error, judge_sentence, try_format
from shadowmetric.errors import Mistake

CASES, FEW_CASES, SEED = 12, 2, 1
QUICK = [one for one in FORMATS if not one.exported]


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz") / "files"
    write_all(folder, exported=False)
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("one", QUICK, ids=lambda one: one.name)
def test_damage_ends_in_a_sentence_or_in_a_right_answer(originals, one):
    counts = try_format(one, originals, range(FEW_CASES if one.name.startswith("command: ") else CASES), SEED)
    assert counts.outcomes[OTHER] == 0, counts.examples
    if one.plain is None or one.renewed:
        assert counts.outcomes[SENTENCE] + counts.outcomes[SAME] + counts.outcomes[PLAIN] >= FEW_CASES


def tried(tmp_path, read, plain=None):
    (tmp_path / "a.txt").write_text("12 + 30 = 42 and more words than that")
    counts = try_format(Format("toy", ("a.txt",), read, plain), tmp_path, range(40), 0)
    assert (tmp_path / "a.txt").read_text() == "12 + 30 = 42 and more words than that"
    return counts


def test_what_must_not_be_is_seen(tmp_path):
    def stored(folder):
        return (folder / "a.txt").read_bytes()

    def fragile(folder):
        return stored(folder).decode("ascii").index("42")

    def vague(folder):
        if b"30 = 42" not in stored(folder):
            raise Mistake("something is amiss.")

    assert tried(tmp_path, stored).outcomes == {OTHER: 40}  # another answer
    assert tried(tmp_path, stored, stored).outcomes == {PLAIN: 40}
    assert "another answer" in tried(tmp_path, stored).examples[0]
    assert any("a traceback: ValueError" in one or "UnicodeDecode" in one for one in tried(tmp_path, fragile).examples)
    assert any("it names no file" in one for one in tried(tmp_path, vague).examples)
    assert isinstance(tried(tmp_path, vague), Counts)


def test_a_sentence_is_one_line_about_the_file():
    file = Path("run/settings.yaml")
    assert judge_sentence("run/settings.yaml is damaged.\n", file) == SENTENCE
    assert judge_sentence("--dim is 0; it must be 1 or more.", file) == SENTENCE
    for text in ("", "settings.yaml is damaged", "settings.yaml.\nmore.", "settings.yaml " + "x" * 3000 + "."):
        assert judge_sentence(text, file) != SENTENCE
    assert judge_error(Mistake("settings.yaml is damaged."), file) == SENTENCE
    assert judge_error(ZeroDivisionError("settings.yaml"), file).startswith("a traceback")
    assert judge_error(BrokenPipeError(), file).startswith("exit code 0")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_changes_something_and_takes_any_bytes(change):
    changed = 0
    for case, stored in enumerate([b"", b"x", b"a: 1\nb: -2.5e3\n" * 9, bytes(range(256)) * 5] * 5):
        changed += change(stored, np.random.default_rng(case)) != stored
    assert changed > 5


def test_a_case_is_made_again_from_its_seed():
    first, again = (damage(b"some bytes, 17 of them" * 9, np.random.default_rng([3, 5])) for _ in range(2))
    assert first == again
    assert damage(b"", np.random.default_rng(0))


def test_the_command_counts_and_a_crash_is_no_success(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.fuzz.originals.write_all", lambda folder, exported: folder.mkdir())
    found = [
        {"outcomes": {SENTENCE: 3, SAME: 2}, "examples": []},
        {"outcomes": {}, "examples": ["its process ended with code -11: "]},
    ]
    monkeypatch.setattr(command, "run_format", lambda *given: found.pop(0))
    with pytest.raises(SystemExit) as ended:
        main(["fuzz", "--cases", "5", "--formats", "run: journal", "--csv", str(tmp_path / "x.csv")])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "10 cases of 2 formats" in said.out
    assert "5 cases ended in neither" in said.err
    rows = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert [row["others"] for row in rows] == ["0", "5"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--cases", "0"], "--cases is 0; it must be 1 or more."), (["--formats", "x"], "--formats is 'x'; begin one of")],
)
def test_mistakes_are_one_sentence(capsys, words, sentence):
    with pytest.raises(SystemExit) as ended:
        main(["fuzz", *words])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
