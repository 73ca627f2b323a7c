"""Relations: grades, masks and mined triplets equal plain loops; what makes no sense is one sentence."""

import pytest
import reference
import torch
from batches import exact_rows, plain_batch, random_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from relations import KINDS, both, parts, relations

import shadowmetric as sm
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.slots import arrange_slots

MINERS = {
    "hard": (sm.HardMiner, reference.hard, {}),
    "batch_hard": (sm.BatchHardMiner, reference.batch_hard, {}),
    "all": (sm.AllMiner, reference.all_triplets, {}),
    "semi_hard": (sm.SemiHardMiner, reference.semi_hard, {"margin": 0.3}),
    "window": (sm.SemiHardMiner, reference.semi_hard, {"margin": 0.5, "negatives": "all"}),
    "fallback": (sm.SemiHardMiner, reference.semi_hard, {"fallback": "farthest"}),
    "farthest": (sm.SemiHardMiner, reference.semi_hard, {"margin": 0.5, "positives": "farthest"}),
}
few = settings(max_examples=12)


@st.composite
def related(draw, most_rows=12):
    rows = draw(st.integers(2, most_rows))
    return draw(exact_rows(rows) if draw(st.booleans()) else random_rows(rows)), *draw(relations(rows))


@given(related())
def test_grades_and_masks_equal_the_loops(batch):
    _, relation, plain = batch
    grades = relation.grades(slice(None), relation)
    positive, negative = relation.masks(slice(None), relation)
    rows = torch.arange(len(plain))
    pairs = relation.measure_pairs(*(relation.rows[side] for side in torch.cartesian_prod(rows, rows).T))
    assert torch.equal(pairs.view_as(grades), grades)
    for i, mine in enumerate(plain.rows):
        for j, theirs in enumerate(plain.rows):
            grade = plain.grade(mine, theirs)
            assert float(grades[i, j]) == pytest.approx(grade, abs=1e-6)
            assert bool(positive[i, j]) == plain.positive(grade)
            assert bool(negative[i, j]) == plain.negative(grade)


@pytest.mark.parametrize("name", MINERS)
@few
@given(batch=related(), scratch=st.sampled_from([1, 2**20]))
def test_miners_equal_the_loops(name, batch, scratch):
    embeddings, relation, plain = batch
    make, loops, own = MINERS[name]
    miner = make(**own) if name == "all" else make(**own, scratch_bytes=scratch)
    wanted = loops(embeddings, plain, **own)
    assert list(zip(*(numbers.tolist() for numbers in miner(embeddings, relation)), strict=True)) == wanted


@pytest.mark.parametrize("name", MINERS)
@few
@given(batch=related(), cut=st.integers(1, 11))
def test_miners_equal_the_loops_against_references(name, batch, cut):
    embeddings, relation, plain = batch
    cut = min(cut, len(embeddings) - 1)
    (mine, my_plain), (theirs, their_plain) = parts(relation, plain, cut)
    make, loops, own = MINERS[name]
    triplets = make(**own)(embeddings[:cut], mine, embeddings[cut:], theirs)
    others = {"references": embeddings[cut:], "reference_labels": their_plain}
    wanted = loops(embeddings[:cut], my_plain, **own, **others)
    assert list(zip(*(numbers.tolist() for numbers in triplets), strict=True)) == wanted


def same_class(labels):
    first, second = torch.combinations(labels).T
    return first == second


@pytest.mark.parametrize("kind", ["tree", "pairs"])
def test_one_label_as_a_relation_mines_what_the_labels_mine(kind):
    embeddings, labels = plain_batch(30)
    relation = sm.LabelTree(labels[:, None])
    if kind == "pairs":
        relation = sm.Pairs(torch.arange(30), torch.combinations(torch.arange(30))[same_class(labels)])
    for miner in (sm.SemiHardMiner(0.4), sm.HardMiner(), sm.SemiHardMiner(0.4, "all")):
        for mined, wanted in zip(miner(embeddings, relation), miner(embeddings, labels), strict=True):
            assert torch.equal(mined, wanted)


