"""`pml:NAME`: losses of pytorch-metric-learning in our trainings, as PML computes them, saved and resumed whole."""

import builtins
import inspect
from dataclasses import replace

import pytest
import torch
from pytorch_metric_learning import losses
from safetensors.torch import load_file
from torch import nn

import shadowmetric as sm
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings
from shadowmetric.app.training.setup import loss_for
from shadowmetric.batches.gathered_loss import HasSums
from shadowmetric.errors import Interrupted, Mistake
from shadowmetric.integrations.pml_losses import CENTER_RATE, PMLLoss, build_pml_loss, check_pml_loss

pytestmark = pytest.mark.usefixtures("one_thread")

CLASSES, DIM = 4, 6
REFUSED = {"RankedListLoss", "ManifoldLoss", "GenericPairLoss", "SelfSupervisedLoss", "VICRegLoss"}
NAMES = [name for name, kind in vars(losses).items() if inspect.isclass(kind) and name.endswith("Loss")]
SETTINGS = TrainSettings(
    data="digits", device="cpu", epochs=1, batches=4, batch=20, per_class=2, patience=0, validation=0.0
)


def built(name, **changes):
    torch.manual_seed(0)
    asked = {"margin": 0.3, "miner": "batch_hard", "classes": CLASSES, "dim": DIM, "scratch_bytes": 2**20}
    asked |= {"unit_rows": True} | changes
    return build_pml_loss(f"pml:{name}", **asked)


def batch(seed=0):
    rows = torch.randn(16, DIM, generator=torch.Generator().manual_seed(seed))
    return rows.requires_grad_(), torch.arange(16) // 4


def steps(loss, numbers):
    """Return the loss of some batches, after a step of what it learns."""
    optimizer = torch.optim.SGD([*loss.parameters(), nn.Parameter(torch.zeros(1))], 0.1)
    found = []
    for number in numbers:
        value = loss(*batch(number))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        found.append(float(value.detach()))
    return found


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence", "ignore:__array_wrap__")
@pytest.mark.parametrize("name", sorted(set(NAMES) - REFUSED))
def test_every_loss_trains_and_its_state_dict_is_all_of_it(name):
    check_pml_loss(f"pml:{name}")
    loss, again = built(name), built(name)
    before = steps(loss, range(3))
    assert all(torch.tensor(before).isfinite())
    again.load_state_dict(loss.state_dict())
    assert steps(again, range(3, 6)) == steps(loss, range(3, 6))
    learned = sum(len(group["params"]) for group in loss.parameter_groups())
    assert learned == len(list(loss.parameters()))
    assert all(group["lr"] == CENTER_RATE for group in loss.parameter_groups())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_loss_that_its_name_does_not_make_is_refused_in_a_sentence(name):
    with pytest.raises(Mistake, match=r"must be told more than its name|can't be trained so: labels"):
        check_pml_loss(f"pml:{name}")


def test_what_a_loss_is_told():
    embeddings, labels = batch()
    triplet = built("TripletMarginLoss", margin=0.3)
    theirs = losses.TripletMarginLoss(0.3)(embeddings, labels, sm.BatchHardMiner()(embeddings, labels))
    assert triplet(embeddings, labels) == theirs
    free = built("TripletMarginLoss", margin=0.3, unit_rows=False, miner="all")
    anchor, positive, negative = sm.AllMiner()(embeddings, labels)
    closer, farther = ((embeddings[anchor] - embeddings[other]).norm(dim=1) for other in (positive, negative))
    values = (closer - farther + 0.3).relu()
    torch.testing.assert_close(free(embeddings, labels), values[values > 0].mean())
    assert built("ArcFaceLoss").loss.margin == losses.ArcFaceLoss(CLASSES, DIM).margin  # degrees: --margin is not meant
    similarity = losses.MultiSimilarityLoss()
    assert built("MultiSimilarityLoss")(embeddings, labels) == similarity(embeddings, labels)
    given = sm.HardMiner()(embeddings, labels)
    assert built("MultiSimilarityLoss")(embeddings, labels, given) == similarity(embeddings, labels, given)
    references, others = batch(1)
    named = {"references": references, "reference_labels": others}
    mined = sm.BatchHardMiner()(embeddings, labels, references, others)
    expected = losses.TripletMarginLoss(0.3)(embeddings, labels, mined, references, others)
    assert triplet(embeddings, labels, **named) == expected


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "pml:TripletMarginLos"}, "no loss of that name that stands alone; the nearest are pml:TripletMargin"),
        ({"loss": "pml:CrossBatchMemory"}, "no loss of that name that stands alone"),
        ({"loss": "pml:NCALoss", "cross_batch_memory": 64}, "--cross-batch-memory has rows remembered"),
        ({"loss": "pml:NCALoss", "memory_budget": "2GB"}, "give a --micro-batch instead"),
        ({"loss": "pml:NCALoss", "length_penalty": 0.1}, "--length-penalty is added"),
    ],
)
def test_what_settings_are_refused(settings, sentence):
    with pytest.raises(Mistake, match=sentence):
        check_settings(TrainSettings(**settings))


def test_without_the_library_the_sentence_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("pytorch_metric_learning"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Mistake, match=r"pip install 'shadowmetric\[pytorch-metric-learning\]'"):
        check_settings(TrainSettings(loss="pml:NCALoss"))


class StopAfter(Stop):
    """Asks for a stop after so many batches, which the run has saved."""

    def __init__(self, run, batches):
        super().__init__()
        self.run, self.left = run, batches

    @property
    def asked(self):
        self.left -= self.run.settings_file.exists()  # questions before the run has begun do not count
        return self.left < 0


def test_learned_proxies_are_resumed_bit_for_bit_in_cached_batches(tmp_path):
    settings = replace(SETTINGS, loss="pml:ProxyAnchorLoss", logical_batch=20, batch=None, micro_batch=8, epochs=2)
    whole, parts = Run(tmp_path / "whole"), Run(tmp_path / "parts")
    train(settings, whole.folder)
    with pytest.raises(Interrupted):
        train(settings, parts.folder, stop=StopAfter(parts, 6))
    train(settings, parts.folder, resume=True)
    first, second = (torch.load(run.state_file, weights_only=True)["parts"] for run in (whole, parts))
    assert first["loss"].keys() == {"loss.proxies"}
    moments = [state["exp_avg"] for state in first["optimizer"]["state"].values()]
    assert any(moment.shape == (10, settings.dim) and moment.any() for moment in moments)  # of the proxies: learned
    assert torch.equal(first["loss"]["loss.proxies"], second["loss"]["loss.proxies"])
    one, other = load_file(whole.best_file), load_file(parts.best_file)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_ranks_compute_it_as_a_whole():
    assert not isinstance(built("ProxyAnchorLoss"), HasSums)  # as the loss "foreign" of tests/rank_work.py


def test_a_comparison_names_folders_without_colons(tmp_path):
    plan = Plan(SETTINGS, tmp_path / "out", ("shadow", "pml:TripletMarginLoss"), controls=False, floors=False, seeds=1)
    plan.begin()
    assert [cell.folder.name for cell in plan.cells()] == ["shadow-0", "pml-TripletMarginLoss-0"]
    assert isinstance(loss_for(plan.cells()[1].settings, 10), PMLLoss)
