"""`shadowmetric serve`: a run, an index of it, a server in a process of its own; and the mistakes people make."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import httpx
import numpy as np
import pytest
from PIL import Image
from report_runs import quick_settings, write_images

from shadowmetric.app.cli import main
from shadowmetric.app.cli import serve as command
from shadowmetric.app.serving.model import open_model, places_of
from shadowmetric.app.training.loop import train
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.index_file import Contents, write_index


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a run, images and their index."""
    folder = tmp_path_factory.mktemp("served")
    data = write_images(folder / "data.npz", names=("one", "two"))
    train(quick_settings(f"npz:{data}", epochs=1), folder / "run")
    (folder / "images").mkdir()
    with np.load(data) as found:
        for number, pixels in enumerate(found["images"][::10]):
            Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
    write_index_of(folder, folder / "some.shadowmx")
    return folder


def write_index_of(folder, out):
    model = open_model(folder / "run")
    paths = sorted(path.name for path in (folder / "images").iterdir())
    squares = np.stack([model.about.shape.square(open_image(folder / "images" / path)) for path in paths])
    about = replace(model.about, root=str(folder / "images"), model=places_of(model.about, out))
    rows, count = model.embed(squares).astype(np.float16), len(paths)
    contents = Contents(rows, np.full(count, -1, np.int32), np.zeros((count, 32), np.uint8), paths, ())
    write_index(out, about, contents)


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *map(str, words)])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_server_says_where_it_is_answers_and_ends_by_a_signal(made):
    shutil.copyfile(made / "some.shadowmx", made / "cut.shadowmx")
    words = [sys.executable, "-m", "shadowmetric", "serve", "cut.shadowmx", "--port", "0"]
    process = subprocess.Popen(words, cwd=made, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+) searches 8 images\. Ctrl-C stops\.\n", line)
        assert found, line + process.stderr.read() if process.poll() else line
        body = (made / "images" / "3.png").read_bytes()
        hits = httpx.post(f"{found[1]}/api/search", content=body, params={"k": 2}, timeout=60).json()["hits"]
        assert hits[0]["path"] == "3.png"
        assert hits[0]["similarity"] == pytest.approx(1, abs=1e-3)
        assert httpx.get(f"{found[1]}{hits[0]['image']}", timeout=60).headers["Content-Type"] == "image/jpeg"
        assert httpx.get(f"{found[1]}/", timeout=60).text.startswith("<!doctype html>")
        os.truncate(made / "cut.shadowmx", 100)  # the rows are mapped, and reading them would be the end
        assert httpx.post(f"{found[1]}/api/search", content=body, params={"k": 2}, timeout=60).json()["hits"] == hits
        process.send_signal(signal.SIGTERM)
        said, wrong = process.communicate()
        assert said == "Stopped.\n"
        assert not wrong or "is refused; a copy of the one before is searched on" in wrong
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no index is named; write `shadowmetric serve INDEX`"),
        (["nowhere.shadowmx"], "nowhere.shadowmx is not there"),
        (["http://host/index"], "http… is no place of an index"),
        (["some.shadowmx", "--port", "70000"], "--port is 70000; give a number from 0"),
        (["some.shadowmx", "--max-upload-mb", "0"], "--max-upload-mb is 0; give 1 or more."),
        (["some.shadowmx", "--waiting", "-1"], "--waiting is -1; give 0 or more."),
        (["some.shadowmx", "--at-once", "0"], "--at-once is 0; give 1 or more."),
        (["some.shadowmx", "--model", "nowhere"], "nowhere"),
        (["some.shadowmx", "--name", "a.example", "--name", "http://b"], "--name is 'http://b'; give the name alone"),
        (["data.npz"], "data.npz is no index"),
    ],
)
def test_mistakes_are_one_sentence(capsys, made, monkeypatch, words, sentence):
    monkeypatch.chdir(made)
    port = [] if "--port" in words else ["--port", "0"]
    assert sentence in refused(capsys, *words, *port)


def test_a_taken_port_is_one_sentence(capsys, made):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(capsys, made / "some.shadowmx", "--port", port)
    assert f"port {port} of 127.0.0.1 is taken; choose another" in said


def test_a_missing_extra_is_named(capsys, made, monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None if name == "uvicorn" else name)
    said = refused(capsys, made / "some.shadowmx")
    assert "uvicorn is not installed; run `pip install 'shadowmetric[serve]'`." in said


def test_others_are_warned_of_and_the_page_is_opened_when_asked_for(capsys, made, monkeypatch):
    from shadowmetric.app.serving.server import index as opening

    opened = []
    monkeypatch.setattr(command, "show_page", opened.append)
    monkeypatch.setattr(opening, "serve", lambda app, listening, begun: begun())
    main_without_exit("serve", made / "some.shadowmx", "--port", "0", "--host", "0.0.0.0", "--open")
    said = capsys.readouterr().out
    assert "Everybody who reaches 0.0.0.0 can search, and see the images." in said
    assert said.endswith("Stopped.\n")
    assert len(opened) == 1
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", opened[0])
    main_without_exit("serve", made / "some.shadowmx", "--port", "0")
    assert "Everybody" not in capsys.readouterr().out
    assert len(opened) == 1


def test_a_model_that_moved_is_named_by_model(capsys, made, tmp_path, monkeypatch):
    from shadowmetric.app.serving.server import index as opening

    monkeypatch.setattr(opening, "serve", lambda app, listening, begun: begun())
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(made / "run", elsewhere / "moved")
    main_without_exit("serve", made / "some.shadowmx", "--port", "0", "--model", elsewhere / "moved")
    assert "searches 8 images" in capsys.readouterr().out


def main_without_exit(*words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert (ended.value.code or 0) == 0
