"""Our losses and miners inside pytorch-metric-learning: equal to ourselves called directly, and to PML where both mean
the same, in its wrappers, reducers, memory and trainer."""

from math import radians

import pytest
import torch
from every_loss import LOSSES
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers, testers, trainers
from pytorch_metric_learning.utils import logging_presets
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.distributed import DistributedLossWrapper, DistributedMinerWrapper
from pytorch_metric_learning.utils.inference import CustomKNN
from torch import nn

import shadowmetric as sm
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.integrations.pytorch_metric_learning import (
    CrossBatchMemory,
    InPML,
    MinerInPML,
    SelfSupervisedLoss,
)

pytestmark = pytest.mark.usefixtures("one_thread")

DIM = 6


def batch(seed=0, rows=24, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 6
    centers = torch.randn(6, DIM, generator=generator, dtype=dtype)
    found = centers[labels] + torch.randn(rows, DIM, generator=generator, dtype=dtype)
    return found.requires_grad_(), labels


def value_and_gradient(loss, embeddings, *given, **named):
    value = loss(embeddings, *given, **named)
    return value.detach(), torch.autograd.grad(value, embeddings)[0]


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_in_pml_is_the_loss(name):
    embeddings, labels = batch()
    loss = LOSSES[name](DIM).double()
    assert_same(value_and_gradient(InPML(loss), embeddings, labels), value_and_gradient(loss, embeddings, labels))
    references, reference_labels = batch(1)
    theirs = value_and_gradient(InPML(loss), embeddings, labels, ref_emb=references, ref_labels=reference_labels)
    ours = value_and_gradient(loss, embeddings, labels, references=references, reference_labels=reference_labels)
    assert_same(theirs, ours)


def test_it_keeps_our_memory():
    embeddings, labels = batch(rows=240, dtype=torch.float32)
    largest = []

    def note(saved):
        largest.append(saved.numel())
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        InPML(sm.ShadowLoss(miner="batch_hard"))(embeddings, labels)
    assert max(largest) <= embeddings.numel()  # an S×S tensor has 240 × 240 numbers


PAIRS = [  # ours, theirs with the same triplets
    (sm.TripletLoss(0.4, squared=False, miner="all"), losses.TripletMarginLoss(0.4)),
    (sm.TripletLoss(0.4, miner="all"), losses.TripletMarginLoss(0.4, distance=distances.LpDistance(power=2))),
    (sm.ShadowLoss(0.2, miner="all"), losses.TripletMarginLoss(0.2, distance=distances.CosineSimilarity())),
    (sm.SoftMarginTripletLoss(margin=0.1, miner="all"), losses.TripletMarginLoss(0.1, smooth_loss=True)),
]
REDUCERS = [
    reducers.AvgNonZeroReducer(),
    reducers.MeanReducer(),
    reducers.SumReducer(),
    reducers.ThresholdReducer(low=0.1, high=0.9),
    reducers.ClassWeightedReducer(torch.arange(1.0, 7.0)),
]


@pytest.mark.parametrize("reducer", REDUCERS, ids=lambda reducer: type(reducer).__name__)
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["distance", "squared", "shadow", "smooth"])
def test_its_reducers_see_each_triplet(ours, theirs, reducer):
    embeddings, labels = batch()
    theirs.set_reducer(reducer)
    named = InPML(ours, reducer=reducer)
    assert_same(value_and_gradient(named, embeddings, labels), value_and_gradient(theirs, embeddings, labels))
    mined = miners.TripletMarginMiner(0.3)(embeddings, labels)
    pairs = miners.MultiSimilarityMiner(0.2)(embeddings, labels)
    assert len(pairs) == 4
    for indices in (mined, pairs, sm.HardMiner()(embeddings, labels)):
        found = value_and_gradient(named, embeddings, labels, indices)
        assert_same(found, value_and_gradient(theirs, embeddings, labels, indices))
        assert_same(found, value_and_gradient(named, embeddings, None, indices) if weightless(reducer) else found)


