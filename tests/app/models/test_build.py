"""From a name to an embedder: the seed decides, nothing else is touched, and files come back as they were saved."""

import pytest
import torch
from safetensors.torch import save_file
from torchvision import models

from shadowmetric.app.models import build_embedder
from shadowmetric.errors import ModelMistake


def equal(first, second):
    return all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())


@pytest.mark.parametrize("name", ["small_cnn", "googlenet", "timm:test_vit"])
def test_the_seed_decides_and_the_generator_is_left_as_it_was(name):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = build_embedder(name, seed=5, size=32)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert equal(first, build_embedder(name, seed=5, size=32))
    assert not equal(first, build_embedder(name, seed=6, size=32))


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
@pytest.mark.parametrize("name", ["small_cnn", "googlenet"])
def test_a_run_s_weights_come_back(tmp_path, name, suffix):
    saved = build_embedder(name, seed=5, size=32, channels=1)
    path = tmp_path / f"best.{suffix}"
    (save_file if suffix == "safetensors" else torch.save)(saved.state_dict(), path)
    found = build_embedder(name, size=32, channels=1, weights=path)
    assert equal(found, saved)
    assert found.notes == (f"Weights of the backbone and the head from {path}; all used.",)
    assert equal(build_embedder(name, size=32, channels=1, weights=str(path)), saved)


def test_torchvision_s_googlenet_file_loads_with_its_classifiers_left_out(tmp_path):
    source = models.googlenet(weights=None, aux_logits=True, init_weights=False)
    torch.save(source.state_dict(), tmp_path / "googlenet.pth")
    embedder = build_embedder("googlenet", size=32, weights=tmp_path / "googlenet.pth", freeze_batch_norm=True)
    assert torch.equal(embedder.backbone.inception5b.branch1.conv.weight, source.inception5b.branch1.conv.weight)
    assert "not used: aux1.conv.conv.weight" in embedder.notes[0]
    assert not any(layer.training for layer in embedder.modules() if isinstance(layer, torch.nn.BatchNorm2d))


def test_a_file_of_another_backbone_is_refused(tmp_path):
    save_file(build_embedder("small_cnn").state_dict(), tmp_path / "small.safetensors")
    with pytest.raises(
        ModelMistake, match=r"small.safetensors do not fit the backbone's 120 tensors \(100 missing: conv1"
    ):
        build_embedder("resnet18", weights=tmp_path / "small.safetensors")


def test_gray_images_are_normalized_by_the_average():
    gray, color = (build_embedder("resnet18", size=32, channels=channels).eval() for channels in (1, 3))
    assert gray.mean.flatten().tolist() == pytest.approx([0.449])
    assert gray.std.flatten().tolist() == pytest.approx([0.226])
    images = torch.rand(2, 1, 32, 32)
    cosine = (gray(images) * color(images.repeat(1, 3, 1, 1))).sum(1)
    assert cosine.min() > 0.99


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "resnet"}, "backbone is 'resnet'; choose one of small_cnn, resnet18, googlenet, vgg16, or timm:NAME"),
        ({"channels": 4}, "channels is 4"),
        ({"size": 7}, "size is 7; it must be a whole number of at least 8"),
        ({"dim": 0}, "dim is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"weights": "nowhere.pth"}, "weights nowhere.pth is not a file"),
    ],
)
def test_what_is_refused(settings, sentence):
    with pytest.raises(ModelMistake, match=sentence):
        build_embedder(**({"name": "small_cnn"} | settings))
