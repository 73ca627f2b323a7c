"""Everything wrong that people and disks do to indexes, images and names: counted, refused or handled, nothing lost.

Tests that loop hold the number of inputs to LEAST_TRIED, so that none can pass by trying nothing.
"""

import copy
import gzip
import io
import json
import os
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
from image_folders import (
    ESCAPE,
    HOSTILE,
    FakeModel,
    described,
    forged,
    indexed,
    pixels,
    ran,
    small_index,
    taken_apart,
    write_folder,
    write_image,
)
from PIL import Image

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.errors import BrokenImage, Mistake
from shadowmetric.runtime.images import Shape, open_image
from shadowmetric.runtime.index_file import MAGIC, MOST_HEADER, START, VERSION, read_index

FLIPS = 1500
LEAST_TRIED = {
    "truncations": 900,
    "flips": FLIPS,
    "forged": 90,
    "foreign": 9,
    "archives": 50,
    "cut images": 300,
    "folder": 60,
}
BOMB = 60_000_000  # bytes that an archive of a thousandth of them becomes


def refused(path):
    """Return the sentence by which an index is refused, None if it is not; anything else that happens is our bug."""
    sentence = None
    try:
        read_index(path)
    except Mistake as mistake:
        sentence = str(mistake)
    if sentence is not None:
        assert "\n" not in sentence
        assert sentence.startswith(str(path))
        assert sentence.endswith(".")
    return sentence


def held(path):
    """Return all that an index says, to be compared."""
    about, found = read_index(path)
    entries = [found.entry(number) for number in range(len(found))]
    return about, entries, found.rows.tobytes(), found.hashes.tobytes(), found.classes


def test_every_truncation_of_an_index_is_refused(tmp_path):
    whole = small_index(tmp_path / "x").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "x").write_bytes(whole[:length])
        assert refused(tmp_path / "x"), f"{length} of {len(whole)} bytes were accepted"
    assert len(whole) >= LEAST_TRIED["truncations"], f"{len(whole)} truncations"
    for more in (b"\0", b"x" * 64, whole):
        (tmp_path / "x").write_bytes(whole + more)
        assert "bytes too many" in str(refused(tmp_path / "x"))


def test_flipped_bits_and_bytes_are_refused_or_lie_between_the_arrays(tmp_path):
    file = small_index(tmp_path / "x")
    whole, wanted, random = file.read_bytes(), held(file), np.random.default_rng(0)
    padding = len(whole) - START.size - START.unpack(whole[: START.size])[2]
    padding -= sum(len(array) for array in taken_apart(file)[1].values())
    accepted = 0
    for number in range(FLIPS):
        place = number if number < len(whole) else int(random.integers(len(whole)))
        changed = bytearray(whole)
        changed[place] ^= 1 << int(random.integers(8)) if number % 2 else int(random.integers(1, 256))
        file.write_bytes(changed)
        if refused(file) is None:
            accepted += 1
            assert held(file) == wanted, f"byte {place} changed what the index holds"
            assert whole[place] == 0
    assert accepted <= padding * 3, f"{accepted} of {FLIPS} flips accepted, {padding} bytes lie between arrays"
    assert len(whole) < FLIPS


def test_several_changes_at_once_are_refused(tmp_path):
    file = small_index(tmp_path / "x")
    whole, random = file.read_bytes(), np.random.default_rng(1)
    for _ in range(200):
        changed = bytearray(whole)
        start, length = int(random.integers(len(whole))), int(random.integers(70, 300))
        changed[start : start + length] = random.bytes(min(length, len(whole) - start))
        file.write_bytes(changed)
        if changed != whole and len(whole) - start >= 70:
            assert refused(file), f"{length} random bytes at {start} were accepted"


