"""`shadowmetric report`: where the page goes, and the mistakes people make."""

import re
import sys

import pytest
from report_runs import quick_settings, write_images

from shadowmetric.app.cli import main
from shadowmetric.app.cli import report as command
from shadowmetric.app.compare.floors import score_raw_pixels, score_untrained
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.preparation import parts_of
from shadowmetric.app.training.runs.run import Run


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["report", *words])
    assert (ended.value.code or 0) == code
    return capsys.readouterr()


@pytest.fixture
def trained(tmp_path):
    data = f"npz:{write_images(tmp_path / 'data.npz')}"
    train(quick_settings(data, epochs=1), tmp_path / "a run")
    return tmp_path / "a run"


def test_the_page_is_in_the_first_folder_or_where_it_is_asked_for(capsys, trained):
    said = run(capsys, "a run").out
    page = trained / "report.html"
    assert f"The page is a run/report.html, {page.stat().st_size / 1e6:.1f} MB" in said
    assert (trained / "showcase.json").exists()
    assert "<img" in page.read_text(encoding="utf-8")
    assert "both.html" in run(capsys, "a run", "--out", "new/both.html", "--no-images").out
    assert "<img" not in (trained.parent / "new" / "both.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in (trained.parent / "new").iterdir()) == ["both.html"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no folder is named; write `shadowmetric report RUN`"),
        (["nowhere"], "nowhere is not there"),
        (["empty"], "empty holds no run"),
        (["empty", "--out", "empty"], "--out 'empty' is a folder"),
    ],
)
def test_mistakes_are_one_sentence(capsys, tmp_path, words, sentence):
    (tmp_path / "empty").mkdir()
    said = run(capsys, *words, code=2).err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "empty" / "report.html").exists()


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None if name == "plotly" else name)
    said = run(capsys, "anything", code=2).err
    assert "plotly is not installed; run `pip install 'shadowmetric[report]'`." in said


def test_only_images_need_open_tsne(capsys, trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    found = command.importlib.util.find_spec
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None if name == "openTSNE" else found(name))
    assert "openTSNE is not installed" in run(capsys, "a run", code=2).err
    assert "The page is a run/report.html" in run(capsys, "a run", "--no-images").out


def test_the_headline_of_a_run_has_its_protocol_and_its_floors(capsys, trained):
    run(capsys, "a run")
    page = (trained / "report.html").read_text(encoding="utf-8")
    lead = re.search(r'<p class="lead">(.*?)</p>\s*<p>(.*?)</p>\s*<p>(.*?)</p>', page)
    assert lead is not None
    assert re.fullmatch(
        r"Of \d+ test images .* a training image of their class as the nearest one\. "
        r"Recall@1 of the test images each searched for among the others: [\d.]+ % \(95 % interval .*\)\.",
        lead[1],
    )
    assert re.fullmatch(
        r"\w+ reaches [\d.]+ % Recall@1 with one seed, each test image searched among the others\.", lead[2]
    )
    floors = re.fullmatch(
        r"Recall@1 of what was never trained: the raw pixels ([\d.]+) %, the embedder before training "
        r"([\d.]+) %\.",
        lead[3],
    )
    assert floors is not None
    parts = parts_of(Run(trained))
    for found, score in zip(floors.groups(), (score_raw_pixels, score_untrained), strict=True):
        assert float(found) == pytest.approx(100 * score(parts)[1]["recall_at_1"], abs=0.006)


def test_neighbors_of_another_class_say_which(capsys, trained):
    run(capsys, "a run")
    page = (trained / "report.html").read_text(encoding="utf-8")
    frames = re.findall(r'<li class="(right|wrong)">(.*?)</li>', page, re.DOTALL)
    assert {kind for kind, _ in frames} == {"right", "wrong"}
    for kind, frame in frames:
        shown = re.search(r'<img src="[^"]*" alt="\d+: (.*?), (?:right|wrong), ', frame)
        named = re.search(r'<span class="name" aria-hidden="true" title="(.*?)">(.*?)</span>', frame)
        assert shown is not None
        assert (named is None) == (kind == "right")
        if named is not None:
            assert named[1] == named[2] == shown[1]


def test_a_folder_whose_name_is_no_utf_8_is_reported_and_its_byte_is_shown_as_a_number(capsys, trained):
    folder = trained.rename(trained.parent / "byte \udcff")
    assert "The page is byte ?/report.html" in run(capsys, "byte \udcff", "--no-images").out
    page = (folder / "report.html").read_bytes().decode("utf-8")
    assert r"\udcff" in page