def weightless(reducer):
    return not isinstance(reducer, reducers.ClassWeightedReducer)


def test_a_batch_without_triplets_is_zero_with_a_graph():
    embeddings, _ = batch()
    alone = torch.arange(len(embeddings))
    for loss in (InPML(sm.ShadowLoss()), InPML(sm.ShadowLoss(), reducer=reducers.MeanReducer())):
        value, gradient = value_and_gradient(loss, embeddings, alone)
        assert value == 0
        assert not gradient.any()


def test_regularizers_are_added():
    embeddings, labels = batch()
    loss, price = sm.MultiSimilarityLoss(), regularizers.LpRegularizer()
    priced = InPML(loss, embedding_regularizer=price, embedding_reg_weight=0.5)
    torch.testing.assert_close(priced(embeddings, labels), loss(embeddings, labels) + 0.5 * price(embeddings))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: InPML(nn.Identity()), "the loss is a Identity; give a loss of rows, bare"),
        (lambda: InPML(sm.ShadowLoss(), distance=distances.LpDistance()), "has its own distance"),
        (lambda: InPML(sm.NPairLoss(), reducer=reducers.MeanReducer()), "MeanReducer has nothing to reduce"),
        (lambda: InPML(sm.ShadowLoss())(batch()[0]), "neither labels nor triplets"),
        (
            lambda: InPML(sm.ArcFaceLoss(6, DIM))(batch()[0], None, sm.HardMiner()(*batch())),
            "there are no labels; give them",
        ),
    ],
)
def test_what_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_wrappers_take_it():
    embeddings, labels = batch()
    shadow, contrastive = sm.ShadowLoss(), sm.ContrastiveLoss()
    both = losses.MultipleLosses([InPML(shadow), InPML(contrastive)], weights=[2.0, 0.5])
    expected = 2 * shadow(embeddings, labels) + 0.5 * contrastive(embeddings, labels)
    torch.testing.assert_close(both(embeddings, labels), expected)
    views, twice = torch.cat([embeddings, embeddings + 0.1]), torch.arange(len(labels)).repeat(2)
    expected = shadow(views, twice)
    torch.testing.assert_close(SelfSupervisedLoss(InPML(shadow))(embeddings, embeddings + 0.1), expected)
    with pytest.warns(UserWarning, match="non-distributed"):
        value = DistributedLossWrapper(InPML(shadow))(embeddings, labels)
    torch.testing.assert_close(value, shadow(embeddings, labels))


def test_its_own_wrappers_stay_as_they_are():
    for theirs, given in ((losses.CrossBatchMemory, (DIM,)), (losses.SelfSupervisedLoss, ())):
        assert "InPML" not in theirs.supported_losses()
        with pytest.raises(Exception, match="not supported for InPML"):
            theirs(InPML(sm.ShadowLoss()), *given)
    CrossBatchMemory(losses.TripletMarginLoss(), DIM)
    SelfSupervisedLoss(losses.TripletMarginLoss())


def test_its_memory_with_our_loss_and_miner_has_the_value_of_ours_and_lets_anchors_learn_alone():
    theirs = CrossBatchMemory(InPML(sm.ShadowLoss(0.2)), DIM, memory_size=72, miner=sm.ShadowLoss(0.2).miner)
    ours = sm.CrossBatchMemory(sm.ShadowLoss(0.2), size=48)  # the batch itself stands beside it
    remembered, remembered_labels = torch.empty(0, DIM), torch.empty(0, dtype=torch.int64)
    for seed in range(5):
        embeddings, labels = batch(seed, dtype=torch.float32)
        found = value_and_gradient(theirs, embeddings, labels), value_and_gradient(ours, embeddings, labels)
        torch.testing.assert_close(found[0][0], found[1][0])
        assert (found[0][1] - found[1][1]).abs().max() > 0.1 * found[1][1].abs().max()
        everything = torch.cat([embeddings.detach(), remembered])
        of_everything = torch.cat([labels, remembered_labels])
        anchors_alone = sm.ShadowLoss(0.2)(
            embeddings, labels, references=everything, reference_labels=of_everything, anchors_at=0
        )
        torch.testing.assert_close(found[0][1], torch.autograd.grad(anchors_alone, embeddings)[0])
        remembered, remembered_labels = everything[:48], of_everything[:48]
    unmined = CrossBatchMemory(InPML(sm.ShadowLoss(0.2, miner="all")), DIM, memory_size=72)
    embeddings, labels = batch()
    expected = sm.ShadowLoss(0.2, miner="all")(embeddings.float(), labels)
    torch.testing.assert_close(unmined(embeddings.float(), labels), expected)


