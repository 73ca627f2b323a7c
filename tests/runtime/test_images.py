"""Reading images: upright, eight bits, on white; refused by one sentence; squared as plain loops would."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from image_folders import pixels, write_image
from PIL import Image

from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.images import MOST_PIXELS, Shape, open_image

COLORS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


def stored(image, kind="PNG", **more):
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def read(stored_bytes, name="x"):
    return open_image(io.BytesIO(stored_bytes), name)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_of_the_right_size_is_taken_as_it_is(channels):
    gray = pixels(0, 6, 6)
    square = Shape(6, 6, channels).square(Image.fromarray(gray))
    assert square.shape == (channels, 6, 6)
    assert square.dtype == np.uint8
    assert square.flags.c_contiguous
    assert all((plane == gray).all() for plane in square)


@pytest.mark.parametrize(("width", "height"), [(9, 6), (6, 9), (13, 6), (6, 11)])
def test_the_middle_is_cut_out(width, height):
    gray = pixels(1, width, height)
    left, top = (width - 6) // 2, (height - 6) // 2
    found = Shape(6, 6, 1).square(Image.fromarray(gray))
    for y in range(6):
        for x in range(6):
            assert found[0, y, x] == gray[top + y, left + x]


def test_colors_keep_their_order():
    found = Shape(5, 5, 3).square(Image.fromarray(COLORS))
    assert (found == COLORS[:, 1:6].transpose(2, 0, 1)).all()


@pytest.mark.parametrize(
    ("size", "wanted"), [((10, 20), (16, 32)), ((20, 10), (32, 16)), ((33, 16), (33, 16)), ((1, 1), (16, 16))]
)
def test_the_short_side_is_resized_and_the_long_one_in_proportion(size, wanted):
    assert Shape(12, 16, 3).resized_size(*size) == wanted
    assert Shape(12, 16, 3).square(Image.new("RGB", size)).shape == (3, 12, 12)


@pytest.mark.parametrize("given", [(0, 8, 3), (9, 8, 3), (8, 8, 2), (8, 8, 4), (-1, -1, 1)])
def test_a_shape_that_no_model_has_is_refused(given):
    with pytest.raises(ValueError, match="must be"):
        Shape(*given)


def turned(gray, orientation):
    """Return pixels as they are to be seen, by the definition of the EXIF mark."""
    first_row_is = {1: "top", 2: "top", 3: "bottom", 4: "bottom", 5: "left", 6: "right", 7: "right", 8: "left"}
    first_column_is = {1: "left", 2: "right", 3: "right", 4: "left", 5: "top", 6: "top", 7: "bottom", 8: "bottom"}
    seen = gray.T if first_row_is[orientation] in ("left", "right") else gray
    if "bottom" in (first_row_is[orientation], first_column_is[orientation]):
        seen = seen[::-1]
    if "right" in (first_row_is[orientation], first_column_is[orientation]):
        seen = seen[:, ::-1]
    return seen


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_mark_is_obeyed(orientation):
    gray = pixels(2, 7, 4)
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = np.asarray(read(stored(Image.fromarray(gray), exif=exif.tobytes())))
    assert np.array_equal(found, turned(gray, orientation))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_there_is_not_turns_nothing(orientation):
    gray = pixels(2, 7, 4)
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert np.array_equal(np.asarray(read(stored(Image.fromarray(gray), exif=exif.tobytes()))), gray)


DAMAGED_EXIF = [
    b"Exif\0\0",
    b"Exif\0\0garbagegarbage",
    b"Exif\0\0II*\0\x08\0\0\0\xff\xff",
    b"Exif\0\0II*\0\xff\xff\xff\xff",
    b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x02AB\0\0\0\0\0\0",  # an orientation in letters
]


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("exif", DAMAGED_EXIF)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_damaged_exif_does_not_cost_the_image(kind, exif):
    assert read(stored(Image.fromarray(pixels(3, 7, 4)), kind, exif=exif)).size == (7, 4)


def test_transparency_is_laid_on_white():
    colors = np.dstack([COLORS, np.full(COLORS.shape[:2], 255, np.uint8)])
    colors[:, 3, 3], colors[:, 4, 3] = 0, 51
    found = np.asarray(read(stored(Image.fromarray(colors))))
    assert found.shape == (5, 7, 3)
    assert (found[:, :3] == COLORS[:, :3]).all()
    assert (found[:, 3] == 255).all()
    assert np.abs(found[:, 4].astype(float) - (0.2 * COLORS[:, 4] + 0.8 * 255)).max() <= 1


def test_a_palette_with_a_transparent_color_is_laid_on_white():
    image = Image.fromarray(np.array([[0, 1], [1, 0]], np.uint8), "P")
    image.putpalette([10, 20, 30, 40, 50, 60])
    found = np.asarray(read(stored(image, transparency=0)))
    assert found.tolist() == [[[255] * 3, [40, 50, 60]], [[40, 50, 60], [255] * 3]]


def test_gray_with_transparency_is_laid_on_white():
    gray = np.dstack([pixels(4), np.zeros((8, 8), np.uint8)])
    assert (np.asarray(read(stored(Image.fromarray(gray)))) == 255).all()


def test_sixteen_bits_are_scaled_to_eight():
    deep = np.random.default_rng(5).integers(0, 65536, (4, 6)).astype(np.uint16)
    for kind in ("PNG", "TIFF"):
        found = read(stored(Image.fromarray(deep), kind))
        assert found.mode == "L"
        assert (np.asarray(found) == deep // 256).all()


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "LAB", "F", "I", "1", "P"])
def test_other_kinds_of_pixels_become_color_or_gray(mode):
    kind = "PNG" if mode in ("1", "P") else "TIFF"
    image = Image.fromarray(COLORS).convert("RGB")
    image = image.convert("L").convert(mode) if mode in ("F", "I") else image.convert(mode)
    found = read(stored(image, kind))
    assert found.mode in ("L", "RGB")
    assert found.size == (7, 5)


def test_the_first_image_of_an_animation_is_taken():
    frames = [Image.fromarray(np.full((6, 6), shade, np.uint8)) for shade in (10, 200, 90)]
    for kind in ("GIF", "WEBP", "PNG"):
        stored_bytes = stored(frames[0], kind, save_all=True, append_images=frames[1:])
        assert np.abs(np.asarray(read(stored_bytes).convert("L")).astype(int) - 10).max() <= 2, kind


def test_a_file_is_known_by_its_content(tmp_path):
    path = write_image(tmp_path / "x.png", 6)
    path.rename(tmp_path / "x.jpg")
    assert np.array_equal(np.asarray(open_image(tmp_path / "x.jpg")), pixels(6))


def refusal(source, **more):
    with pytest.raises(BrokenImage) as broken:
        open_image(source, **more)
    assert "\n" not in str(broken.value)
    assert str(broken.value).endswith(".")
    return str(broken.value)


def test_refusals_name_the_file_or_what_it_is_called(tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"no image")
    assert refusal(tmp_path / "x.jpg").startswith(f"{tmp_path / 'x.jpg'} cannot be read as an image (")
    assert refusal(tmp_path / "x.jpg", name="an upload").startswith("an upload cannot be read as an image (")
    assert refusal(tmp_path / "missing.jpg") == f"{tmp_path / 'missing.jpg'} is not there."


def test_a_folder_and_a_pipe_are_refused_unopened(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(BrokenImage, match=r"pipe\.png is a pipe or a device and no file; name an image\.$"):
        open_image(tmp_path / "pipe.png")
    with pytest.raises(BrokenImage, match=r"is a folder; name an image\.$"):
        open_image(tmp_path)


def test_refusals_of_bytes_show_no_addresses_of_memory():
    assert " at 0x" not in refusal(io.BytesIO(b"no image"), name="x")


def test_a_limit_of_pixels_holds_before_anything_is_decoded(monkeypatch):
    whole = stored(Image.fromarray(pixels(7, 20, 10)))
    assert read(whole).size == (20, 10)
    assert open_image(io.BytesIO(whole), "x", most_pixels=200).size == (20, 10)
    monkeypatch.setattr(Image.core, "new", None)  # what decoding needs
    said = refusal(io.BytesIO(whole), name="x", most_pixels=199)
    assert said == "x has 20 × 10 pixels; the most is 199."


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("side", [11_586, 16_000, 16_385, 60_000, 2**31 - 1])
def test_bombs_are_refused_by_their_headers(side):
    assert side**2 > MOST_PIXELS
    whole = bytearray(stored(Image.fromarray(pixels(8))))
    whole[16:24] = struct.pack(">II", side, side)
    whole[29:33] = struct.pack(">I", zlib.crc32(whole[12:29]))
    assert "pixels" in refusal(io.BytesIO(bytes(whole)), name="x")


def test_a_strip_that_would_get_too_long_is_refused():
    with pytest.raises(BrokenImage, match="an image has 1 × 100000 pixels, which is too narrow"):
        Shape(96, 96, 3).square(Image.new("L", (1, 100_000)))
    assert Shape(8, 8, 1).square(Image.new("L", (1, 100_000))).shape == (1, 8, 8)