FORGED_NUMBERS = [-1, 0, 2, 6, 2**31, 2**62, 2**63, 10**30, -(10**30), 0.5, 1e308, float("inf"), float("nan")]
FORGED_OTHERS = [None, "5", "x", [], {}, [5], True]
PLACES = [
    ("rows",),
    ("classes",),
    ("about",),
    ("about", "dim"),
    ("about", "shape"),
    ("about", "shape", "size"),
    ("about", "shape", "channels"),
    ("about", "model"),
    ("about", "trained"),
    ("arrays",),
    ("arrays", "rows"),
    ("arrays", "rows", "bytes"),
    ("arrays", "rows", "sha256"),
    ("arrays", "path_ends", "bytes"),
    ("arrays", "paths", "bytes"),
]


def changed_header(header, place, value):
    header = copy.deepcopy(header)
    inside = header
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = value
    return header


def test_headers_with_a_right_checksum_and_wrong_words_are_refused(tmp_path):
    file = small_index(tmp_path / "x")
    (header, arrays), wanted, tried = taken_apart(file), held(file), 0
    for place in PLACES:
        for value in FORGED_NUMBERS + FORGED_OTHERS:
            file.write_bytes(forged(changed_header(header, place, value), arrays))
            tried += 1
            if refused(file) is None:  # other words for the same thing, or for what is not about the rows
                found = held(file)
                assert (found[2:4], len(found[1])) == (wanted[2:4], 5), f"{place} = {value!r} was accepted"
    assert tried >= LEAST_TRIED["forged"], f"{tried} forged headers"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"{",
        b"3",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b"[" * 100_000,
        b'{"rows":' + b"9" * 5000,
    ],
    ids=lambda text: repr(text[:9]),
)
def test_a_header_that_is_no_object_is_refused(tmp_path, text):
    file = small_index(tmp_path / "x")
    file.write_bytes(forged(text, taken_apart(file)[1]))
    assert refused(file)


@pytest.mark.parametrize("name", ["rows", "labels", "hashes", "path_ends", "paths"])
def test_an_index_without_an_array_is_refused(tmp_path, name):
    file = small_index(tmp_path / "x")
    header, arrays = taken_apart(file)
    del header["arrays"][name], arrays[name]
    file.write_bytes(forged(header, arrays))
    assert refused(file)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("path_ends", np.array([9, 18, 27, 36, 9999], "<i8")),
        ("path_ends", np.array([9, 18, 27, 36, 44], "<i8")),
        ("path_ends", np.array([9, 18, 5, 36, 45], "<i8")),
        ("path_ends", np.array([-9, 18, 27, 36, 45], "<i8")),
        ("path_ends", np.array([9, 18, 27, 2**62, 45], "<i8")),
        ("labels", np.array([0, 1, 2, 3, 0], "<i4")),
        ("labels", np.array([0, 1, 2, -2, 0], "<i4")),
        ("labels", np.array([0, 1, 2, 2**31 - 1, 0], "<i4")),
        ("labels", np.array([0, 1, 2], "<i4")),
        ("rows", np.zeros((5, 3), "<f2")),
        ("hashes", np.zeros((4, 32), np.uint8)),
        ("paths", np.zeros(0, np.uint8)),
    ],
    ids=str,
)
def test_arrays_with_right_checksums_that_do_not_fit_are_refused(tmp_path, name, array):
    file = small_index(tmp_path / "x")
    header, arrays = taken_apart(file)
    arrays[name] = array.tobytes()
    file.write_bytes(forged(header | {"arrays": described(arrays)}, arrays))
    assert refused(file)


