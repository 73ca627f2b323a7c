"""`--weights auto`: photos begin with published weights if they can be had; else it is said what that costs."""

import socket
import threading
from dataclasses import replace

import pytest
from huggingface_hub import constants

from shadowmetric.app.data.image_kind import Look
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.app.models import published
from shadowmetric.app.models.published import PublishedWeights, published_weights_of, why_unreachable
from shadowmetric.app.training import first_weights
from shadowmetric.app.training.first_weights import PHOTO_BACKBONE, choose_weights, is_open
from shadowmetric.app.training.runs.settings import TrainSettings, resolve_settings
from shadowmetric.errors import Mistake

PHOTO, DRAWING = Look(color=40.0, ground=0.1), Look(color=0.0, ground=0.8)
LARGE, SMALL = Preprocessing(224, 256, 3), Preprocessing(32, 32, 3)


@pytest.fixture
def answer(monkeypatch):
    """What is said of published weights; the backbones that were asked for are in the list."""
    asked = []

    def install(reason):
        def known(name):
            asked.append(name)
            return PublishedWeights(reason, "https://hub/owner/name")

        monkeypatch.setattr(first_weights, "published_weights_of", known)
        return asked

    return install


def test_photos_begin_with_published_weights(answer):
    asked = answer(None)
    settings, said = choose_weights(TrainSettings(), LARGE, PHOTO)
    assert (settings.weights, settings.backbone, said) == ("pretrained", PHOTO_BACKBONE, "")
    named, _ = choose_weights(TrainSettings(backbone="resnet18"), LARGE, PHOTO)
    assert (named.weights, named.backbone) == ("pretrained", "resnet18")
    assert asked == [PHOTO_BACKBONE, "resnet18"]


@pytest.mark.parametrize(
    ("shape", "look"), [(SMALL, PHOTO), (LARGE, DRAWING), (Preprocessing(224, 256, 1), PHOTO), (LARGE, None)]
)
def test_drawings_gray_and_small_images_begin_from_scratch_in_silence(answer, shape, look):
    asked = answer(None)
    settings, said = choose_weights(TrainSettings(), shape, look)
    assert (settings, said) == (TrainSettings(weights="none"), "")
    assert choose_weights(TrainSettings(weights="auto"), shape, look)[0].weights == "pretrained"  # it was asked for
    assert asked == [PHOTO_BACKBONE]


def test_without_them_photos_are_made_small_and_it_is_said_loudly(answer):
    answer("hub does not answer within 2 s")
    settings, said = choose_weights(TrainSettings(), LARGE, PHOTO)
    assert (settings.weights, settings.backbone, settings.size, settings.resize) == ("none", "small_cnn", 64, 64)
    assert said.startswith(f"FROM SCRATCH: the published weights of {PHOTO_BACKBONE} cannot be had (hub does not")
    assert f"from https://hub/owner/name, and give it by --backbone {PHOTO_BACKBONE} --weights FILE" in said
    for given in ({"backbone": "resnet18"}, {"size": 224}):  # what was named stays
        assert choose_weights(TrainSettings(**given), LARGE, PHOTO)[0] == TrainSettings(weights="none", **given)


@pytest.mark.parametrize("recipe", ["head", "finetune"])
def test_recipes_of_pretrained_weights_have_them_or_are_refused(answer, recipe):
    answer(None)
    assert choose_weights(TrainSettings(recipe=recipe), SMALL, DRAWING)[0].weights == "pretrained"
    answer("no network")
    with pytest.raises(Mistake, match=f"--recipe {recipe} begins with pretrained weights, and .* none .no network"):
        choose_weights(TrainSettings(recipe=recipe), LARGE, PHOTO)
    with pytest.raises(Mistake, match="small_cnn has no published weights"):
        choose_weights(TrainSettings(recipe=recipe, backbone="small_cnn"), LARGE, PHOTO)


def test_what_was_decided_stays(answer):
    asked = answer(None)
    resolved = resolve_settings(TrainSettings(), size=224, resize=256, channels=3)
    for settings in (
        TrainSettings(weights="none"),
        TrainSettings(weights="w.pt"),
        TrainSettings(recipe="paper"),
        resolved,
    ):
        assert not is_open(settings)
        assert choose_weights(settings, LARGE, PHOTO) == (settings, "")
    assert is_open(replace(resolved, weights="auto"))
    assert asked == []


def test_nothing_is_asked_of_the_network_where_it_is_switched_off(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(published, "why_unreachable", lambda url: pytest.fail("the network was asked"))
    published_weights_of.cache_clear()
    known = published_weights_of("timm:test_resnet")
    published_weights_of.cache_clear()
    assert known.reason == "they are not in the cache, and HF_HUB_OFFLINE is set"
    assert known.address.endswith("/timm/test_resnet.r160_in1k")
    assert published_weights_of("timm:nothing_such").reason == "timm knows none by that name"
    assert published_weights_of("small_cnn").reason == "it has none"


def test_a_host_that_answers_refuses_or_stays_silent(monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert why_unreachable(f"http://127.0.0.1:{port}/file") is None
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        assert why_unreachable("https://nowhere.invalid/file") is None  # the proxy answers for it
        monkeypatch.delenv("HTTPS_PROXY")
    assert "cannot be reached" in why_unreachable(f"http://127.0.0.1:{port}/file")
    silent = threading.Event()
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: silent.wait())
    assert why_unreachable("https://host/file", seconds=0.01) == "host does not answer within 0.01 s"
    silent.set()
