"""`shadowmetric search`: tables, JSON, pages, small images, and the mistakes people make."""

import json
import os
import shutil

import pytest
from image_folders import FakeModel, indexed, ran, write_folder, write_image, write_run

from shadowmetric.app.cli.tables.search import HALF
from shadowmetric.app.serving.model import RunModel


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    """An index of a fake model, its model found without a run."""
    monkeypatch.chdir(tmp_path)
    model = FakeModel()
    indexed(model, write_folder(tmp_path / "photos"), tmp_path / "x.shadowmx")
    monkeypatch.setattr("shadowmetric.app.serving.model.model_of", lambda *_: model)


QUERY = "photos/ant/0.png"


def run(capsys, *words, code=0):
    return ran(capsys, "search", *words, code=code)


def test_help_says_what_there_is(capsys):
    said = run(capsys, "--help").out
    assert "Usage: shadowmetric search INDEX IMAGE... [OPTIONS]" in said
    for option in ("--top", "--class", "--model", "--json", "--html", "--thumbnails"):
        assert option in said


def test_a_table_names_the_nearest(capsys):
    said = run(capsys, "x.shadowmx", QUERY, "--top", "3").out
    lines = [line.split() for line in said.splitlines() if line.strip()]
    assert " ".join(lines[0]).startswith("0.png: ant: ")
    assert lines[1] == ["cosine", "class", "path"]
    assert lines[3] == ["1.000", "ant", "ant/0.png"]
    assert len(lines) == 6
    assert HALF not in said


def test_every_query_has_a_table(capsys):
    said = run(capsys, "x.shadowmx", QUERY, "photos/bee/1.png", "--top", "2").out
    assert said.count("cosine") == 2
    assert said.index("ant/0.png") < said.index("bee/1.png")


def test_more_than_there_are_is_all_of_them(capsys):
    assert len(json.loads(run(capsys, "x.shadowmx", QUERY, "--top", "1000000", "--json").out)[0]["hits"]) == 12


def test_json_has_the_documented_keys(capsys):
    found = json.loads(run(capsys, "x.shadowmx", QUERY, "photos/bee/1.png", "--json", "--top", "4").out)
    assert [answer["query"] for answer in found] == [QUERY, "photos/bee/1.png"]
    for answer in found:
        assert answer.keys() == {"query", "hits", "classes"}
        assert sum(vote["share"] for vote in answer["classes"]) == pytest.approx(1)
        assert len(answer["hits"]) == 4
        for hit in answer["hits"]:
            assert hit.keys() == {"key", "path", "label", "similarity"}
            assert len(hit["key"]) == 32
        similarities = [hit["similarity"] for hit in answer["hits"]]
        assert similarities == sorted(similarities, reverse=True)
    assert found[1]["hits"][0]["path"] == "bee/1.png"


def test_a_class_is_searched_alone(capsys):
    found = json.loads(run(capsys, "x.shadowmx", QUERY, "--class", "cat", "--json").out)
    assert [hit["label"] for hit in found[0]["hits"]] == ["cat"] * 4


def test_thumbnails_are_shown_if_they_are_asked_for(capsys, tmp_path):
    said = run(capsys, "x.shadowmx", QUERY, "--thumbnails", "--top", "2").out
    assert said.count(HALF) == 3 * 8 * 4  # the query and two neighbors of 8 by 8 pixels, two in a letter
    assert "image" in said
    (tmp_path / "photos" / "ant" / "0.png").rename(tmp_path / "moved.png")
    assert "not there" in run(capsys, "x.shadowmx", "moved.png", "--thumbnails", "--top", "1").out


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 300), (300, 1), (17, 31)])
def test_thumbnails_of_odd_sizes_are_shown(capsys, tmp_path, width, height):
    write_image(tmp_path / "odd.png", 0, width, height)
    run(capsys, "x.shadowmx", "odd.png", "--thumbnails", "--html", "odd.html")


def test_a_page_is_written(capsys, tmp_path):
    said = run(capsys, "x.shadowmx", QUERY, "--html", "new/found.html", "--top", "5")
    assert "The page is new/found.html" in said.out
    assert (tmp_path / "new" / "found.html").read_text("utf-8").count("<img") == 6
    said = run(capsys, "x.shadowmx", QUERY, "--html", "found.html", "--json")
    assert "The page is found.html" in said.err
    json.loads(said.out)


