"""Light, contrast and color as torchvision changes them, and rectangles of the size that is promised."""

import pytest
import torch
from torchvision.transforms.v2 import functional

from shadowmetric.app.data.changes.colors import ERASED_AREA, change_colors, erase, exact_mean

SHARES = torch.tensor([0.0, 0.25, 0.5, 1.0])


def soft(count=4, channels=3, size=12):
    """Images from 90 to 160: no change of a quarter leaves what a pixel can be."""
    return 90 + 70 * torch.rand(count, channels, size, size, generator=torch.Generator().manual_seed(1))


def one(place, value, count=4):
    """Chances of which one has a value and the others change nothing."""
    found = torch.full((count, 3), 0.5)
    found[:, place] = value
    return found


@pytest.mark.parametrize("share", SHARES.tolist())
@pytest.mark.parametrize("channels", [1, 3])
def test_light_and_contrast_are_torchvision_s(share, channels):
    images, factor = soft(channels=channels), 0.75 + 0.5 * share
    for place, adjust in ((0, functional.adjust_brightness), (1, functional.adjust_contrast)):
        wanted = 255 * torch.cat([adjust(image[None] / 255, factor) for image in images])
        found = change_colors(images, one(place, share), light=0.25, color=0.25)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0.05)


@pytest.mark.parametrize("share", SHARES.tolist())
def test_color_is_torchvision_s_and_gray_images_have_none(share):
    images = soft()
    found = change_colors(images, one(2, share), light=0.25, color=0.5)
    wanted = 255 * functional.adjust_saturation(images / 255, 0.5 + share)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.05)
    plain = soft(channels=1)
    torch.testing.assert_close(change_colors(plain, one(2, share), light=0.25, color=0.5), plain)


def test_each_image_has_its_own_light():
    images, chances = soft(), torch.rand(4, 3, generator=torch.Generator().manual_seed(2))
    together = change_colors(images, chances, light=0.25, color=0.25)
    for place in range(4):
        alone = change_colors(images[[place]], chances[[place]], light=0.25, color=0.25)
        assert torch.equal(alone, together[[place]])
    assert together.mean((1, 2, 3)).unique().numel() == 4


def test_a_mean_does_not_depend_on_the_batch():
    images = 255 * torch.rand(64, 3, 33, 47, generator=torch.Generator().manual_seed(3))
    whole = exact_mean(images, (1, 2, 3))
    assert torch.equal(torch.cat([exact_mean(image[None], (1, 2, 3)) for image in images]), whole)
    torch.testing.assert_close(whole, images.mean((1, 2, 3), keepdim=True), rtol=0, atol=0.01)


def test_the_share_of_images_loses_a_rectangle_of_the_mean_color():
    images = soft(2000, 3, 24)
    found = erase(images, torch.rand(2000, 5, generator=torch.Generator().manual_seed(4)), 0.25)
    gone = (found != images).any(1)  # (images, size, size)
    touched = gone.flatten(1).any(1)
    assert 430 < int(touched.sum()) < 570
    assert torch.equal(found[~touched], images[~touched])
    area = gone[touched].float().mean((1, 2))
    assert ERASED_AREA[0] * 0.4 < float(area.min())
    assert float(area.max()) < ERASED_AREA[1] * 1.2
    assert float(area.mean()) == pytest.approx(sum(ERASED_AREA) / 2, rel=0.1)
    for place in touched.nonzero()[:50, 0].tolist():
        rows, columns = gone[place].any(1), gone[place].any(0)
        assert torch.equal(gone[place], rows[:, None] & columns)  # a rectangle
        assert rows.nonzero().diff(dim=0).le(1).all()  # in one piece
        inside = found[place][:, gone[place]]
        torch.testing.assert_close(inside, images[place].mean((1, 2))[:, None].expand_as(inside), rtol=0, atol=0.01)


def test_every_pixel_may_be_erased():
    images = soft(1, 1, 16).expand(3000, -1, -1, -1)
    found = erase(images, torch.rand(3000, 5, generator=torch.Generator().manual_seed(5)), 1.0)
    assert bool((found != images).any(0).all())
