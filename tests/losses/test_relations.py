"""Losses of relations equal plain loops, value and gradient; margins by class and grade; who needs classes says so."""

import pytest
import reference
import torch
from batches import plain_batch
from every_loss import CENTERS, CLASSES, ROWS
from relations import KINDS, both, parts

import shadowmetric as sm

S = 14
OF_CLUSTERS = ("clustering",)  # its medoids stand for classes
COMPARED = {name: entry for name, entry in ROWS.items() if not entry.drawn and name not in OF_CLUSTERS}


def value_and_gradient(of, embeddings):
    rows = embeddings.clone().requires_grad_()
    value = of(rows)
    return value.detach(), torch.autograd.grad(value, rows)[0]


def assert_same(found, wanted, atol=1e-6):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("kind", ["sets", "tree_level", "pairs_both"])
@pytest.mark.parametrize("name", COMPARED)
def test_losses_of_rows_equal_the_loops(name, kind):
    embeddings, entry = plain_batch(S, 5)[0], COMPARED[name]
    relation, plain = both(kind, S, 7)
    for scratch in (1, 2**20):
        loss = entry.module(scratch_bytes=scratch)
        found = value_and_gradient(lambda rows, loss=loss: loss(rows, relation), embeddings)
        assert_same(found, value_and_gradient(lambda rows: entry.loops(rows, plain), embeddings))
        assert float(found[0]) != 0