@pytest.mark.parametrize("miner", [None, sm.HardMiner(), miners.MultiSimilarityMiner(0.2)])
def test_what_its_memory_can_not_do_is_said_in_a_sentence(miner):
    embeddings, labels = batch(dtype=torch.float32)
    for loss, sentence in (
        (sm.ArcFaceLoss(6, DIM), "^ArcFaceLoss compares rows with centers; use it without a memory[.]$"),
        (sm.LiftedStructureLoss(), "^triplets and references .* of one another; give labels without triplets, as sm"),
    ):
        with pytest.raises(ValueError, match=sentence):
            CrossBatchMemory(InPML(loss), DIM, miner=miner)(embeddings, labels)
    remembering = sm.CrossBatchMemory(sm.LiftedStructureLoss())  # what the sentence names
    for seed in range(2):
        assert remembering(*batch(seed)) > 0


NONE_NAMED = (torch.empty(0, dtype=torch.int64),) * 3


@pytest.mark.parametrize(
    "miner",
    [
        miners.TripletMarginMiner(0.3),
        miners.MultiSimilarityMiner(0.2),
        miners.PairMarginMiner(0.2, 0.8),
        sm.SemiHardMiner(0.4),
        lambda rows, labels: NONE_NAMED,
    ],
    ids=["triplets", "pairs", "pairs of some rows", "ours", "none"],
)
def test_losses_of_centers_weigh_rows_by_how_often_a_miner_names_them(miner):
    embeddings, labels = batch()
    torch.manual_seed(0)
    arc, soft = losses.ArcFaceLoss(6, DIM).double(), losses.SoftTripleLoss(6, DIM).double()
    our_arc = sm.ArcFaceLoss(6, DIM, margin=radians(28.6)).double()
    our_soft = sm.SoftTripleLoss(6, DIM, tau=0.0).double()
    our_arc.centers.data, our_soft.centers.data = arc.W.data.T.clone(), soft.fc.data.T.clone()
    named = miner(embeddings, labels)
    for ours, theirs in ((our_arc, arc), (our_soft, soft)):
        found = value_and_gradient(InPML(ours), embeddings, labels, named)
        assert_same(found, value_and_gradient(theirs, embeddings, labels, named))
        if len(named[0]):
            assert abs(found[0] - ours(embeddings, labels)) > 1e-2
    spread = sm.SoftTripleLoss(6, DIM, tau=0.5).double()  # what the centers cost is not weighed
    spread.centers.data = our_soft.centers.data
    costs = [InPML(spread)(embeddings, labels, named) - InPML(our_soft)(embeddings, labels, named)]
    torch.testing.assert_close(costs[0], spread(embeddings, labels) - our_soft(embeddings, labels))


@pytest.mark.parametrize("miner", [miners.PairMarginMiner(0.2, 0.8), miners.PairMarginMiner(0.9, 0.9)])
def test_losses_of_pairs_take_the_very_pairs_that_its_miners_name(miner):
    embeddings, labels = batch()
    named = miner(embeddings, labels)
    assert set(named[0].tolist()) != set(named[2].tolist())  # anchors with positives alone, or negatives
    theirs = losses.ContrastiveLoss()
    ours = InPML(sm.ContrastiveLoss(squared=False, reduction="mean_nonzero"))
    assert_same(*(value_and_gradient(loss, embeddings, labels, named) for loss in (ours, theirs)))
    none = named[0][:0]
    positives = (named[0], named[1], none, none)
    assert_same(*(value_and_gradient(loss, embeddings, labels, positives) for loss in (ours, theirs)))
    ours, theirs = InPML(sm.MultiSimilarityLoss()), losses.MultiSimilarityLoss()
    assert_same(*(value_and_gradient(loss, embeddings, labels, named) for loss in (ours, theirs)))