def test_a_batch_among_its_references_is_left_out_by_its_place():
    embeddings, _ = plain_batch(12)
    relation, _ = both("sets", 12, 3)
    miner = sm.SemiHardMiner(0.6)
    wanted = miner(embeddings, relation)
    first, second = (
        miner(embeddings[some], relation[some], embeddings, relation, anchors_at=some.start)
        for some in (slice(0, 5), slice(5, 12))
    )
    assert torch.equal(torch.cat([first.negative, second.negative]), wanted.negative)
    assert torch.equal(torch.cat([first.anchor, second.anchor + 5]), wanted.anchor)


def test_a_drawn_negative_is_a_negative():
    embeddings, _ = plain_batch(20)
    relation, _ = both("sets_gap", 20, 1)
    positive, negative = relation.masks(slice(None), relation)
    for miner in (sm.SemiHardMiner(1.0, "random"), sm.DistanceWeightedMiner(seed=3)):
        triplets = miner(embeddings, relation)
        assert len(triplets.anchor)
        assert positive[triplets.anchor, triplets.positive].all()
        assert negative[triplets.anchor, triplets.negative].all()


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_relation_are_relations(kind):
    relation, _ = both(kind, 9, 5)
    numbers = torch.tensor([8, 0, 3])
    everything = slice(None)
    assert len(relation[numbers]) == 3
    assert torch.equal(relation[numbers].grades(everything, relation), relation.grades(everything, relation)[numbers])
    joined = relation[:4].joined(relation[4:])
    assert torch.equal(joined.rows, relation.rows)
    assert joined.same_kind(relation)
    with pytest.raises(TypeError, match="row numbers"):
        relation[1]


PAIR = torch.tensor([[0, 1]])
BITS = torch.ones(3, 2).bool()
WRONG = {
    "bits is torch.float32": lambda: sm.LabelSets(torch.rand(3, 2)),
    "bits goes from 0 to 5": lambda: sm.LabelSets(torch.tensor([[0, 5]])),
    "grades go from above 0 to 1": lambda: sm.LabelSets(BITS, positive_from=2.0),
    "without positive_from": lambda: sm.LabelSets(BITS, negative_below=0.2),
    "at most positive_from": lambda: sm.LabelSets(BITS, positive_from=0.5, negative_below=0.6),
    r"paths is torch.int64 of shape \(3,\)": lambda: sm.LabelTree(torch.arange(3)),
    "the paths have levels 1 to 2": lambda: sm.LabelTree(torch.zeros(3, 2).long(), positive_level=3),
    "items is torch.float32": lambda: sm.Pairs(torch.rand(3), PAIR),
    r"positive is torch.int64 of shape \(2,\)": lambda: sm.Pairs(torch.arange(3), torch.arange(2)),
    r"the pair \(0, 1\) is listed with two grades": lambda: sm.Relevance(
        torch.arange(3), torch.tensor([[0, 1], [1, 0]]), torch.tensor([1, 2])
    ),
    "must be 0 or above": lambda: sm.Relevance(torch.arange(3), PAIR, torch.tensor([-1.0])),
    "give one number for each": lambda: sm.Relevance(torch.arange(3), PAIR, torch.ones(2)),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_is_no_relation_is_refused(sentence):
    with pytest.raises(ValueError, match=sentence):
        WRONG[sentence]()


def test_at_the_door():
    embeddings, labels = plain_batch(6)
    sets = sm.LabelSets(torch.eye(6).bool())
    miner = sm.HardMiner()
    with pytest.raises(ValueError, match="LabelSets of 4 rows for 6 rows of embeddings; give as many"):
        miner(embeddings, sets[:4])
    with pytest.raises(ValueError, match="parts of one relation"):
        miner(embeddings, sets, embeddings, labels)
    with pytest.raises(ValueError, match="parts of one relation"):
        miner(embeddings, sets, embeddings, sm.LabelSets(torch.eye(6).bool(), graded=True))
    with pytest.raises(ValueError, match=r"or sm.LabelSets\(bits\) for several"):
        miner(embeddings, torch.eye(6).long())
    with pytest.raises(ValueError, match="the references there have other labels"):
        miner(embeddings[:2], sets[:2], embeddings, sets, anchors_at=3)
    with pytest.raises(ValueError, match="fused compares one label for each row"):
        arrange_slots(CheckedBatch(embeddings, sets), None, fused=True)