@pytest.mark.parametrize("name", ["contrastive", "multi_similarity", "sup_con", "smooth_ap"])
def test_losses_of_rows_equal_the_loops_against_references(name):
    embeddings, entry = plain_batch(S, 5)[0], COMPARED[name]
    (mine, my_plain), (theirs, their_plain) = parts(*both("sets_gap", S, 11), 6)
    loss, others = entry.module(), {"references": embeddings[6:]}
    found = value_and_gradient(lambda rows: loss(rows, mine, reference_labels=theirs, **others), embeddings[:6])
    wanted = value_and_gradient(
        lambda rows: entry.loops(rows, my_plain, reference_labels=their_plain, **others), embeddings[:6]
    )
    assert_same(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("miner", ["all", "hard", "semi_hard"])
def test_margins_follow_the_grades(kind, miner):
    """Semi-hard mining by name keeps what is inside the window of the triplet's own margin: what is above zero."""
    embeddings, (relation, plain) = plain_batch(S, 5)[0], both(kind, S, 2)
    margin = 0.7
    mined = {"all": reference.all_triplets, "hard": reference.hard, "semi_hard": reference.semi_hard}[miner]
    triplets = mined(embeddings, plain, **({"margin": margin} if miner == "semi_hard" else {}))
    graded = {"margin": margin, "graded": relation.graded, "highest": relation.largest}
    if miner == "semi_hard":
        triplets = [one for one in triplets if reference.graded_triplet(embeddings, plain, [one], **graded) > 0]
    loss = sm.TripletLoss(margin, miner=miner)
    found = value_and_gradient(lambda rows: loss(rows, relation), embeddings)
    assert_same(
        found, value_and_gradient(lambda rows: reference.graded_triplet(rows, plain, triplets, **graded), embeddings)
    )


def test_margins_of_grades_against_references():
    embeddings = plain_batch(S, 5)[0]
    (mine, my_plain), (theirs, their_plain) = parts(*both("relevance", S, 2), 6)
    others = {"references": embeddings[6:]}
    triplets = reference.hard(embeddings[:6], my_plain, reference_labels=their_plain, **others)
    loss = sm.TripletLoss(0.6, miner="hard")
    found = value_and_gradient(lambda rows: loss(rows, mine, reference_labels=theirs, **others), embeddings[:6])

    def wanted(rows):
        known = {"references": embeddings[6:], "reference_labels": their_plain}
        return reference.graded_triplet(
            rows, my_plain, triplets, margin=0.6, graded=True, highest=mine.largest, **known
        )

    assert_same(found, value_and_gradient(wanted, embeddings[:6]))


BY_CLASS = {0: 0.1, 1: 0.9, 2: 0.4}


@pytest.mark.parametrize("given", ["mapping", "tensor"])
@pytest.mark.parametrize("miner", ["all", "hard", "semi_hard"])
def test_a_margin_by_class_is_that_of_the_anchor(miner, given):
    embeddings, labels = plain_batch(15, 5)
    mined = {"all": reference.all_triplets, "hard": reference.hard, "semi_hard": reference.semi_hard}[miner]
    triplets = []
    for label, margin in BY_CLASS.items():
        every = mined(embeddings, labels, **({"margin": margin} if miner == "semi_hard" else {}))
        triplets += [triplet for triplet in every if int(labels[triplet[0]]) == label]
    loss = sm.TripletLoss(BY_CLASS if given == "mapping" else torch.tensor([0.1, 0.9, 0.4]), miner=miner)
    found = value_and_gradient(lambda rows: loss(rows, labels), embeddings)
    wanted = value_and_gradient(
        lambda rows: reference.graded_triplet(rows, labels, triplets, margin=BY_CLASS), embeddings
    )
    assert_same(found, wanted)
    assert "margin=0.1 to 0.9 for 3 classes (squared distance)" in repr(loss)


def test_equal_margins_by_class_are_one_margin():
    embeddings, labels = plain_batch(20)
    for make in (sm.ShadowLoss, sm.AngularTripletLoss, sm.TripletLoss):
        by_class = value_and_gradient(
            lambda rows, make=make: make(dict.fromkeys(range(4), 0.3))(rows, labels), embeddings
        )
        assert_same(by_class, value_and_gradient(lambda rows, make=make: make(0.3)(rows, labels), embeddings), 1e-12)


def test_gradcheck():
    embeddings = plain_batch(9, 3, seed=4)[0].requires_grad_()
    relation, _ = both("sets", 9, 8)
    for loss in (sm.TripletLoss(0.9, miner="all"), sm.MultiSimilarityLoss(epsilon=None), sm.SupConLoss()):
        assert torch.autograd.gradcheck(lambda rows, loss=loss: loss(rows, relation), embeddings)


@pytest.mark.parametrize("loss", [sm.TripletLoss(0.5), sm.ContrastiveLoss()], ids=["triplet", "contrastive"])
def test_a_logical_batch_and_a_memory_take_relations(loss):
    embedder, images = torch.nn.Linear(4, 3).double(), torch.randn(12, 4, dtype=torch.float64)
    relation, _ = both("sets", 12, 6)
    value = sm.cached_backward(embedder, images, relation, loss, micro_batch=5)
    plain = loss(embedder(images), relation)
    assert_same([value, embedder.weight.grad], [plain.detach(), torch.autograd.grad(plain, embedder.weight)[0]], 1e-9)
    memory = sm.CrossBatchMemory(loss, size=8)
    rows = embedder(images).detach()
    memory(rows[:5], relation[:5])
    again = sm.CrossBatchMemory(loss, size=8)
    again.load_state_dict(memory.state_dict())
    joined = relation[torch.tensor([*range(5, 12), *range(5)])]
    wanted = loss(rows[5:], relation[5:], references=rows.roll(-5, 0), reference_labels=joined, anchors_at=0)
    assert float(memory(rows[5:], relation[5:])) == float(again(rows[5:], relation[5:])) == float(wanted)
    with pytest.raises(ValueError, match="the memory began with others"):
        memory(rows, torch.arange(12))


@pytest.mark.parametrize("name", [*CENTERS, *OF_CLUSTERS])
def test_losses_of_classes_need_one_label(name):
    loss = CENTERS[name].module(CLASSES, 4) if name in CENTERS else ROWS[name].module()
    sentence = f"LabelSets of 6 rows, and {type(loss).__name__} needs one label for each row"
    with pytest.raises(ValueError, match=sentence):
        loss(torch.randn(6, 4), sm.LabelSets(torch.eye(6).bool()))


def test_what_a_margin_by_class_refuses():
    embeddings, labels = plain_batch(15, 5)
    with pytest.raises(ValueError, match="margin has none for label 2"):
        sm.TripletLoss({0: 0.1, 1: 0.2})(embeddings, labels)
    with pytest.raises(ValueError, match="a margin by class needs one label for each row"):
        sm.TripletLoss({0: 0.1})(embeddings, both("sets", 15, 1)[0])
    with pytest.raises(ValueError, match="margin of class 1 is -1"):
        sm.TripletLoss(torch.tensor([0.1, -1.0]))
    with pytest.raises(ValueError, match="margin has no class"):
        sm.TripletLoss({})


def test_the_miner_of_another_library_needs_one_label():
    with pytest.raises(ValueError, match="the miner function needs one label"):
        sm.TripletLoss(miner=lambda rows, labels: None)(torch.randn(6, 3), both("sets", 6, 1)[0])
