"""`shadowmetric index`: what it says, what goes on after Ctrl-C, and the mistakes people make."""

import os
import shlex
import sys

import pytest
from filelock import FileLock
from image_folders import FakeModel, ran, write_folder, write_image, write_run

from shadowmetric.runtime.index_file import read_index


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "photos")


@pytest.fixture
def model(monkeypatch):
    """A model that needs no run."""
    found = FakeModel()
    monkeypatch.setattr("shadowmetric.app.serving.model.open_model", lambda _: found)
    return found


def run(capsys, *words, code=0):
    return ran(capsys, "index", *words, code=code)


def test_help_says_what_there_is(capsys):
    said = run(capsys, "--help").out
    assert "Usage: shadowmetric index RUN FOLDER|TABLE.csv [OPTIONS]" in said
    for option in ("--out", "--to", "--approximate", "--batch"):
        assert option in said
    assert "shadowmetric index runs/birds photos" in said


def test_an_index_is_made_and_renewed(capsys, model, tmp_path):
    said = run(capsys, "run", "photos").out
    assert "12 images: 12 added, 0 changed, 0 removed, 0 unchanged; 12 embedded." in said
    assert "The index is photos.shadowmx, 0.0 MB." in said
    assert "shadowmetric search photos.shadowmx IMAGE" in said
    write_image(tmp_path / "photos" / "ant" / "0.png", 999)
    (tmp_path / "photos" / "bee" / "0.png").unlink()
    said = run(capsys, "run", "photos").out
    assert "11 images: 0 added, 1 changed, 1 removed, 10 unchanged; 1 embedded." in said
    assert model.embedded == 13


def test_a_real_run_makes_an_index(capsys, tmp_path):
    write_run(tmp_path / "run")
    run(capsys, "run", "photos", "--out", "deep/x.shadowmx", "--batch", "5")
    about, found = read_index(tmp_path / "deep" / "x.shadowmx")
    assert len(found) == 12
    assert about.model == ("../run", str(tmp_path / "run"))
    assert about.trained["data"] == "digits"


def test_the_index_has_the_whole_name_of_its_folder(capsys, model, tmp_path):
    for name in ("photos.2024", "photos.2025"):
        write_folder(tmp_path / name, ("ant",), 2)
        run(capsys, "run", name)
    assert sorted(file.name for file in tmp_path.glob("*.shadowmx")) == ["photos.2024.shadowmx", "photos.2025.shadowmx"]


def test_the_index_of_another_folder_of_that_name_is_not_replaced_unless_it_is_named(capsys, model, tmp_path):
    write_folder(tmp_path / "other" / "photos", ("ant",), 2)
    run(capsys, "run", "photos")
    before = (tmp_path / "photos.shadowmx").read_bytes()
    said = run(capsys, "run", "other/photos", code=2).err
    assert said == (
        f"photos.shadowmx is the index of {tmp_path / 'photos'}, and would become that of "
        f"{tmp_path / 'other' / 'photos'}; name another file by --out, or replace this one by --out photos.shadowmx.\n"
    )
    assert (tmp_path / "photos.shadowmx").read_bytes() == before
    assert "2 images: 2 added" in run(capsys, "run", "other/photos", "--out", "others.shadowmx").out
    assert "2 images: " in run(capsys, "run", "other/photos", "--out", "photos.shadowmx").out


def test_a_folder_that_moved_with_its_index_and_a_table_that_grew_are_renewed(capsys, model, tmp_path):
    run(capsys, "run", "photos")
    os.renames(tmp_path / "photos", tmp_path / "new" / "photos")
    assert "12 unchanged; 0 embedded" in run(capsys, "run", "new/photos").out
    table = tmp_path / "new" / "some.csv"
    table.write_text("path\nphotos/ant/0.png\n")
    run(capsys, "run", "new/some.csv")
    write_image(tmp_path / "more.png", 7)
    table.write_text("path\nphotos/ant/0.png\n../more.png\n")
    assert "2 images" in run(capsys, "run", "new/some.csv").out


def test_a_table_is_indexed(capsys, model, tmp_path):
    (tmp_path / "some.csv").write_text("path,label\nphotos/ant/0.png,x\nphotos/bee/0.png,y\n")
    assert "2 images: 2 added" in run(capsys, "run", "some.csv").out
    assert read_index(tmp_path / "some.shadowmx")[1].classes == ("x", "y")


def test_broken_images_are_named_some_of_them(capsys, model, tmp_path):
    for number in range(7):
        (tmp_path / "photos" / f"bad{number}.png").write_bytes(bytes([number]))
    (tmp_path / "photos" / "notes.txt").write_text("x")
    said = run(capsys, "run", "photos").out
    assert "7 images cannot be read, and left out:" in said
    assert said.count("cannot be read as an image") == 5
    assert "and 2 more." in said
    assert "1 file that is no image by its ending was passed over." in said


def test_approximate_says_how_good_it_is(capsys, model):
    pytest.importorskip("faiss", reason="faiss is not installed")
    assert "Approximate, ivf: finds " in run(capsys, "run", "photos", "--approximate", "ivf").out