@pytest.mark.parametrize("length", [0, 1, 2**16, MOST_HEADER, MOST_HEADER + 1, 2**31, 2**32 - 1])
def test_forged_lengths_of_the_header_are_refused_without_memory(tmp_path, length):
    file = small_index(tmp_path / "x")
    whole = file.read_bytes()
    file.write_bytes(START.pack(MAGIC, VERSION, length, whole[16:48]) + whole[START.size :])
    tracemalloc.start()
    assert refused(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= MOST_HEADER + 2**20


def foreign_files():
    """Yield files of other formats."""
    archive, array = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("../../evil.txt", "x" * 1000)
    np.save(array, np.zeros((5, 4), np.float16))
    yield from {
        "empty": b"",
        "zip": archive.getvalue(),
        "npy": array.getvalue(),
        "safetensors": struct.pack("<Q", 2) + b"{}" + bytes(64),
        "png": stored(Image.fromarray(pixels(0))),
        "pickle": b"\x80\x04\x95" + bytes(100),
        "text": b"shadowmetric index\n" * 50,
        "start of ours": b"shadowm",
        "other letters": b"SHADOWMX" + bytes(100),
        "zeros": bytes(5000),
    }.items()


def test_other_formats_are_refused(tmp_path):
    tried = 0
    for name, content in foreign_files():
        (tmp_path / name).write_bytes(content)
        assert "is no index: it " in str(refused(tmp_path / name)), name
        tried += 1
    assert tried >= LEAST_TRIED["foreign"], f"{tried} foreign files"


def archives(secret):
    """Return hostile archives by name: bombs, names that lead out, links to a secret file."""
    found = {}
    for name, members in {
        "bomb": {"zeros.png": bytes(BOMB)},
        "up": {"../../../evil.png": b"x", "..\\..\\evil.png": b"x"},
        "absolute": {"/tmp/shadowmetric-evil.png": b"x", "C:\\evil.png": b"x"},
        "many": {f"{number}.png": b"" for number in range(5000)},
        "image": {"0.png": stored(COLORED)},
    }.items():
        found[f"{name}.zip"], found[f"{name}.tar.gz"] = zip_of(members), gzip.compress(tar_of(members))
        if name != "bomb":
            found[f"{name}.tar"] = tar_of(members)
    linked = zipfile.ZipInfo("link.png")
    linked.external_attr = 0o120777 << 16
    found["link.zip"] = zip_of({linked: os.fsencode(secret)})
    found["link.tar"] = tar_of({}, link=secret)
    found["nested.zip"] = zip_of({"inner.zip": zip_of({"inner.zip": found["bomb.zip"]})})
    found["an image and a zip.zip"] = b"\x89PNG\r\n\x1a\n" + found["up.zip"]
    return found


def zip_of(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return file.getvalue()


def tar_of(members, link=None):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as opened:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
        if link is not None:
            member = tarfile.TarInfo("link.png")
            member.type, member.linkname = tarfile.SYMTYPE, str(link)
            opened.addfile(member)
    return file.getvalue()


def everything_below(folder):
    return {str(path) for path in folder.rglob("*")}


def test_archives_in_place_of_images_and_indexes_are_refused_and_never_opened(tmp_path):
    secret = tmp_path / "secret.png"
    write_image(secret, 3)
    photos, out, tried = tmp_path / "photos", tmp_path / "x", 0
    write_folder(photos, ("old",), 3)
    named = archives(secret)
    for name, content in named.items():
        for ending in (".png", ".jpg"):
            (photos / "old" / f"{name}{ending}").write_bytes(content)
            assert image_refused(content, name)
            tried += 1
        (tmp_path / f"{name}.shadowmx").write_bytes(content)
        assert "is no index: it begins with " in str(refused(tmp_path / f"{name}.shadowmx")), name
        tried += 1
    before = everything_below(tmp_path)
    tracemalloc.start()
    done = indexed(FakeModel(), photos, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BOMB / 2, "a bomb went off"
    assert done.images == 3
    assert len(done.broken) == 2 * len(named)
    assert all(sentence.count("\n") == 0 and sentence.startswith("old/") for sentence in done.broken)
    assert everything_below(tmp_path) - before <= {str(out), str(tmp_path / ".x.lock")}
    assert not os.path.exists("/tmp/shadowmetric-evil.png")
    assert tried >= LEAST_TRIED["archives"], f"{tried} archives"


def stored(image, kind="PNG", **more):
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


COLORED = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8))
KINDS = {"PNG": {}, "JPEG": {}, "GIF": {}, "WEBP": {"lossless": True}, "TIFF": {}, "BMP": {}, "PPM": {}, "AVIF": {}}


def image_refused(content, name):
    """Return whether an image is refused, in one sentence."""
    try:
        assert open_image(io.BytesIO(content), name).mode in ("L", "RGB")
    except BrokenImage as broken:
        sentence = str(broken)
    else:
        return False
    assert "\n" not in sentence
    assert sentence.startswith(name)
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_cut_and_flipped_images_are_refused_or_read(kind):
    whole, random, tried = stored(COLORED, kind, **KINDS[kind]), np.random.default_rng(0), 0
    assert not image_refused(whole, "whole")
    for length in [*range(min(40, len(whole))), *np.linspace(40, 0.9 * len(whole), 40).astype(int).tolist()]:
        tried += 1
        assert image_refused(whole[:length], "cut") or length > 0.5 * len(whole), f"{length} of {len(whole)} bytes"
    for _ in range(150):
        tried += 1
        changed = bytearray(whole)
        for _ in range(int(random.integers(1, 4))):
            changed[int(random.integers(len(whole)))] = int(random.integers(256))
        image_refused(bytes(changed), "flipped")
    assert tried * len(KINDS) >= LEAST_TRIED["cut images"], f"{tried * len(KINDS)} cut or flipped images"


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of(width, height, content=b"", depth=8, color=2):
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(content)) + chunk(b"IEND", b"")


