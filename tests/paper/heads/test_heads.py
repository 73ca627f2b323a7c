"""Heads on rows made up: what is missing is trained once, margins are searched, comparisons follow the records."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from paper.heads import features as features_room
from paper.heads.beds import FREE, LADDER, MIDDLE, PAIR, PRICE, HeadBed, free_settings, protocol
from paper.heads.command import main
from paper.heads.comparisons import answer, best_setting, free_comparisons, partner_of
from paper.heads.features import DIRECTIONS, Rows
from paper.heads.store import Store, read_lines
from paper.heads.tables import setting_words, tables
from paper.heads.training import RECALL, Trial, train_head, trial_loss
from paper.heads.work import Bench, margin_at, search_margin
from shadowmetric.errors import Mistake
from shadowmetric.losses.length_penalty import LengthPenalty
from shadowmetric.mining.comparison import Comparison as Compared


@pytest.fixture(scope="module")
def rows():
    """Return features of 12 classes, half of them for the test, that are apart in few directions."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(12, 300, generator=generator) * (torch.arange(300) < 6)
    labels = torch.arange(12).repeat_interleave(30)
    features = centers[labels] + 0.02 * torch.randn(360, 300, generator=generator)
    train = labels < 6
    numbers = torch.arange(int(train.sum()))
    held = numbers[numbers % 5 == 0]
    parts = {"train": features[train], "test": features[~train]}
    return Rows(parts, {"train": labels[train], "test": labels[~train]}, numbers[numbers % 5 > 0], held, unseen=True)


@pytest.fixture
def bench(rows, tmp_path):
    return Bench(HeadBed("made", "made", 8), rows, tmp_path, "python -m paper.heads made")


SHORT = replace(FREE, steps=20, batch=16, dim=8)


def test_rows_are_the_features_in_principal_directions_halfway_to_whitening(rows):
    reduced = rows.reduced()
    train = reduced["train"][rows.kept].double()
    covariance = torch.cov(train.T)
    assert reduced["test"].shape == (180, DIRECTIONS)
    torch.testing.assert_close(train.mean(0), torch.zeros(DIRECTIONS).double(), atol=1e-4, rtol=0)
    assert (covariance - covariance.diag().diag()).abs().max() < 1e-3 * covariance.max()
    singular = torch.linalg.svdvals(
        rows.features["train"][rows.kept].double() - rows.features["train"][rows.kept].double().mean(0)
    )
    known = int((singular > 1e-3).sum())
    wanted = singular[: min(known, 20)]  # the deviation of a direction becomes its root
    ratios = covariance.diag()[: len(wanted)].sqrt() / wanted.sqrt()
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios), rtol=1e-3, atol=0)
    assert float(train.square().sum(1).mean()) == pytest.approx(DIRECTIONS, rel=1e-4)


def test_a_head_learns_and_a_seed_says_the_same_again(rows):
    reduced = rows.reduced()
    trial = Trial(loss="shadow", steps=60, batch=24, dim=16, mining="direction")
    first, again = (train_head(trial, 0, rows, reduced, RECALL) for _ in range(2))
    assert first["figures"] == again["figures"]
    assert len(first["curve"]) == 20
    assert first["curve"][-1] > 0.9
    assert train_head(trial, 1, rows, reduced, RECALL)["figures"] != first["figures"]


def test_each_setting_mines_what_it_says():
    settings = free_settings()
    assert len(settings) == 16
    miners = {name: loss_of(trial).miner for name, trial in settings.items()}
    assert miners["shadow own semi_hard"].comparison == Compared("gap", normalize=False)
    assert miners["shadow own batch_hard"].comparison == Compared("gap", normalize=False)
    assert miners["shadow euclid batch_hard"].comparison == Compared("distance", normalize=False)
    assert miners["triplet own semi_hard"].comparison == Compared("squared", normalize=False)
    assert miners["triplet direction semi_hard"].comparison == Compared("squared", normalize=True)
    assert miners["euclidean_triplet own semi_hard"].comparison == Compared("distance", normalize=False)
    assert miners["shadow own semi_hard"].margin == settings["shadow own semi_hard"].margin
    prices = [loss_of(trial, whole=True) for trial in settings.values()]
    assert {loss.weight for loss in prices if isinstance(loss, LengthPenalty)} == {PRICE}
    with pytest.raises(ValueError, match="mining is 'angle'; give own, euclid or direction"):
        loss_of(replace(FREE, mining="angle"))


def loss_of(trial, whole=False):
    loss = trial_loss(trial, classes=3)
    return loss.loss if isinstance(loss, LengthPenalty) and not whole else loss


def test_what_is_recorded_is_not_trained_again(bench, monkeypatch, rows):
    reached = bench.run("free", "some", SHORT, 0)
    monkeypatch.setattr("paper.heads.work.train_head", None)  # would fail if it were called
    assert bench.run("free", "some", SHORT, 0) == reached
    later = Bench(bench.bed, rows, bench.store.file.parent, "another command")
    assert later.run("free", "some", SHORT, 0) == reached
    assert later.store.facts["command"] == "python -m paper.heads made"
    with pytest.raises(TypeError):
        later.run("free", "some", SHORT, 1)