def test_equal_rows_of_another_view_are_positives_as_in_pml():
    embeddings, _ = batch()
    ours = InPML(sm.TripletLoss(0.2, squared=False, miner="all", reduction="mean_nonzero"))
    found, expected = (
        SelfSupervisedLoss(loss, symmetric=False)(embeddings, embeddings.detach().clone())
        for loss in (ours, losses.TripletMarginLoss(0.2))
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("miner", [sm.SemiHardMiner(0.4), sm.BatchHardMiner()], ids=["semi_hard", "batch_hard"])
def test_our_miners_go_where_its_miners_go(miner):
    embeddings, labels = batch()
    listed = tuple(numbers.clone() for numbers in miner(embeddings, labels))
    for loss in (losses.TripletMarginLoss(0.3), losses.MultiSimilarityLoss(), losses.NTXentLoss()):
        expected = value_and_gradient(loss, embeddings, labels, listed)
        assert_same(value_and_gradient(loss, embeddings, labels, miner(embeddings, labels)), expected)
        several = losses.MultipleLosses([loss], miners=[MinerInPML(miner)])
        assert_same(value_and_gradient(several, embeddings, labels), expected)
    references = batch(1)
    found, expected = (some(embeddings, labels, *references) for some in (MinerInPML(miner), miner))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    DistributedMinerWrapper(MinerInPML(miner))  # refuses what is no miner of PML


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        split = open_dataset("digits").train
        self.rows, self.labels = split.images.pixels.flatten(1).float() / 255, split.labels

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return self.rows[place], int(self.labels[place])


def trained(mining):
    """Return Recall@1 before and after two epochs of PML's trainer, and what its hook saw of the loss."""
    torch.manual_seed(0)
    trunk, seen = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)), []
    test = open_dataset("digits").test
    rows, labels = test.images.pixels.flatten(1).float() / 255, torch.from_numpy(test.labels)
    before = sm.evaluate(trunk(rows).detach(), labels).recall_at[1]
    trainer = trainers.MetricLossOnly(
        models={"trunk": trunk},
        optimizers={"trunk_optimizer": torch.optim.Adam(trunk.parameters(), 1e-2)},
        batch_size=64,
        loss_funcs={"metric_loss": InPML(sm.ShadowLoss(0.2))},
        mining_funcs=mining,
        dataset=Rows(),
        data_device=torch.device("cpu"),
        dataloader_num_workers=0,
        end_of_iteration_hook=lambda trainer: seen.append(float(trainer.losses["metric_loss"].detach())),
    )
    trainer.train(num_epochs=2)
    return before, sm.evaluate(trunk(rows).detach(), labels).recall_at[1], torch.tensor(seen)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_its_trainer_learns_with_our_loss_and_takes_our_miner():
    before, after, seen = trained({})
    assert len(seen) == 2 * (len(Rows()) // 64)
    assert after > before + 0.05
    *_, seen_with_miner = trained({"tuple_miner": sm.ShadowLoss(0.2).miner})  # what the loss mines itself
    torch.testing.assert_close(seen_with_miner[:5], seen[:5])


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_its_trainer_with_a_classifier_takes_them_too():
    torch.manual_seed(0)
    models = {"trunk": nn.Linear(64, 16), "embedder": nn.Linear(16, 8), "classifier": nn.Linear(8, 10)}
    before = {name: model.weight.detach().clone() for name, model in models.items()}
    seen = []
    trainers.TrainWithClassifier(
        models=models,
        optimizers={f"{name}_optimizer": torch.optim.Adam(model.parameters(), 1e-2) for name, model in models.items()},
        batch_size=64,
        loss_funcs={"metric_loss": InPML(sm.ShadowLoss(0.2)), "classifier_loss": nn.CrossEntropyLoss()},
        mining_funcs={"tuple_miner": sm.SemiHardMiner(0.2)},
        loss_weights={"metric_loss": 1.0, "classifier_loss": 0.5},
        dataset=Rows(),
        data_device=torch.device("cpu"),
        dataloader_num_workers=0,
        end_of_iteration_hook=lambda trainer: seen.append(
            {name: float(trainer.losses[name]) for name in trainer.losses}
        ),
    ).train(num_epochs=1)
    assert all(0 < losses["metric_loss"] < 0.2 for losses in seen)
    assert seen[-1]["classifier_loss"] < seen[0]["classifier_loss"]
    assert not any(torch.equal(model.weight, before[name]) for name, model in models.items())


def presets(folder, trunk, miner):
    """Return PML's trainer of digits, and its hooks that write records, judge each epoch, and save every part."""
    keeper, _, _ = logging_presets.get_record_keeper(str(folder / "records"))
    hooks = logging_presets.get_hook_container(keeper)
    calculator = AccuracyCalculator(
        include=("mean_average_precision_at_r",), k="max_bin_count", knn_func=CustomKNN(distances.CosineSimilarity())
    )
    tester = testers.GlobalEmbeddingSpaceTester(
        end_of_testing_hook=hooks.end_of_testing_hook,
        accuracy_calculator=calculator,
        data_device=torch.device("cpu"),
        dataloader_num_workers=0,
    )
    few = torch.utils.data.Subset(Rows(), range(100))
    trainer = trainers.MetricLossOnly(
        models={"trunk": trunk},
        optimizers={"trunk_optimizer": torch.optim.Adam(trunk.parameters())},
        batch_size=50,
        loss_funcs={"metric_loss": InPML(sm.ShadowLoss(0.2))},
        mining_funcs={"tuple_miner": miner},
        dataset=few,
        data_device=torch.device("cpu"),
        dataloader_num_workers=0,
        end_of_iteration_hook=hooks.end_of_iteration_hook,
        end_of_epoch_hook=hooks.end_of_epoch_hook(tester, {"val": few}, str(folder / "models")),
    )
    return trainer, hooks


def drawing(seed):
    return sm.SemiHardMiner(0.4, "random", generator=torch.Generator().manual_seed(seed))


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("wrap", [lambda miner: miner, MinerInPML], ids=["bare", "wrapped"])
def test_its_logging_presets_save_our_miners_as_they_are_and_load_them(wrap, tmp_path):
    trunk = nn.Linear(64, 8)
    trainer, hooks = presets(tmp_path, trunk, wrap(drawing(1)))
    trainer.train(num_epochs=2)
    assert {"tuple_miner_2.pth", "trunk_2.pth"} <= {path.name for path in (tmp_path / "models").iterdir()}
    again, _ = presets(tmp_path / "again", nn.Linear(64, 8), wrap(drawing(2)))
    assert hooks.load_latest_saved_models(again, str(tmp_path / "models"), device=torch.device("cpu")) == 3
    assert torch.equal(again.models["trunk"].weight, trunk.weight)
    first, second = (one.mining_funcs["tuple_miner"](*batch(rows=60)) for one in (trainer, again))
    assert len(first.negative) > 10
    assert torch.equal(first.negative, second.negative)  # the generator goes on where it was


@pytest.mark.parametrize("miner", [sm.HardMiner(), sm.BatchHardMiner(), sm.AllMiner(), sm.SemiHardMiner()])
def test_every_miner_is_saved_by_its_presets(miner, tmp_path):
    hooks = logging_presets.HookContainer(None)
    trainer, _ = presets(tmp_path, nn.Linear(64, 8), miner)
    hooks.save_models(trainer, str(tmp_path), 1)
    assert hooks.load_latest_saved_models(trainer, str(tmp_path), device=torch.device("cpu")) == 2
