"""Two images, one cosine."""

import numpy as np
import pytest
from image_folders import FakeModel, pixels, write_image

from shadowmetric.app.serving.verification.verifying import check_shares, cosine_of
from shadowmetric.errors import BrokenImage, Mistake


@pytest.fixture
def pair(tmp_path):
    return write_image(tmp_path / "a.png", 0), write_image(tmp_path / "b.png", 1)


class TooLong(FakeModel):
    """Rows that rounding makes a little longer than 1."""

    def embed(self, squares):
        return np.float32(1.000001) * super().embed(squares)


def test_an_image_is_the_same_as_itself_and_no_more(pair):
    assert cosine_of(FakeModel(), pair[0], pair[0]) == pytest.approx(1, abs=1e-6)
    assert cosine_of(TooLong(), pair[0], pair[0]) == 1


def test_the_cosine_is_that_of_the_two_rows(pair):
    model = FakeModel()
    rows = [model.embed(pixels(seed)[None, None])[0] for seed in (0, 1)]
    found = cosine_of(model, *pair)
    assert found == pytest.approx(sum(float(a) * float(b) for a, b in zip(*rows, strict=True)), abs=1e-6)
    assert cosine_of(model, *pair[::-1]) == pytest.approx(found, abs=1e-6)


def test_a_missing_image_is_named(pair, tmp_path):
    with pytest.raises(BrokenImage, match=r"none\.png is not there\."):
        cosine_of(FakeModel(), pair[0], tmp_path / "none.png")


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, float("nan")])
def test_a_rate_is_a_share(rate):
    with pytest.raises(Mistake, match="it is a share of pairs"):
        check_shares(rate, 0.5)
    check_shares(1.0, 0.5)
    check_shares(None, 0.5)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_prior_is_a_share_of_some(prior):
    with pytest.raises(Mistake, match=r"--prior is .*; it is the share of your pairs that show the same"):
        check_shares(None, prior)
