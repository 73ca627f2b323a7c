"""Search by upload and by key: what is found, and every way to be refused."""

import io
import struct
import tempfile
import threading
import zlib

import numpy as np
import pytest
from PIL import Image

from shadowmetric.app.serving.server import uploads
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.runtime.entries import key_of


def refused(answer, status, words):
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["detail"]
    assert words in answer.json()["detail"]
    assert answer.json()["detail"].endswith(".")
    return answer


def png_header(width, height):
    """Return a PNG that says to be this large, in a few bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_an_upload_finds_its_like_best_first(asked, made, red):
    answer = asked.search(red, k=made.EACH + 2)
    assert answer.status_code == 200
    found = answer.json()
    assert [hit["label"] for hit in found["hits"][: made.EACH]] == ["red"] * made.EACH
    assert len(found["hits"]) == made.EACH + 2
    similarity = [hit["similarity"] for hit in found["hits"]]
    assert similarity == sorted(similarity, reverse=True)
    assert set(found["milliseconds"]) == {"decode", "embed", "search"}
    first = found["hits"][0]
    assert first["key"] == key_of(first["path"])
    assert first["image"] == f"/api/images/{first['key']}"


def test_an_image_of_the_index_finds_itself(asked, images):
    root, paths = images
    first = asked.search((root / paths[3]).read_bytes(), k=1).json()["hits"][0]
    assert first["path"] == paths[3]
    assert first["similarity"] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
@pytest.mark.parametrize("said", ["text/plain", "multipart/form-data; boundary=x"])
def test_formats_are_known_by_content_whatever_is_said_of_them(asked, made, kind, said):
    body = made.as_bytes(made.image_of(made.COLORS["blue"], seed=50), kind)
    answer = asked.client.post("/api/search", content=body, headers={"Content-Type": said})
    assert answer.json()["hits"][0]["label"] == "blue"


def test_a_class_is_searched_alone(asked, red, made):
    found = asked.search(red, k=50, **{"class": "green"}).json()["hits"]
    assert [hit["label"] for hit in found] == ["green"] * made.EACH
    refused(asked.search(red, **{"class": "purple"}), 404, "no image has the class 'purple'")
    long = refused(asked.search(red, **{"class": "x" * 5000}), 404, "no image has the class")
    assert len(long.json()["detail"]) < 200


def test_search_goes_on_from_a_neighbor_which_is_left_out(asked, made):
    key = key_of("red/0.png")
    found = asked.client.get(f"/api/images/{key}/neighbors", params={"k": 5}).json()
    assert [hit["label"] for hit in found["hits"]] == ["red"] * 5
    assert key not in [hit["key"] for hit in found["hits"]]
    assert set(found["milliseconds"]) == {"search"}
    some = asked.client.get(f"/api/images/{key}/neighbors", params={"class": "blue", "k": 200}).json()
    assert [hit["label"] for hit in some["hits"]] == ["blue"] * made.EACH
    all_others = asked.client.get(f"/api/images/{key}/neighbors", params={"k": 200}).json()
    assert len(all_others["hits"]) == 3 * made.EACH - 1


@pytest.mark.parametrize("key", ["0" * 32, "x", "A" * 32, "0" * 31 + "\u0660", "%00", "..%2F..", "' OR 1=1"])
def test_keys_that_are_not_there_are_404(asked, key):
    for address in (f"/api/images/{key}/neighbors", f"/api/images/{key}"):
        answer = asked.client.get(address)
        assert answer.status_code == 404
        assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize("k", [0, -1, 201, 10**30, "many", "", "1.5"])
def test_k_is_refused_out_of_its_range(asked, red, k):
    refused(asked.search(red, k=k), 422, "k is ")
    refused(asked.client.get(f"/api/images/{key_of('red/0.png')}/neighbors", params={"k": k}), 422, "k is ")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the upload is empty"),
        (b"GIF89a", "the upload"),
        (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n\x89PNG\r\n--x--\r\n',
            "the upload is a form; send the bytes of the image alone (curl --data-binary @FILE).",
        ),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "the upload is no image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "the upload is no image"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 50, "the upload"),
        (bytes(range(256)) * 40, "the upload is no image"),
    ],
)
def test_what_is_no_image_is_422(asked, body, words):
    answer = refused(asked.search(body), 422, words)
    assert "0x" not in answer.json()["detail"]
    assert "BytesIO" not in answer.json()["detail"]


def test_images_that_are_cut_short_are_422(asked, made):
    for kind in ("PNG", "JPEG", "WEBP"):
        whole = made.as_bytes(made.image_of((9, 99, 199), size=(300, 200)), kind)
        for share in (0.1, 0.5, 0.9):
            refused(asked.search(whole[: int(share * len(whole))]), 422, "the upload")


def test_random_damage_is_answered_in_one_sentence(asked, made):
    rng = np.random.default_rng(0)
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"):
        whole = np.frombuffer(made.as_bytes(made.image_of((9, 99, 199)), kind), np.uint8)
        for _ in range(15):
            bad = whole.copy()
            bad[rng.integers(0, len(bad), 8)] = rng.integers(0, 256, 8)
            answer = asked.search(bad.tobytes(), k=1)
            assert answer.status_code in (200, 422), answer.text


@pytest.mark.parametrize("size", [(7000, 7000), (40_000, 40_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused_by_its_header(asked, size, monkeypatch):
    def load(self):
        raise AssertionError("it was decoded")

    monkeypatch.setattr(Image.Image, "load", load)
    refused(asked.search(png_header(*size)), 422, "pixels; the most is 40,000,000")


def test_a_strip_that_scaling_would_make_enormous_is_refused(asked, made):
    strip = made.as_bytes(Image.new("L", (3_000_000, 1)))
    assert len(strip) < 10_000
    refused(asked.search(strip), 422, "too narrow a strip")


def test_too_many_bytes_are_413_by_what_is_said_and_by_what_comes(small_index, made):
    asked = made.Asked(small_index, ServeSettings(max_upload_mb=1))

    def parts():
        for _ in range(12):
            yield b"x" * 100_000

    with asked.client:
        refused(asked.search(b"x" * 1_000_001), 413, "more than 1 MB")
        refused(asked.search(parts()), 413, "more than 1 MB")
        refused(asked.search(b"x" * 1_000_000), 422, "the upload is no image")
        liar = asked.client.post("/api/search", content=b"x", headers={"Content-Length": "9" * 5000})
        refused(liar, 413, "more than 1 MB")


def test_an_upload_is_never_on_disk(asked, made, red, monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("a file was made")

    for name in ("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "mkstemp", "mkdtemp"):
        monkeypatch.setattr(tempfile, name, forbidden)
    large = made.as_bytes(Image.fromarray(np.random.default_rng(0).integers(0, 256, (1200, 1200, 3), np.uint8)))
    assert len(large) > 2**21  # more than starlette keeps in memory of a form
    assert asked.search(large).status_code == 200
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert asked.client.post("/api/search", content=large, headers=kind).status_code == 200
    assert asked.search(red).status_code == 200


def test_only_formats_that_pillow_decodes_itself_are_read():
    assert "EPS" not in uploads.FORMATS
    assert set(uploads.FORMATS) <= set(Image.registered_extensions().values()) | {"AVIF"}


def test_an_empty_index_has_no_neighbors(tmp_path, made, red):
    asked = made.Asked(made.write_small_index(tmp_path / "empty.shadowmx", tmp_path, []))
    assert asked.search(red).json()["hits"] == []
    about = asked.client.get("/api/index").json()
    assert (about["images"], about["classes"], about["classes_in_all"]) == (0, [], 0)


def test_a_gallery_that_does_not_answer_is_503_and_keeps_its_reasons(asked, red, monkeypatch, caplog):
    def away(*_):
        raise ConnectionError("postgresql://me:password@store is away")

    monkeypatch.setattr(asked.service.watched.now.gallery, "nearest", away)
    answer = refused(asked.search(red), 503, "the index does not answer")
    assert answer.headers["Retry-After"] == "1"
    assert "password" not in answer.text
    assert "password" in caplog.text


def test_a_failure_of_our_own_is_500_in_one_sentence(asked, red, monkeypatch, caplog):
    monkeypatch.setattr(asked.service.watched.now.model, "embed", lambda _: 1 / 0)
    answer = refused(asked.search(red), 500, "The server failed")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "ZeroDivisionError" in caplog.text
    assert asked.client.get("/health").json() == {"status": "ok"}


def test_many_at_once_get_their_own_answers(asked, made):
    bodies = {name: made.as_bytes(made.image_of(color, seed=77)) for name, color in made.COLORS.items()}
    wrong = []

    def ask(name):
        for _ in range(5):
            found = asked.search(bodies[name], k=3).json()["hits"]
            wrong.extend(hit for hit in found if hit["label"] != name)

    threads = [threading.Thread(target=ask, args=(name,)) for name in made.COLORS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_upright_mark_is_obeyed(asked, made, images):
    root, paths = images
    with Image.open(root / paths[0]) as image:
        turned = image.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[274] = 6
    out = io.BytesIO()
    turned.save(out, "PNG", exif=exif)
    assert asked.search(out.getvalue(), k=1).json()["hits"][0]["path"] == paths[0]
