"""The embedder: unit rows whatever the type, pixels normalized inside, and two groups of parameters."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from shadowmetric.app.models import Embedder, build_embedder, parameter_groups
from shadowmetric.errors import ModelMistake

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.5)


def make_images(channels=3, size=8, batch=4):
    return torch.randint(0, 256, (batch, channels, size, size), generator=torch.manual_seed(0)).to(torch.uint8)


def flat(dim=5):
    """An embedder whose backbone hands on the pixels that it is given."""
    return Embedder(nn.Flatten(), 3 * 8 * 8, dim, mean=MEAN, std=STD)


def test_rows_are_unit_and_are_the_head_s_divided_by_their_length():
    embedder = flat()
    rows = embedder(make_images())
    assert rows.shape == (4, 5)
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(4))
    by_hand = embedder.head(embedder.features(make_images()))
    torch.testing.assert_close(rows * by_hand.norm(dim=1, keepdim=True), by_hand)


def test_features_are_the_backbone_s_of_pixels_normalized_by_channel():
    seen = flat().features(make_images()).view(4, 3, 8, 8)
    for channel in range(3):
        by_hand = (make_images()[:, channel].double() / 255 - MEAN[channel]) / STD[channel]
        torch.testing.assert_close(seen[:, channel].double(), by_hand, rtol=1e-5, atol=1e-6)


def test_bytes_and_floats_of_the_same_image_give_the_same_rows():
    embedder = build_embedder("small_cnn", size=8).eval()
    assert torch.equal(embedder(make_images()), embedder(make_images().float() / 255))
    assert torch.equal(embedder(make_images()), embedder(make_images().double() / 255))


def test_autocast_and_half_precision_still_give_float32_unit_rows():
    embedder = build_embedder("small_cnn", size=8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert embedder.head(embedder.features(make_images())).dtype == torch.bfloat16
        cast = embedder(make_images())
    halved = embedder.to(torch.bfloat16)(make_images())
    doubled = embedder.double()(make_images())
    assert (cast.dtype, halved.dtype, doubled.dtype) == (torch.float32, torch.float32, torch.float64)
    for rows in (cast, halved):
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(4), rtol=1e-6, atol=1e-6)


def test_the_state_dict_is_backbone_and_head_alone():
    assert {name.split(".")[0] for name in build_embedder("small_cnn").state_dict()} == {"backbone", "head"}
    assert "mean=[0.4, 0.5, 0.6], std=[0.2, 0.25, 0.5]" in repr(flat())


def test_parameter_groups_part_head_and_backbone_and_leave_out_what_is_frozen():
    embedder = build_embedder("small_cnn", size=8)
    groups = parameter_groups(embedder)
    assert [name for name, _ in groups["head"]] == ["head.weight", "head.bias"]
    assert dict(groups["backbone"] + groups["head"]).keys() == dict(embedder.named_parameters()).keys()
    rates = {"backbone": 0.0, "head": 0.5}
    before = {name: value.clone() for name, value in embedder.state_dict().items()}
    optimizer = torch.optim.SGD([{"params": pairs, "lr": rates[part]} for part, pairs in groups.items()])
    embedder(make_images())[:, 0].sum().backward()
    optimizer.step()
    moved = {name.split(".")[0] for name, value in embedder.named_parameters() if not torch.equal(value, before[name])}
    assert moved == {"head"}
    embedder.backbone.requires_grad_(False)
    assert parameter_groups(embedder)["backbone"] == []


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (torch.zeros(2, 1, 8, 8), r"images have shape \(2, 1, 8, 8\); this embedder takes \(batch, 3, height, width\)"),
        (torch.zeros(3, 8, 8), r"images have shape \(3, 8, 8\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int64), "images are torch.int64; give uint8 of 0 to 255, or floats"),
    ],
)
def test_images_that_are_refused(images, sentence):
    with pytest.raises(ValueError, match=sentence):
        flat()(images)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dim": 0}, "dim is 0; it must be a whole number of at least 1"),
        ({"features": 0}, "features is 0"),
        ({"mean": (0.5,)}, r"mean is \(0.5,\) and std is \(0.5, 0.5\)"),
        ({"std": (0.5, 0.0)}, "std above 0"),
        ({"mean": (), "std": ()}, "one number a channel"),
    ],
)
def test_settings_that_are_refused(settings, sentence):
    with pytest.raises(ModelMistake, match=sentence):
        Embedder(nn.Flatten(), **({"features": 4, "mean": (0.5, 0.5), "std": (0.5, 0.5)} | settings))


def test_importing_the_room_imports_neither_torchvision_nor_timm():
    code = "import sys, shadowmetric.app.models; print([m for m in ('torchvision', 'timm') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