def test_a_line_that_a_kill_has_cut_is_done_again(bench):
    bench.run("free", "some", SHORT, 0)
    bench.run("free", "some", SHORT, 1)
    text = bench.store.file.read_text()
    bench.store.file.write_text(text[:-20])
    facts, lines = read_lines(bench.store.file)
    assert [line["seed"] for line in lines] == [0]
    assert facts["bed"] == "made"
    bench.store.file.write_text("{}\n")
    with pytest.raises(Mistake, match="is no record of heads"):
        read_lines(bench.store.file)


def test_margins_are_searched_until_the_best_is_not_at_an_end(bench, monkeypatch):
    asked = []

    def reach(group, name, trial, seed):
        asked.append(trial.margin)
        return -abs(np.log(trial.margin / (MIDDLE["shadow"] * LADDER**3)))

    monkeypatch.setattr(bench, "run", reach)
    assert search_margin(bench, "some", FREE) == margin_at(FREE, 3)
    assert len(asked) == len(set(asked)) == 7  # rungs -2 to 4


def store_of(tmp_path, name, **losses):
    """Return a record; losses: name with _ for blanks -> (recall, validation) of each seed."""
    store = Store(tmp_path / f"{name}.jsonl", {"bed": name, "data": name})
    for group, some in (("free", losses), ("protocol", {"shadow": losses["shadow"], "triplet": losses["triplet"]})):
        for loss, values in some.items():
            for seed, (recall, validation) in enumerate(values):
                words = loss.replace("__", " ") + (" own semi_hard" if group == "free" else "")
                line = {"group": group, "name": words, "kind": "loss", "seed": seed, "trial": {"loss": words}}
                figures = {"recall_at_1": recall, "validation": validation}
                store.add(line | {"figures": figures, "curve": [], "seconds": 36.0})
    return store


def test_comparisons_say_what_the_records_say(tmp_path):
    noise = [0.0, 0.001, -0.001]
    better = [(0.30 + one, 0.5) for one in noise], [(0.20 - one, 0.4) for one in noise]
    same = [(0.30 + one, 0.4) for one in noise], [(0.30 - one, 0.5) for one in noise]
    stores = {
        name: store_of(tmp_path, name, shadow=first, triplet=second)
        for name, (first, second) in {"glyphs": better, "cub200": same}.items()
    }
    found = free_comparisons(stores)
    assert [(one.bed, one.chosen, one.corrected.sign) for one in found] == [
        ("glyphs", False, 1),
        ("glyphs", True, 1),
        ("cub200", False, 0),
        ("cub200", True, 0),
    ]
    said = answer(found)
    assert "3 seeds, Glyphs, CUB-200: beyond noise Shadow is better than Triplet in the same setting in 1 of 2" in said
    assert "(the most: 10.0 points on Glyphs) and worse in 0;" in said
    assert said.endswith("it is better on 1 and worse on 0 of 2 data sets.")
    assert best_setting(stores["cub200"].record("free"), "shadow") == "shadow own semi_hard"
    texts = {table.title: table for table in tables(stores, found)}
    assert [row[-1].split(",")[0] for row in texts["The same under the paper's protocol"].rows] == ["not shown", "yes"]
    assert texts["Time of heads"].rows[0][1:4] == ("3.6", "0.0", "3.6")
    assert answer([]).startswith("Nothing was measured")
    assert partner_of("shadow euclid batch_hard") == "triplet own batch_hard"
    assert setting_words("shadow own semi_hard price") == (
        "mined by its own measure, semi-hard, with a price on length"
    )
    assert [
        json.loads(line)["figures"]["recall_at_1"] for line in stores["glyphs"].file.read_text().splitlines()[1:3]
    ] == [
        0.3,
        0.301,
    ]


def test_the_protocol_is_the_papers():
    bed = HeadBed("made", "made", 8, others=True)
    trials = protocol(bed, 0)
    assert tuple(trials)[:3] == PAIR
    assert len(trials) == 7
    assert tuple(protocol(bed, 9)) == PAIR
    loss = trial_loss(trials["shadow"], classes=3)
    assert (loss.normalize, loss.miner.margin, loss.miner.comparison) == (True, 0.2, Compared("squared"))


def test_the_command_refuses_what_it_does_not_know(capsys):
    for words, sentence in (
        (["standard"], "study names 'standard'; choose of protocol, free."),
        (["free", "--only", "birds"], "--only names 'birds'; choose of glyphs, ham10000"),
        ([], "no study is named"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert sentence in " ".join(capsys.readouterr().err.split())


def test_features_are_computed_once(tmp_path, monkeypatch):
    calls = []

    def write(file, parts, tell):
        calls.append(file.name)
        arrays = {
            f"{name}_{what}": np.zeros((4, 2)) if what == "features" else np.arange(4)
            for name in ("train", "test")
            for what in ("features", "labels")
        }
        features_room.save_arrays(
            file, arrays | {"kept": np.arange(2), "held": np.arange(2, 4), "unseen": np.array(True)}
        )

    monkeypatch.setattr(features_room, "write_features", write)
    monkeypatch.setattr(features_room, "prepare", lambda settings, tell: None)
    for _ in range(2):
        rows = features_room.load_rows("glyphs", 8, tmp_path, None, None, None, lambda stage, share: None)
    assert calls == ["glyphs-8.npz"]
    assert (rows.unseen, rows.features["train"].dtype, rows.held.tolist()) == (True, torch.float32, [2, 3])
