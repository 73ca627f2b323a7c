"""Windows on images: what torchvision shows of one image, of each image of a batch its own, and where they may lie."""

import math

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional

from shadowmetric.app.data.changes.windows import Windows, random_windows, show

LIMITS = {"zoom": (0.7, 1.1), "ratio": 1.5, "degrees": 10.0, "shift": 0.1}


def smooth(count=3, height=24, width=30, channels=3, seed=0):
    """Images without hard edges: neighbors are alike, so that two ways of interpolating agree."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, channels, 4, 5, generator=generator)
    return 255 * functional.resize(coarse, [height, width], antialias=False)


def windows(x, y, width, height, angle=0.0, mirrored=False, count=1):
    values = (torch.full((count,), float(value)) for value in (x, y, width, height, angle))
    return Windows(*values, torch.full((count,), mirrored))


def chances(count, seed=0):
    return torch.rand(count, 6, generator=torch.Generator().manual_seed(seed))


def test_a_window_on_whole_pixels_shows_them_as_they_are():
    images = smooth()
    shown = show(images, windows(4 + 8, 6 + 8, 16, 16, count=3), 16)
    torch.testing.assert_close(shown, images[..., 6:22, 4:20].contiguous(), rtol=0, atol=1e-3)
    mirrored = show(images, windows(4 + 8, 6 + 8, 16, 16, mirrored=True, count=3), 16)
    torch.testing.assert_close(mirrored, shown.flip(-1), rtol=0, atol=1e-3)


def test_beyond_the_edge_is_the_pixel_of_the_edge():
    images = smooth(1, 8, 8)
    shown = show(images, windows(4, 4, 16, 16), 16)
    torch.testing.assert_close(shown[..., 4:12, 4:12], images, rtol=0, atol=1e-3)
    torch.testing.assert_close(shown[..., 4:12, 0], images[..., 0], rtol=0, atol=1e-3)
    torch.testing.assert_close(shown[..., 15, 4:12], images[..., -1, :], rtol=0, atol=1e-3)


@pytest.mark.parametrize(("top", "left", "height", "width"), [(3, 5, 16, 16), (2, 4, 20, 12), (0, 0, 24, 30)])
def test_a_stretched_window_is_torchvision_s_resized_crop(top, left, height, width):
    images = smooth()
    shown = show(images, windows(left + width / 2, top + height / 2, width, height, count=3), 16)
    wanted = functional.resized_crop(images, top, left, height, width, [16, 16], antialias=False)
    inner = (slice(None), slice(None), slice(1, -1), slice(1, -1))  # at the rim a window may look beyond its crop
    torch.testing.assert_close(shown[inner], wanted[inner], rtol=0, atol=0.05)


@pytest.mark.parametrize("degrees", [-30.0, 10.0, 90.0])
def test_a_turned_window_is_torchvision_s_rotation(degrees):
    """A window that turns one way shows the image turned the other way; torchvision counts angles against the clock."""
    images = smooth(height=24, width=24)
    shown = show(images, windows(12, 12, 24, 24, math.radians(degrees), count=3), 24)
    wanted = functional.rotate(images, degrees, interpolation=functional.InterpolationMode.BILINEAR)
    inner = (slice(None), slice(None), slice(8, 16), slice(8, 16))  # nothing from beyond the edge
    torch.testing.assert_close(shown[inner], wanted[inner], rtol=0, atol=0.05)


def test_windows_have_the_sizes_shapes_and_angles_that_are_allowed():
    drawn = random_windows(chances(4000), (40, 40), 32, mirror=True, **LIMITS)
    side = (drawn.width * drawn.height).sqrt() / 32
    ratio, angle = drawn.width / drawn.height, drawn.angle * 180 / math.pi
    for values, least, most in ((side, 0.7, 1.1), (ratio.log(), -math.log(1.5), math.log(1.5)), (angle, -10, 10)):
        slack = 1e-4 + (most - least) / 200
        assert least - 1e-4 <= values.min() < least + slack
        assert most - slack < values.max() <= most + 1e-4
        assert float(values.mean()) == pytest.approx((least + most) / 2, abs=(most - least) / 50)
    assert 1900 < int(drawn.mirrored.sum()) < 2100


@pytest.mark.parametrize(("height", "width"), [(32, 32), (40, 90), (90, 33)])
def test_windows_stand_out_of_the_image_no_farther_than_they_may(height, width):
    drawn = random_windows(chances(2000), (height, width), 32, mirror=False, **LIMITS)
    for place, part, whole in ((drawn.x, drawn.width, width), (drawn.y, drawn.height, height)):
        out = torch.maximum(part / 2 - place, place + part / 2 - whole)  # beyond the left or right edge
        allowed = 3.2 + (part - whole).clamp_min(0) / 2
        assert bool((out <= allowed + 1e-4).all())
        assert float(out.max()) > 2.5
        assert float(place.mean()) == pytest.approx(whole / 2, abs=whole / 40)
    assert not drawn.mirrored.any()


def test_what_is_drawn_has_nothing_to_do_with_each_other():
    drawn = random_windows(chances(5000), (64, 64), 32, mirror=True, **LIMITS)
    side, ratio = drawn.width * drawn.height, drawn.width / drawn.height
    room = [(64 - part) / 2 + 3.2 for part in (drawn.width, drawn.height)]
    places = [(place - 32) / half for place, half in zip((drawn.x, drawn.y), room, strict=True)]
    found = np.corrcoef(torch.stack([side, ratio, drawn.angle, drawn.mirrored.float(), *places]).numpy())
    assert np.abs(found - np.eye(6)).max() < 0.06


def test_an_image_is_shown_as_if_it_were_alone():
    images, all_chances = smooth(5), chances(5, seed=4)
    drawn = random_windows(all_chances, (24, 30), 16, mirror=True, **LIMITS)
    together = show(images, drawn, 16)
    for place in range(5):
        alone = random_windows(all_chances[[place]], (24, 30), 16, mirror=True, **LIMITS)
        assert torch.equal(show(images[[place]], alone, 16), together[[place]])