@pytest.mark.parametrize("out", [[], ["--out", "my index.shadowmx"]])
def test_ctrl_c_prints_the_command_that_goes_on(capsys, monkeypatch, tmp_path, out):
    stopped = FakeModel(fail_at=1)
    monkeypatch.setattr("shadowmetric.app.serving.model.open_model", lambda _: stopped)
    said = run(capsys, "a run", "photos", "--batch", "5", *out, code=130).err
    assert said.startswith("Stopped and saved. Go on with:\n")
    words = shlex.split(said.splitlines()[1])
    assert words[:4] == ["shadowmetric", "index", "a run", "photos"]
    model = FakeModel()
    monkeypatch.setattr("shadowmetric.app.serving.model.open_model", lambda _: model)
    assert "12 images: 12 added, 0 changed, 0 removed, 0 unchanged; 7 embedded." in run(capsys, *words[2:]).out
    assert model.embedded == 7
    assert len(read_index(tmp_path / (out[1] if out else "photos.shadowmx"))[1]) == 12


def test_the_command_that_goes_on_has_every_option(capsys, monkeypatch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    stopped = FakeModel(fail_at=1)
    monkeypatch.setattr("shadowmetric.app.serving.model.open_model", lambda _: stopped)
    given = ["run", "photos", "--out", "x.shadowmx", "--approximate", "hnsw", "--batch", "5"]
    said = run(capsys, *given, code=130).err
    assert shlex.split(said.splitlines()[1]) == ["shadowmetric", "index", *given]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give a run and a folder: `shadowmetric index RUN FOLDER`."),
        (["run"], "give a run and a folder: `shadowmetric index RUN FOLDER`."),
        (["none", "photos"], "none is not there; give the folder of a run"),
        (["photos", "photos"], "photos holds no run: there is no settings.yaml in it."),
        (["run", "none"], "none is not there; give a folder of images, or a table"),
        (["run", "empty"], "empty has no images; known endings are .jpg"),
        (["run", "photos/ant/0.png"], "0.png is no CSV file in UTF-8"),
        (["run", "photos", "--batch", "0"], "--batch is 0; it must be 1 or more."),
        (["run", "photos", "--batch", "many"], "many"),
        (
            ["run", "photos", "--out", "empty"],
            "--out 'empty' is a folder; name a file, such as 'empty/index.shadowmx'.",
        ),
        (["photos/ant/0.png", "photos"], "photos/ant/0.png is a file; give the folder of a run, which"),
        (["run", "photos", "--out", "qdrant://h/c"], "--out is a file; write into a vector store by --to"),
        (["run", "photos", "--to", "x.shadowmx"], "; give an address that begins with qdrant://"),
        (["run", "photos", "--to", "qdrant://h/c", "--out", "x"], "leave --out and --approximate"),
        (
            ["run", "photos", "--approximate", "best"],
            "--approximate is 'best'; choose one of hnsw, ivf, or none",
        ),
        (["run", "photos", "--ouut", "x"], "--ouut"),
        (["run", "photos", "more"], "more"),
    ],
)
def test_mistakes_are_one_sentence(capsys, tmp_path, words, sentence):
    (tmp_path / "empty").mkdir()
    said = run(capsys, *words, code=2)
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not list(tmp_path.rglob("*.shadowmx"))


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("letter.txt", "letter.txt is no index: it begins with b'Dear aun'"),
        ("photos/ant/0.png", "0.png is no index"),
        ("letter.txt/x.shadowmx", "letter.txt"),
        ("n" * 300, "n"),
    ],
)
def test_places_where_no_index_can_be_are_refused(capsys, model, tmp_path, out, sentence):
    (tmp_path / "letter.txt").write_text("Dear aunt, ...")
    said = run(capsys, "run", "photos", "--out", out, code=2)
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert (tmp_path / "letter.txt").read_text() == "Dear aunt, ..."
    assert model.embedded == 0


def test_a_damaged_index_says_what_to_do(capsys, model, tmp_path):
    run(capsys, "run", "photos")
    file = tmp_path / "photos.shadowmx"
    file.write_bytes(file.read_bytes()[:-1])
    said = run(capsys, "run", "photos", code=2).err
    assert "photos.shadowmx is cut short" in said
    assert "remove" in said


def test_two_at_once_are_refused(capsys, model, tmp_path):
    with FileLock(tmp_path / ".photos.shadowmx.lock"):
        said = run(capsys, "run", "photos", code=2).err
    assert said == "another process is indexing into photos.shadowmx; wait for it, or name another --out.\n"


def test_a_place_that_cannot_be_written_to_is_no_lock_of_another(capsys, model):
    said = run(capsys, "run", "photos", "--out", "/proc/x.shadowmx", code=2).err
    assert said.startswith("the folder /proc cannot be written to (")
    assert said.endswith("; name another --out.\n")


def test_a_missing_faiss_is_named(capsys, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    said = run(capsys, "run", "photos", "--approximate", "ivf", code=2).err
    assert "faiss is not installed; run `pip install 'shadowmetric[approximate]'`." in said
    assert model.embedded == 0


def test_folders_with_any_name_are_indexed(capsys, model, tmp_path):
    for name in ('it\'s a "folder"', "bytes \udcff", "n" * 200):
        os.rename(tmp_path / "photos", tmp_path / name)
        run(capsys, "run", name)
        assert (tmp_path / f"{name}.shadowmx").exists()
        os.rename(tmp_path / name, tmp_path / "photos")
