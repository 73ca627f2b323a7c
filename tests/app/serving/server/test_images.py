"""Thumbnails: of images of the index below its folder, without metadata, and of nothing else."""

import io
import os

import pytest
from PIL import Image

from shadowmetric.app.serving.server.thumbnails import Thumbnails
from shadowmetric.runtime.entries import key_of

SECRET = (250, 5, 245)


def opened(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "image/jpeg"
    return Image.open(io.BytesIO(answer.content))


def show(asked, path, **parameters):
    return asked.client.get(f"/api/images/{key_of(path)}", params=parameters)


def test_a_thumbnail_is_as_large_as_asked_for_and_never_larger_than_the_image(tmp_path, made):
    made.image_of((9, 99, 199), size=(900, 600)).save(tmp_path / "large.png")
    made.image_of((9, 99, 199), size=(30, 20)).save(tmp_path / "small.png")
    asked = made.Asked(made.write_small_index(tmp_path / "i", tmp_path, ["large.png", "small.png"]))
    assert opened(show(asked, "large.png")).size == (256, 171)
    assert opened(show(asked, "large.png", side=16)).size == (16, 11)
    assert opened(show(asked, "large.png", side=1024)).size == (900, 600)
    assert opened(show(asked, "small.png")).size == (30, 20)
    for side in (15, 1025, "x", 10**20):
        answer = show(asked, "large.png", side=side)
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith("side is ")


@pytest.mark.parametrize(("kind", "mode"), [("JPEG", "RGB"), ("PNG", "RGBA"), ("WEBP", "RGB"), ("TIFF", "I;16")])
def test_nothing_but_pixels_is_sent(tmp_path, made, kind, mode):
    exif = Image.Exif()
    exif[271] = "SECRET maker"
    exif[274] = 6
    exif.get_ifd(0x8825)[1] = "N"
    image = Image.new(mode, (60, 40))
    more = {"comment": b"SECRET words", "icc_profile": b"SECRET profile"} if kind == "JPEG" else {}
    image.save(tmp_path / "a", kind, exif=exif, **more)
    asked = made.Asked(made.write_small_index(tmp_path / "i", tmp_path, ["a"], labels=["x"]))
    answer = show(asked, "a")
    found = opened(answer)
    assert b"SECRET" not in answer.content
    assert dict(found.getexif()) == {}
    assert not {"comment", "exif", "icc_profile", "xmp"} & set(found.info)
    assert found.size == (40, 60), "upright"


def test_links_and_paths_out_of_the_folder_are_404(tmp_path, made):
    root, outside = tmp_path / "images", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    Image.new("RGB", (20, 20), SECRET).save(outside / "secret.png")
    Image.new("RGB", (20, 20)).save(root / "good.png")
    (root / "link.png").symlink_to(outside / "secret.png")
    (root / "folder").symlink_to(outside)
    (root / "inside.png").symlink_to(root / "good.png")
    (root / "circle.png").symlink_to(root / "circle.png")
    os.mkfifo(root / "pipe.png")
    beside = tmp_path / "images-private"  # begins with the same letters
    beside.mkdir()
    Image.new("RGB", (20, 20), SECRET).save(beside / "secret.png")
    bad = [
        "link.png",
        "folder/secret.png",
        "../outside/secret.png",
        "good.png/../../outside/secret.png",
        "../images-private/secret.png",
        str(outside / "secret.png"),
        "/dev/zero",
        "/etc/passwd",
        "circle.png",
        "pipe.png",
        "gone.png",
        "nul\0.png",
        "folder",
        ".",
        "",
        "x" * 5000,
    ]
    index = made.write_small_index(tmp_path / "i", root, ["good.png", "inside.png"], labels=[None, None])
    assert show(made.Asked(index), "good.png").status_code == 200
    assert show(made.Asked(index), "inside.png").status_code == 200
    forged = made.write_small_index(tmp_path / "forged", tmp_path / "nowhere", bad, labels=[None] * len(bad))
    asked = made.Asked(forged)
    object.__setattr__(asked.service.watched.now.gallery.about, "root", str(root))
    for path in bad:
        answer = show(asked, path)
        assert answer.status_code == 404, path
        assert str(tmp_path) not in answer.text


@pytest.mark.parametrize("root", ["", ".", "relative", "/nowhere/at/all", "nul\0"])
def test_an_index_without_a_folder_shows_nothing(tmp_path, made, root, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png")
    asked = made.Asked(made.write_small_index(tmp_path / "i", tmp_path, ["a.png"], labels=[None]))
    assert show(asked, "a.png").status_code == 200
    object.__setattr__(asked.service.watched.now.gallery.about, "root", root)
    assert show(asked, "a.png").status_code == 404


def test_files_of_the_folder_that_are_not_in_the_index_are_404(tmp_path, made):
    for name in ("in.png", "out.png"):
        Image.new("RGB", (20, 20)).save(tmp_path / name)
    asked = made.Asked(made.write_small_index(tmp_path / "i", tmp_path, ["in.png"], labels=[None]))
    assert show(asked, "in.png").status_code == 200
    assert show(asked, "out.png").status_code == 404
    assert asked.client.get("/api/images/in.png").status_code == 404


def test_a_file_that_is_no_image_any_more_is_404(tmp_path, made):
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png")
    asked = made.Asked(made.write_small_index(tmp_path / "i", tmp_path, ["a.png"], labels=[None]))
    (tmp_path / "a.png").write_text("words")
    answer = show(asked, "a.png")
    assert answer.status_code == 404
    assert "this image of the index is no image" in answer.json()["detail"]


def test_hostile_names_are_shown_and_searched_by(tmp_path, made):
    names = ["<script>alert(1)</script>.png", "a b&c?d=#%2e.png", "Grün/🐦.png", os.fsdecode(b"\xff\xfe.png")]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (20, 20)).save(tmp_path / name, "PNG")
    paths = sorted(names)
    asked = made.Asked(made.write_small_index(tmp_path / "i", tmp_path, paths, labels=["\udcff", "x", "x", None]))
    for name in names:
        assert show(asked, name).status_code == 200
    found = asked.client.get(f"/api/images/{key_of(names[0])}/neighbors").json()["hits"]
    assert {hit["path"] for hit in found} == {"a b&c?d=#%2e.png", "Grün/🐦.png", "\ufffd\ufffd.png"}
    assert "\ufffd" in [one["name"] for one in asked.client.get("/api/index").json()["classes"]]
    body = made.as_bytes(Image.new("RGB", (20, 20)))
    assert len(asked.search(body, **{"class": "\ufffd"}).json()["hits"]) == 1


def test_browsers_may_keep_a_thumbnail_until_its_file_changes(tmp_path, made):
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png", "BMP")
    asked = made.Asked(made.write_small_index(tmp_path / "i", tmp_path, ["a.png"], labels=[None]))
    first = show(asked, "a.png")
    assert first.headers["Cache-Control"] == "private, max-age=3600"
    tag = {"If-None-Match": first.headers["ETag"]}
    again = asked.client.get(f"/api/images/{key_of('a.png')}", headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    Image.new("RGB", (20, 20), "white").save(tmp_path / "a.png", "BMP")  # as many bytes
    os.utime(tmp_path / "a.png", (1, 1))
    changed = asked.client.get(f"/api/images/{key_of('a.png')}", headers=tag)
    assert changed.status_code == 200
    assert changed.content != first.content


def test_thumbnails_in_memory_have_a_bound_and_the_last_asked_for_stay():
    kept = Thumbnails(100, kept_bytes=1000)
    for number in range(50):
        kept.keep(str(number), bytes(100))
        kept.find("0")
    assert kept.bytes == sum(map(len, kept.kept.values())) == 1000
    assert kept.find("0") is not None
    assert kept.find("1") is None
    kept.keep("0", bytes(300))
    assert kept.bytes == sum(map(len, kept.kept.values())) <= 1000
    kept.keep("huge", bytes(5000))
    assert kept.bytes == 0
    assert not kept.kept


def test_a_thumbnail_is_drawn_once(asked, monkeypatch):
    first = show(asked, "red/0.png").content
    monkeypatch.setattr("shadowmetric.app.serving.server.thumbnails.render_thumbnail", lambda *_: 1 / 0)
    assert show(asked, "red/0.png").content == first