def tiff_of(width, height):
    tags = [
        (256, 4, width),
        (257, 4, height),
        (258, 3, 8),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8),
        (278, 4, height),
        (279, 4, 9),
    ]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(4)


def gif_of(width, height):
    screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    return b"GIF89a" + screen + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x4c\x01\x00;"


def webp_of(width, height):
    bits = (width - 1) | (height - 1) << 14
    body = b"VP8L" + struct.pack("<I", 5) + b"\x2f" + struct.pack("<I", bits) + b"\0"
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def bad_images():
    """Return names of files that no index may hold, with their bytes."""
    png, jpeg = stored(COLORED), stored(COLORED, "JPEG")
    found = {
        "zero.png": b"",
        "one.png": b"\x89",
        "text.jpg": b"This is no image.\n" * 100,
        "page.gif": b"<html><script>alert(1)</script></html>",
        "svg.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        "pdf.jpg": b"%PDF-1.4\n" + bytes(500),
        "zip.png": b"PK\3\4" + bytes(500),
        "zeros.bmp": bytes(5000),
        "bomb.png": png_of(60000, 60000, bytes(1000)),
        "bomb16.png": png_of(60000, 60000, bytes(1000), 16, 6),
        "bombgray.png": png_of(2**31 - 1, 2**31 - 1, b"x", 1, 0),
        "little more.png": png_of(12_000, 12_000, bytes(1000)),
        "bomb.gif": gif_of(65535, 65535),
        "bomb.tif": tiff_of(60000, 60000),
        "bomb2.tiff": tiff_of(2**32 - 1, 2**32 - 1),
        "bomb.webp": webp_of(16384, 16384),
        "zero sides.png": png_of(0, 0),
        "strip.png": stored(Image.new("L", (1, 100_000))),
        "strip.jpg": stored(Image.new("RGB", (60_000, 1)), "JPEG"),
        "short of rows.png": png_of(20, 20, bytes(61 * 10 - 5)),
        "bad sum.png": png[:60] + bytes([png[60] ^ 255]) + png[61:],
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "head.jpg": jpeg[:20],
    }
    for kind, options in KINDS.items():
        whole = stored(COLORED, kind, **options)
        for part in (0.1, 0.3, 0.45):
            found[f"{part} of a {kind}.png"] = whole[: int(part * len(whole))]
    return found


