"""Two pictures, one decision."""

import pytest
from picture_folders import FakeModel, pixels, write_picture

from shadowmetric.device.pictures import BrokenImage
from shadowmetric.device.threshold import Calibration
from shadowmetric.mistakes import Mistake
from shadowmetric.serving.verifying import RATE, verify

TABLE = Calibration("f", "p", 50, 1000, (-1.0, 0.5, 0.9), (1.0, 0.01, 0.0), (1.0, 0.9, 0.4), (0.1, 0.8, 0.99))


@pytest.fixture
def pair(tmp_path):
    return write_picture(tmp_path / "a.png", 0), write_picture(tmp_path / "b.png", 1)


def test_a_picture_is_the_same_as_itself(pair):
    found = verify(FakeModel(), TABLE, pair[0], pair[0])
    assert found.same
    assert found.cosine == pytest.approx(1, abs=1e-6)
    assert found.cosine <= 1
    assert (found.threshold, found.false_accept_rate, found.true_accept_rate) == (0.5, 0.01, 0.9)
    assert found.confidence == 0.99
    assert RATE == 0.01


def test_the_cosine_is_that_of_the_two_rows(pair):
    model = FakeModel()
    rows = [model.embed(pixels(seed)[None, None])[0] for seed in (0, 1)]
    found = verify(model, TABLE, *pair)
    assert found.cosine == pytest.approx(sum(float(a) * float(b) for a, b in zip(*rows, strict=True)), abs=1e-6)
    assert found.same is (found.cosine >= 0.5)
    assert verify(model, TABLE, *pair[::-1]).cosine == pytest.approx(found.cosine, abs=1e-6)
    assert verify(model, TABLE, *pair, rate=1.0).same
    assert verify(model, TABLE, *pair, rate=0.001).threshold == 0.9


def test_mistakes_are_sentences(pair, tmp_path):
    with pytest.raises(BrokenImage, match=r"none\.png is not there\."):
        verify(FakeModel(), TABLE, pair[0], tmp_path / "none.png")
    with pytest.raises(Mistake, match="1,000 pairs of two classes were measured"):
        verify(FakeModel(), TABLE, *pair, rate=0.0001)
