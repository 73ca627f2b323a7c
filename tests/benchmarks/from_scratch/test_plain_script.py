"""The plain script: short, of the size that it says, and its loss is the one of plain loops."""

import inspect

import pytest
import torch

from benchmarks.from_scratch import plain_script
from benchmarks.from_scratch.plain_script import PlainCNN, shift_and_flip, train, triplet_loss


def test_it_is_short_and_its_network_is_small():
    assert len(inspect.getsource(plain_script).splitlines()) <= 60
    weights = sum(parameter.numel() for parameter in PlainCNN(3, 10).parameters())
    assert 110_000 < weights < 125_000


def test_images_are_shifted_by_an_eighth_at_most_and_turned():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (400, 2, 16, 16), generator=generator, dtype=torch.uint8)
    torch.manual_seed(0)
    found = shift_and_flip(images, True)
    turned, places = 0, set()
    framed = torch.nn.functional.pad(images.float(), (2,) * 4, mode="reflect")
    for image, frame in zip(found, framed, strict=True):
        candidates = [
            (top, left, flip)
            for top in range(5)
            for left in range(5)
            for flip in (False, True)
            if torch.equal(image.flip(-1) if flip else image, frame[:, top : top + 16, left : left + 16])
        ]
        assert len(candidates) == 1
        places.add(candidates[0][:2])
        turned += candidates[0][2]
    assert len(places) == 25
    assert 150 < turned < 250
    torch.manual_seed(0)
    plain = shift_and_flip(images, False)
    assert ((plain == found) | (plain == found.flip(-1))).flatten(1).all(1).all()


def test_its_triplet_loss_is_that_of_loops():
    torch.manual_seed(0)
    rows, labels = torch.randn(12, 5, dtype=torch.float64), torch.arange(12) % 3
    unit = torch.nn.functional.normalize(rows)
    values = []
    for anchor in range(12):
        away = {other: float((unit[anchor] - unit[other]).square().sum()) for other in range(12)}
        negatives = [away[other] for other in range(12) if labels[other] != labels[anchor]]
        for positive in range(12):
            if positive != anchor and labels[positive] == labels[anchor]:
                beyond = [value for value in negatives if value > away[positive]]
                chosen = min(beyond) if beyond else max(negatives)
                values.append(max(0.0, away[positive] - chosen + 0.2))
    assert float(triplet_loss(rows, labels)) == pytest.approx(sum(values) / len(values), rel=1e-9)


@pytest.mark.parametrize("loss", ["cross_entropy", "triplet"])
def test_it_learns_two_shades(loss):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(64) % 2
    noise = torch.randint(60, (64, 1, 16, 16), generator=generator)
    images = (noise + 8 * labels[:, None, None, None]).to(torch.uint8)
    same, done = labels[:, None] == labels, []

    def gap(steps):
        network = train(images, labels, loss=loss, mirrors=False, steps=steps, seed=0, done=lambda: done.append(1))
        rows = torch.nn.functional.normalize(network.train()(images)).detach()  # by the statistics of the batch
        return float((rows @ rows.T)[same].mean() - (rows @ rows.T)[~same].mean())

    assert gap(12) > 1.5 * gap(0) > 0
    assert len(done) == 12