def test_some_broken_queries_are_named_at_the_end(capsys, tmp_path):
    (tmp_path / "bad.png").write_text("text")
    said = run(capsys, "x.shadowmx", "bad.png", QUERY, "none.png", "--json", code=1)
    assert [answer["query"] for answer in json.loads(said.out)] == [QUERY]
    lines = said.err.splitlines()
    assert lines[0].startswith("bad.png cannot be read as an image")
    assert lines[1:] == ["none.png is not there.", "Stopped: 2 of 3 images cannot be read."]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give an index and an image: `shadowmetric search INDEX IMAGE`."),
        (["x.shadowmx"], "give an index and an image: `shadowmetric search INDEX IMAGE`."),
        (["none", QUERY], "none is not there; write it by `shadowmetric index RUN FOLDER --out none`."),
        (["photos", QUERY], "photos is a folder; name the index"),
        ([QUERY, "x.shadowmx"], "0.png is no index: it begins with b'\\x89PNG"),
        (["x.shadowmx", "x.shadowmx"], "x.shadowmx cannot be read as an image"),
        (["x.shadowmx", "photos"], "photos is a folder; name an image."),
        (["x.shadowmx", "none.png"], "none.png is not there."),
        (["x.shadowmx", QUERY, "--top", "0"], "--top is 0; it must be 1 or more."),
        (["x.shadowmx", QUERY, "--top", "-3"], "--top is -3; it must be 1 or more."),
        (["x.shadowmx", QUERY, "--top", "few"], "few"),
        (["x.shadowmx", QUERY, "--class", "bees"], "no image has the class 'bees'; there are 3, such as bee"),
        (["x.shadowmx", QUERY, "--html", "photos"], "--html 'photos' is a folder; name a file, such as"),
        (["x.shadowmx", QUERY, "--html", "x.shadowmx/y.html"], "x.shadowmx"),
        (["http://host/x", QUERY], "http… is no place of an index"),
        (["x.shadowmx", QUERY, "--tpo", "3"], "--tpo"),
    ],
)
def test_mistakes_are_one_sentence(capsys, words, sentence):
    said = run(capsys, *words, code=2)
    assert sentence in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
def test_what_is_no_file_is_not_waited_for(capsys, tmp_path, place):
    os.mkfifo(tmp_path / "pipe")
    said = run(capsys, "x.shadowmx", place, code=2).err
    assert said == f"{place} is a pipe or a device and no file; name an image.\n"


def test_ctrl_c_ends_it(capsys, monkeypatch):
    monkeypatch.setattr("shadowmetric.app.serving.model.model_of", lambda *_: FakeModel(fail_at=0))
    assert run(capsys, "x.shadowmx", QUERY, code=130).err == "Stopped.\n"


def test_a_damaged_index_is_one_sentence(capsys, tmp_path):
    stored = bytearray((tmp_path / "x.shadowmx").read_bytes())
    stored[-1] ^= 1
    (tmp_path / "x.shadowmx").write_bytes(stored)
    said = run(capsys, "x.shadowmx", QUERY, code=2).err
    assert "x.shadowmx is damaged (its array paths); index the images again" in said
    assert said.count("\n") == 1


def test_the_model_is_found_or_named(capsys, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run")
    indexed(RunModel(tmp_path / "run"), tmp_path / "photos", tmp_path / "y.shadowmx")
    assert "ant/0.png" in run(capsys, "y.shadowmx", QUERY).out
    shutil.move(tmp_path / "run", tmp_path / "moved")
    said = run(capsys, "y.shadowmx", QUERY, code=2).err
    assert "the model that made the index is not at " in said
    assert "name its run by --model" in said
    assert "ant/0.png" in run(capsys, "y.shadowmx", QUERY, "--model", "moved").out
    write_run(tmp_path / "other", 1)
    said = run(capsys, "y.shadowmx", QUERY, "--model", "other", code=2).err
    assert "other has other weights than those that made the index" in said
