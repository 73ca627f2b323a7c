"""Both loops train the same embedder on as many images; the ratio is that of the rounds."""

import signal

import pytest
import torch

from benchmarks.training import speed
from benchmarks.training.speed import Workload, training_speed
from shadowmetric.app.training.show import Silent

TINY = Workload("small_cnn", 8, 1, 3)


def test_speeds_and_their_ratio(monkeypatch):
    bare, ours = iter([9.0, 10.0, 20.0, 40.0]), iter([9.0, 5.0, 19.0, 30.0])
    monkeypatch.setattr(speed, "bare_round", lambda *given: next(bare))
    monkeypatch.setattr(speed, "our_round", lambda *given: next(ours))
    found = training_speed(TINY, batch=8, per_class=2, rounds=3)
    assert (found.bare, found.ours, found.ratio) == (20.0, 19.0, 0.75)


def test_both_loops_learn(tmp_path):
    training = speed.make_training(TINY, tmp_path, 8, 2, Silent())
    weights = [training.bare_embedder.head.weight.detach().clone()]
    for measure in (lambda: speed.bare_round(training, 3), lambda: speed.our_round(training)):
        assert measure() > 0
        weights.append(training.bare_embedder.head.weight.detach().clone())
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert training.state.sums["images"] == 24


def rounds_seen(monkeypatch, capsys, terminal):
    """Return what standard error got from two rounds."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    training_speed(TINY, batch=8, per_class=2, rounds=2)
    out, errors = capsys.readouterr()
    assert out == ""
    return errors


def test_a_terminal_sees_what_is_measured(monkeypatch, capsys):
    seen = rounds_seen(monkeypatch, capsys, True)
    places = [
        seen.index(f"small_cnn, 8 pixels: {what}")
        for what in (
            "preparing",
            "warming up, bare loop",
            "warming up, train",
            "round 1 of 2, bare loop",
            "round 1 of 2, train",
            "round 2 of 2, bare loop",
            "round 2 of 2, train",
        )
    ]
    assert places == sorted(places)
    assert seen.endswith("\x1b[2K")  # the line is taken away


def test_a_file_gets_a_line_for_each_stage(monkeypatch, capsys):
    lines = rounds_seen(monkeypatch, capsys, False).splitlines()
    assert lines[0] == "small_cnn, 8 pixels: preparing"
    assert lines[-1] == "small_cnn, 8 pixels: round 2 of 2, train"
    assert len(lines) == len(set(lines)) == 7


def test_control_c_offers_no_run_to_go_on_with(tmp_path, monkeypatch):
    training = speed.make_training(TINY, tmp_path, 8, 2, Silent())
    forward = training.loss.forward

    def pressed(*given):
        signal.raise_signal(signal.SIGINT)
        return forward(*given)

    monkeypatch.setattr(training.loss, "forward", pressed)
    with pytest.raises(KeyboardInterrupt):
        speed.our_round(training)
    assert training.state.position == 1
