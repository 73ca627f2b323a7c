"""Images from arrays and files: every kind of pixel becomes 8 bits of gray or color, and damage is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shadowmetric.app.data import images
from shadowmetric.app.data.images import ArrayImages, FileImages, read_image
from shadowmetric.errors import BrokenImage

GRAYS = np.array([[0, 255, 256, 0x80FF, 65535]], np.uint16)


def noise(height=40, width=50, channels=3):
    found = np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return found[..., 0] if channels == 1 else found


def saved(path: Path, image: Image.Image, **settings) -> Path:
    image.save(path, **settings)
    return path


def palette(*colors):
    """One row of pixels, one of each color."""
    image = Image.new("P", (len(colors), 1))
    image.putpalette([value for color in colors for value in color])
    image.putdata(range(len(colors)))
    return image


def refusal(path: Path) -> str:
    with pytest.raises(BrokenImage) as refused:
        read_image(path)
    sentence = str(refused.value)
    assert sentence.startswith(str(path))
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_color_and_gray_keep_every_pixel(tmp_path):
    color, gray = noise(), noise(channels=1)
    path = saved(tmp_path / "color.png", Image.fromarray(color))
    assert torch.equal(read_image(path), torch.from_numpy(color).permute(2, 0, 1))
    weighted = (color @ np.array([0.299, 0.587, 0.114])).round()
    as_gray = read_image(path, 1)
    assert as_gray.shape == (1, 40, 50)
    assert np.abs(as_gray[0].numpy() - weighted).max() <= 1
    path = saved(tmp_path / "gray.png", Image.fromarray(gray))
    assert torch.equal(read_image(path, 1), torch.from_numpy(gray)[None])
    assert torch.equal(read_image(path), torch.from_numpy(gray).expand(3, -1, -1))
    for channels in (1, 3):
        found = read_image(path, channels)
        assert found.dtype == torch.uint8
        assert found.is_contiguous()


@pytest.mark.parametrize(
    ("suffix", "image", "settings", "colors"),
    [
        ("png", Image.new("1", (1, 1), 1), {}, [(255, 255, 255)]),
        ("png", Image.new("1", (1, 1), 0), {}, [(0, 0, 0)]),
        ("png", Image.new("L", (1, 1), 7), {}, [(7, 7, 7)]),
        ("png", Image.new("L", (1, 1), 7), {"transparency": 7}, [(255, 255, 255)]),
        ("png", Image.new("LA", (1, 1), (10, 128)), {}, [(132, 132, 132)]),  # 255 + (10 - 255) 128 / 255
        ("png", palette((1, 2, 3), (4, 5, 6)), {}, [(1, 2, 3), (4, 5, 6)]),
        ("png", palette((1, 2, 3), (4, 5, 6)), {"transparency": 1}, [(1, 2, 3), (255, 255, 255)]),
        ("png", palette((10, 20, 30), (4, 5, 6)), {"transparency": b"\x80\x00"}, [(132, 137, 142), (255, 255, 255)]),
        ("gif", palette((1, 2, 3), (4, 5, 6)), {"transparency": 0}, [(255, 255, 255), (4, 5, 6)]),
        ("png", Image.new("RGB", (1, 1), (7, 8, 9)), {"transparency": (7, 8, 9)}, [(255, 255, 255)]),
        ("png", Image.new("RGBA", (1, 1), (10, 20, 30, 128)), {}, [(132, 137, 142)]),
        ("png", Image.new("RGBA", (1, 1), (10, 20, 30, 0)), {}, [(255, 255, 255)]),
        ("png", Image.new("RGBA", (1, 1), (10, 20, 30, 255)), {}, [(10, 20, 30)]),
        ("tif", Image.new("CMYK", (1, 1), (0, 255, 0, 0)), {}, [(255, 0, 255)]),
        ("tif", Image.new("CMYK", (1, 1), (0, 0, 0, 255)), {}, [(0, 0, 0)]),
        ("jpg", Image.new("CMYK", (1, 1), (0, 0, 0, 255)), {}, [(0, 0, 0)]),
        ("png", Image.fromarray(GRAYS), {}, [(gray >> 8,) * 3 for gray in GRAYS[0].tolist()]),
        ("tif", Image.fromarray(GRAYS), {}, [(gray >> 8,) * 3 for gray in GRAYS[0].tolist()]),
        ("tif", Image.fromarray(np.array([[-1, 511, 10**6]], np.int32)), {}, [(0,) * 3, (1,) * 3, (255,) * 3]),
        ("tif", Image.fromarray(np.array([[-3, 7.0, 999]], np.float32)), {}, [(0,) * 3, (7,) * 3, (255,) * 3]),
    ],
)
def test_every_mode(tmp_path, suffix, image, settings, colors):
    path = saved(tmp_path / f"image.{suffix}", image, **settings)
    found = read_image(path)
    assert found.dtype == torch.uint8
    assert found.permute(1, 2, 0).tolist() == [[list(color) for color in colors]]
    gray = read_image(path, 1)
    weighted = [round(0.299 * red + 0.587 * green + 0.114 * blue) for red, green, blue in colors]
    assert gray.shape == (1, 1, len(colors))
    assert (gray[0, 0] - torch.tensor(weighted)).abs().max() <= 1


@pytest.mark.parametrize("most", [65535, 4095])
def test_a_gray_map_of_two_bytes_is_scaled_too(tmp_path, most):
    values = np.array([0, most // 4 + 1, most // 2 + 1, most])
    (tmp_path / "map.pgm").write_bytes(b"P5\n4 1\n%d\n" % most + values.astype(">u2").tobytes())
    assert read_image(tmp_path / "map.pgm", 1).flatten().tolist() == [0, 64, 128, 255]


@pytest.mark.parametrize("kind", ["RGB", "RGBA", "P", "L", "I;16"])
@pytest.mark.parametrize("orientation", range(10))
def test_the_orientation_mark_is_obeyed(tmp_path, orientation, kind):
    """By the meaning of the mark: where row 0 and column 0 of what is stored belong in what is seen."""
    stored = np.array([[10, 20, 30], [40, 50, 60]], np.uint8)
    seen = {
        2: stored[:, ::-1],  # right side
        3: stored[::-1, ::-1],  # bottom right
        4: stored[::-1],  # bottom left
        5: stored.T,  # left top
        6: stored[::-1].T,  # right top: to be turned clockwise
        7: stored[::-1, ::-1].T,  # right bottom
        8: stored[:, ::-1].T,  # left bottom
    }.get(orientation, stored)
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(stored.astype(np.uint16) << 8) if kind == "I;16" else Image.fromarray(stored)
    image = image if image.mode == kind else image.convert(kind)
    assert read_image(saved(tmp_path / "turned.png", image, exif=exif), 1)[0].tolist() == seen.tolist()


def test_a_phone_s_portrait_stands(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path / "phone.jpg", Image.new("RGB", (30, 20)), exif=exif)
    assert read_image(path).shape == (3, 30, 20)


def damaged_exif():
    """An orientation mark, and beside it a text where a number is due."""
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = "hello", 6
    return exif.tobytes().replace(b"\x01\x0e", b"\x01\x07")


def test_a_whole_image_with_damaged_exif_is_read(tmp_path):
    path = saved(tmp_path / "odd.jpg", Image.new("RGB", (30, 20), (90, 90, 90)), exif=damaged_exif())
    assert read_image(path).shape == (3, 30, 20)
    path = saved(tmp_path / "junk.jpg", Image.new("RGB", (30, 20), (90, 90, 90)), exif=b"Exif\0\0no such thing")
    assert read_image(path).shape == (3, 20, 30)


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "bmp", "tif", "webp"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.9])
def test_a_file_that_was_cut_short_is_broken(tmp_path, suffix, share):
    whole = saved(tmp_path / f"whole.{suffix}", Image.fromarray(noise())).read_bytes()
    cut = tmp_path / f"cut.{suffix}"
    cut.write_bytes(whole[: int(share * len(whole))])
    assert "cannot be read as an image (" in refusal(cut)


def test_a_progressive_image_is_read_and_one_that_was_cut_short_is_broken(tmp_path):
    smooth = Image.linear_gradient("L").convert("RGB")
    path = saved(tmp_path / "progressive.jpg", smooth, progressive=True, quality=95)
    assert (read_image(path).int() - torch.arange(256)[:, None]).abs().max() <= 3
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    assert "truncated" in refusal(path)


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_the_first_image_of_several_is_taken(tmp_path, suffix):
    first, second = (Image.new("RGB", (8, 6), color) for color in ((255, 0, 0), (0, 0, 255)))
    path = saved(tmp_path / f"several.{suffix}", first, save_all=True, append_images=[second])
    red, green, blue = read_image(path).flatten(1).float().mean(1).tolist()
    assert red > 240
    assert max(green, blue) < 15


def test_content_decides_not_the_name(tmp_path):
    path = tmp_path / "image.jpg"
    saved(path, Image.new("RGB", (2, 1), (1, 2, 3)), format="PNG")
    assert read_image(path)[:, 0, 0].tolist() == [1, 2, 3]
    path.write_text("this is no image")
    assert "cannot be read as an image (its bytes are of no known format" in refusal(path)
    path.write_bytes(b"")
    assert "cannot be read as an image" in refusal(path)


def test_what_is_no_file(tmp_path):
    assert refusal(tmp_path / "none.jpg") == f"{tmp_path / 'none.jpg'} is not there."
    assert refusal(tmp_path) == f"{tmp_path} is a folder; name an image."
    (tmp_path / "file").write_text("")
    assert "Not a directory" in refusal(tmp_path / "file" / "image.jpg")


def test_too_many_pixels_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    path = saved(tmp_path / "large.png", Image.fromarray(noise()))
    monkeypatch.setattr(images, "MOST_PIXELS", 1999)
    path.write_bytes(path.read_bytes()[:60])
    assert refusal(path) == f"{path} has 50 × 40 pixels; the most is 1,999."


@pytest.mark.parametrize("limit", [1500, 500, None])
def test_only_our_limit_counts_not_the_lower_one_of_pil(tmp_path, monkeypatch, limit):
    """Of 2,000 pixels PIL would warn above 1,500, which is an error here, and refuse at twice 500."""
    path = saved(tmp_path / "large.png", Image.fromarray(noise()))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    monkeypatch.setattr(images, "MOST_PIXELS", 2000)
    assert read_image(path).shape == (3, 40, 50)
    assert limit is not None or Image.MAX_IMAGE_PIXELS is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit and 600)
    monkeypatch.setattr(images, "MOST_PIXELS", 900)
    assert "2000 pixels" in refusal(path) or "50 × 40 pixels" in refusal(path)


def test_files_in_an_order(tmp_path):
    (tmp_path / "below").mkdir()
    names = ["a.png", "below/b.png", "c.png"]
    for gray, name in enumerate(names):
        saved(tmp_path / name, Image.new("L", (2, 2), gray))
    found = FileImages(tmp_path, names)
    assert len(found) == 3
    assert [found.name(number) for number in range(3)] == names
    assert found.read(1).shape == (3, 2, 2)
    some = FileImages(tmp_path, names, channels=1).take(np.array([2, 0, 2]))
    assert [some.name(number) for number in range(len(some))] == ["c.png", "a.png", "c.png"]
    assert [some.read(number)[:, 0, 0].tolist() for number in range(3)] == [[2], [0], [2]]
    assert len(found.take(np.array([], np.int64))) == 0


def test_arrays_in_an_order():
    pixels = torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(4, 1, 2, 2)
    found = ArrayImages(pixels, "digit")
    assert len(found) == 4
    assert found.name(3) == "digit 3"
    assert torch.equal(found.read(3), pixels[3])
    for numbers in (np.array([3, 1, 3]), np.array([3, 1, 3], np.int32)):
        some = found.take(numbers)
        assert some.pixels[:, 0, 0, 0].tolist() == [3, 1, 3]
        assert some.name(0) == "digit 3"  # its number where it comes from
        assert some.take(np.array([1])).name(0) == "digit 1"
    assert len(found.take(np.array([], np.int64))) == 0