def good_images():
    """Return names of odd files that can be read, with their bytes."""
    palette = Image.fromarray(pixels(1, 20, 20) % 4, "P")
    palette.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    frames = [Image.fromarray(pixels(seed, 16, 16)) for seed in range(4)]
    exif = Image.Exif()
    exif[0x0112] = 6
    return {
        "plain.png": stored(COLORED),
        "wrong ending.gif": stored(COLORED, "JPEG"),
        "UPPER.JPEG": stored(COLORED, "PNG", compress_level=1),
        "sixteen.png": stored(Image.fromarray(pixels(2, 20, 20).astype(np.uint16) * 257)),
        "cmyk.jpg": stored(COLORED.convert("CMYK"), "JPEG"),
        "cmyk.tif": stored(COLORED.convert("CMYK"), "TIFF"),
        "palette.png": stored(palette, transparency=2),
        "palette.gif": stored(palette, "GIF", transparency=1),
        "animated.gif": stored(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "animated.webp": stored(frames[0], "WEBP", save_all=True, append_images=frames[1:]),
        "turned.jpg": stored(COLORED, "JPEG", exif=exif.tobytes()),
        "bad exif.jpg": stored(COLORED, "JPEG", exif=b"Exif\0\0garbagegarbage"),
        "bad exif 2.jpg": stored(COLORED, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"),
        "gray.jpg": stored(COLORED.convert("L"), "JPEG"),
        "bits.png": stored(COLORED.convert("1")),
        "clear.webp": stored(COLORED.convert("RGBA"), "WEBP"),
        "pixel.png": stored(Image.new("RGB", (1, 1), "red")),
        "long.png": stored(Image.new("L", (3, 900))),
        "trailing.png": stored(COLORED) + b"<?php evil ?>" * 100,
        "many.ppm": stored(COLORED, "PPM"),
    }


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_everything_wrong_gives_an_index_of_the_good_ones(tmp_path):
    photos, out, model = tmp_path / "photos", tmp_path / "x", FakeModel(shape=Shape(96, 96, 3))
    good, bad = good_images(), bad_images()
    write_folder(photos, ("old",), 5)
    indexed(model, photos, out)
    rows = {path: read_index(out)[1].rows[number].copy() for number, path in enumerate(read_index(out)[1].paths)}
    for name, content in (good | bad).items():
        (photos / "new").mkdir(exist_ok=True)
        (photos / "new" / name).write_bytes(content)
    (photos / "new" / "folder.jpg").mkdir()
    os.mkfifo(photos / "new" / "pipe.jpg")
    done = indexed(model, photos, out, batch=7)
    about, found = read_index(out)
    assert set(found.paths) == {f"new/{name}" for name in good} | set(rows)
    assert len(done.broken) == len(bad)
    for name in bad.keys() - {"strip.png", "strip.jpg"}:  # test_embedding.py asks for the names of strips
        assert [sentence for sentence in done.broken if sentence.startswith(f"new/{name}")], name
    for number, path in enumerate(found.paths):
        assert np.isfinite(found.rows[number]).all()
        if path in rows:
            assert np.array_equal(found.rows[number], rows[path])
    assert done.unchanged == 5
    assert done.embedded == len(good)
    assert len(good) + len(bad) >= LEAST_TRIED["folder"], f"{len(good)} good and {len(bad)} bad images"
    assert about.root == str(photos)


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.attributes = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """An index of images with hostile names in hostile classes, searched by a model that needs no run."""
    model, photos = FakeModel(), tmp_path / "photos"
    for number, name in enumerate(HOSTILE):
        write_image(photos / name.removesuffix(".png") / name, number)
    monkeypatch.setattr("shadowmetric.app.serving.model.open_model", lambda _: model)
    monkeypatch.setattr("shadowmetric.app.serving.model.model_of", lambda *_: model)
    monkeypatch.chdir(tmp_path)
    return photos


CONTROLS = {chr(number) for number in [*range(32), 127, *range(128, 160)]} - {"\n"}


def test_hostile_names_go_through_index_search_and_page_as_text(hostile, capfd):
    said = ran(capfd, "index", "run", str(hostile), "--out", "x.shadowmx")
    assert f"{len(HOSTILE)} images: {len(HOSTILE)} added" in said.out
    queries = [str(hostile / name.removesuffix(".png") / name) for name in HOSTILE]
    said = ran(capfd, "search", "x.shadowmx", "--json", "--html", "page.html", "--", *queries)
    found = json.loads(said.out)
    wanted = [f"{name.removesuffix('.png')}/{name}" for name in HOSTILE]
    assert [answer["hits"][0]["path"] for answer in found] == wanted
    assert [answer["hits"][0]["label"] for answer in found] == [name.removesuffix(".png") for name in HOSTILE]
    assert not CONTROLS & set(said.out)
    elements = Elements((hostile.parent / "page.html").read_text("utf-8"))
    assert not elements.elements & {"script", "b&gt;", "svg", "iframe", "a"}
    assert elements.elements <= {"html", "meta", "title", "style", "h1", "h2", "section", "ol", "li", "figure"} | {
        "figcaption",
        "p",
        "img",
        "b",
        "br",
    }
    assert elements.attributes <= {"lang", "charset", "name", "content", "src", "alt", "class"}


@pytest.mark.parametrize("thumbnails", ["--no-thumbnails", "--thumbnails"])
def test_the_table_obeys_no_name(hostile, capfd, thumbnails):
    ran(capfd, "index", "run", str(hostile), "--out", "x.shadowmx")
    for name in HOSTILE:
        query = str(hostile / name.removesuffix(".png") / name)
        said = ran(capfd, "search", "x.shadowmx", thumbnails, "--top", "16", "--", query)
        assert not CONTROLS & set(said.out + said.err)
        assert "smile:" in said.out
        assert "[red]" in said.out


@pytest.mark.parametrize("name", [name for name in HOSTILE if CONTROLS & set(name) or "\n" in name])
def test_refusals_obey_no_name(hostile, capfd, name):
    write_image(hostile.parent / "ok.png", 1)
    bad = hostile / "ant" / name
    bad.parent.mkdir()
    bad.write_bytes(b"text")
    said = ran(capfd, "index", "run", str(hostile), "--out", "x.shadowmx")
    assert not CONTROLS & set(said.out + said.err)
    said = ran(capfd, "search", "x.shadowmx", "--", str(bad), code=2)
    assert not CONTROLS & set(said.err)
    said = ran(capfd, "search", "x.shadowmx", "--", "ok.png", str(bad), code=1)
    assert not CONTROLS & set(said.out + said.err)


def test_folders_and_notes_obey_no_name(hostile, capfd):
    folder = hostile.with_name(f"{ESCAPE}[2J")
    hostile.rename(folder)
    said = ran(capfd, "index", "run", str(folder))
    assert not CONTROLS & set(said.out + said.err)
    folder.rename(hostile)
    said = ran(capfd, "index", "run", str(hostile), "--out", f"{ESCAPE}[2J.shadowmx")
    assert not CONTROLS & set(said.out + said.err)
    said = ran(capfd, "search", f"{ESCAPE}[2J.none", "x.png", code=2)
    assert not CONTROLS & set(said.err)


def test_hostile_names_are_searched_by_class(hostile, capfd):
    ran(capfd, "index", "run", str(hostile), "--out", "x.shadowmx")
    gallery = FileGallery(hostile.parent / "x.shadowmx")
    assert set(gallery.classes()) == {name.removesuffix(".png") for name in HOSTILE}
    for label in gallery.classes():
        (hits,) = gallery.nearest(np.eye(1, 6, dtype=np.float32), 5, label)
        assert [hit.entry.label for hit in hits] == [label]
