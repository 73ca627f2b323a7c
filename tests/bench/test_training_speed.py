"""Both loops train the same embedder on as many images; the ratio is that of the rounds."""

import torch

from shadowmetric.bench import training_speed as speed
from shadowmetric.bench.training_speed import Workload, training_speed
from shadowmetric.training.show import Silent

TINY = Workload("small_cnn", 8, 1, 3)


def test_speeds_and_their_ratio(monkeypatch):
    bare, ours = iter([9.0, 10.0, 20.0, 40.0]), iter([9.0, 5.0, 19.0, 30.0])
    monkeypatch.setattr(speed, "bare_round", lambda *given: next(bare))
    monkeypatch.setattr(speed, "our_round", lambda *given: next(ours))
    found = training_speed(TINY, batch=8, per_class=2, rounds=3)
    assert (found.bare, found.ours, found.ratio) == (20.0, 19.0, 0.75)


def test_both_loops_learn(tmp_path):
    training = speed.made(TINY, tmp_path, 8, 2, Silent())
    weights = [training.bare_embedder.head.weight.detach().clone()]
    for measure in (lambda: speed.bare_round(training, 3), lambda: speed.our_round(training)):
        assert measure() > 0
        weights.append(training.bare_embedder.head.weight.detach().clone())
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert training.state.sums["images"] == 24
