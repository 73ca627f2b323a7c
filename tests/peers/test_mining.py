"""Our miners beside the peers': which call of ours gives exactly the triplets, or the loss, of theirs.

`docs/semantics.md` promises what is tested here. Rows are float64, so that two ways of computing a distance do not
round to different triplets; classes are ragged and one row is alone in its class. Triplets are compared sorted.

Where a peer keeps a negative at exactly the margin and we do not, random rows cannot tell; that one difference has a
test of its own, on rows made for it.
"""

import inspect
import re
import runpy
from math import inf
from pathlib import Path

import pytest
import torch

import shadowmetric as sm
from tools import draw_semantics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SEEDS = [0, 1, 2]
CLASSES = [(3, 2, 1), (5, 4, 3, 2, 1), (9, 1, 6, 2, 7)]  # rows of each class; one is alone
MARGINS = [0.05, 0.2, 0.7]

every_batch = pytest.mark.parametrize(("seed", "sizes"), [(s, c) for s in SEEDS for c in CLASSES])
every_margin = pytest.mark.parametrize("margin", MARGINS)


def batch(seed, sizes, dim=4):
    """Return rows of uneven length around one point for each class, and shuffled labels that are not 0, 1, 2..."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    place = place[torch.randperm(len(place), generator=generator)]
    centers = torch.randn(len(sizes), dim, generator=generator, dtype=torch.float64)
    rows = centers[place] + torch.randn(len(place), dim, generator=generator, dtype=torch.float64)
    return rows, 100 - 7 * place


def listed(triplets):
    """Return triplets as a sorted list of (anchor, positive, negative)."""
    return sorted(zip(*(column.tolist() for column in triplets), strict=True))


def all_distances(rows, *, normalize):
    """Return every distance, directly from the differences of rows."""
    rows = torch.nn.functional.normalize(rows) if normalize else rows
    return (rows[:, None] - rows[None]).norm(dim=2)


# pytorch-metric-learning

PML_SAME = {"TripletMarginMiner", "BatchHardMiner", "BatchEasyHardMiner"}
PML_IN_A_LOSS = {"MultiSimilarityMiner"}  # what MultiSimilarityLoss keeps: test_losses_of_pml.py
PML_NOT_HERE = {
    "AngularMiner",
    "DistanceWeightedMiner",
    "EmbeddingsAlreadyPackagedAsTriplets",
    "HDCMiner",
    "PairMarginMiner",
    "UniformHistogramMiner",
}


def test_every_miner_of_pml_is_here_or_said_not_to_be(pml):
    from pytorch_metric_learning import miners

    theirs = {name for name, kind in vars(miners).items() if inspect.isclass(kind)} - {"BaseMiner"}
    assert theirs == PML_SAME | PML_IN_A_LOSS | PML_NOT_HERE


@pytest.fixture
def pml():
    return pytest.importorskip("pytorch_metric_learning", reason="the peer pytorch-metric-learning is not installed")


def pml_distance(unit):
    from pytorch_metric_learning import distances

    return {
        "distance": distances.LpDistance,
        "squared": lambda: distances.LpDistance(power=2),
        "gap": distances.CosineSimilarity,
    }[unit]()


@every_batch
@every_margin
@pytest.mark.parametrize("unit", ["distance", "squared", "gap"])
def test_pml_semihard_is_every_negative_of_our_window(pml, seed, sizes, margin, unit):
    from pytorch_metric_learning.miners import TripletMarginMiner

    embeddings, labels = batch(seed, sizes)
    theirs = TripletMarginMiner(margin=margin, type_of_triplets="semihard", distance=pml_distance(unit))
    ours = sm.SemiHardMiner(margin, "all", unit=unit)
    assert listed(ours(embeddings, labels)) == listed(theirs(embeddings, labels))


def test_pml_semihard_measures_distance_by_default(pml):
    from pytorch_metric_learning.miners import TripletMarginMiner

    embeddings, labels = batch(0, CLASSES[1])
    theirs = listed(TripletMarginMiner(margin=0.2, type_of_triplets="semihard")(embeddings, labels))
    assert listed(sm.SemiHardMiner(0.2, "all", unit="distance")(embeddings, labels)) == theirs
    assert listed(sm.SemiHardMiner(0.2, "all")(embeddings, labels)) != theirs


def test_pml_semihard_window_is_closed_at_the_top_and_ours_is_open(pml):
    """Row 2 is farther than row 1 by exactly the margin: PML keeps it, we do not; above and below we agree."""
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.miners import TripletMarginMiner

    embeddings = torch.tensor([[0.0], [1.0], [-1.5], [-9.0]], dtype=torch.float64)  # row 1 has no window of its own
    labels = torch.tensor([0, 0, 1, 2])
    for margin, by_pml, by_us in [(0.5, [(0, 1, 2)], []), (0.6, [(0, 1, 2)], [(0, 1, 2)]), (0.4, [], [])]:
        distance = LpDistance(normalize_embeddings=False)
        theirs = TripletMarginMiner(margin=margin, type_of_triplets="semihard", distance=distance)
        ours = sm.SemiHardMiner(margin, "all", unit="distance", normalize=False)
        assert [t for t in listed(theirs(embeddings, labels)) if t[0] == 0] == by_pml
        assert [t for t in listed(ours(embeddings, labels)) if t[0] == 0] == by_us


@every_batch
def test_pml_hard_is_a_filter_of_every_triplet(pml, seed, sizes):
    from pytorch_metric_learning.miners import TripletMarginMiner

    embeddings, labels = batch(seed, sizes)
    distance = all_distances(embeddings, normalize=True)
    filtered = [(a, p, n) for a, p, n in listed(sm.AllMiner()(embeddings, labels)) if distance[a, n] <= distance[a, p]]
    assert filtered == listed(TripletMarginMiner(margin=0.2, type_of_triplets="hard")(embeddings, labels))


@every_batch
def test_pml_batch_hard(pml, seed, sizes):
    from pytorch_metric_learning.miners import BatchHardMiner

    embeddings, labels = batch(seed, sizes)
    assert listed(sm.BatchHardMiner()(embeddings, labels)) == listed(BatchHardMiner()(embeddings, labels))


@every_batch
@pytest.mark.parametrize(("theirs", "ours"), [("easy", "nearest"), ("hard", "farthest")])
def test_pml_batch_easy_hard_is_our_window_without_an_upper_end(pml, seed, sizes, theirs, ours):
    from pytorch_metric_learning.miners import BatchEasyHardMiner

    embeddings, labels = batch(seed, sizes)
    anchor, positive, again, negative = BatchEasyHardMiner(pos_strategy=theirs)(embeddings, labels)
    assert torch.equal(anchor, again)
    miner = sm.SemiHardMiner(inf, positives=ours)
    assert listed(miner(embeddings, labels)) == listed((anchor, positive, negative))


def test_pml_batch_easy_hard_takes_the_easiest_positive_by_default(pml):
    from pytorch_metric_learning.miners import BatchEasyHardMiner

    embeddings, labels = batch(0, CLASSES[1])
    anchor, positive, _, negative = BatchEasyHardMiner()(embeddings, labels)
    miner = sm.SemiHardMiner(inf, positives="nearest")
    assert listed(miner(embeddings, labels)) == listed((anchor, positive, negative))


@every_batch
def test_pml_all_positives_with_the_hardest_negative_is_our_hard(pml, seed, sizes):
    from pytorch_metric_learning.miners import BatchEasyHardMiner

    embeddings, labels = batch(seed, sizes)
    pairs = BatchEasyHardMiner(pos_strategy="all", neg_strategy="hard")(embeddings, labels)
    anchor, positive, negative_of, negative = (column.tolist() for column in pairs)
    hardest = dict(zip(negative_of, negative, strict=True))
    theirs = [(a, p, hardest[a]) for a, p in zip(anchor, positive, strict=True)]
    assert listed(sm.HardMiner()(embeddings, labels)) == sorted(theirs)


@every_batch
def test_pml_all_triplets(pml, seed, sizes):
    from pytorch_metric_learning.utils.loss_and_miner_utils import get_all_triplets_indices

    embeddings, labels = batch(seed, sizes)
    assert listed(sm.AllMiner()(embeddings, labels)) == listed(get_all_triplets_indices(labels))


# TensorFlow Addons and TF Similarity: their rules as plain loops, for they need TensorFlow


def beyond_or_farthest(distance, anchor, floor, negatives):
    """Return the nearest negative beyond a floor, else the farthest negative."""
    beyond = [n for n in negatives if distance[anchor, n] > floor]
    if beyond:
        return min(beyond, key=lambda n: distance[anchor, n])
    return max(negatives, key=lambda n: distance[anchor, n])


def same_and_other(labels, anchor):
    """Return the positives and the negatives of an anchor."""
    same = [x for x in range(len(labels)) if x != anchor and labels[x] == labels[anchor]]
    return same, [x for x in range(len(labels)) if labels[x] != labels[anchor]]


@every_batch
@pytest.mark.parametrize("normalize", [True, False])
def test_tensorflow_addons_semihard(seed, sizes, normalize):
    embeddings, labels = batch(seed, sizes)
    distance = all_distances(embeddings, normalize=normalize)
    theirs = []
    for a in range(len(labels)):
        positives, negatives = same_and_other(labels, a)
        theirs += [(a, p, beyond_or_farthest(distance, a, distance[a, p], negatives)) for p in positives]
    miner = sm.SemiHardMiner(inf, fallback="farthest", normalize=normalize)
    assert listed(miner(embeddings, labels)) == theirs


@every_batch
def test_tf_similarity_semihard_with_the_hardest_positive(seed, sizes):
    embeddings, labels = batch(seed, sizes)
    distance = all_distances(embeddings, normalize=True)
    theirs = []
    for a in range(len(labels)):
        positives, negatives = same_and_other(labels, a)
        if positives:
            p = max(positives, key=lambda p: distance[a, p])
            theirs.append((a, p, beyond_or_farthest(distance, a, distance[a, p], negatives)))
    miner = sm.SemiHardMiner(inf, positives="farthest", fallback="farthest")
    assert listed(miner(embeddings, labels)) == theirs


def test_the_batches_have_pairs_that_need_the_fallback():
    """Otherwise the two tests above could not tell one fallback from another."""
    for normalize in (True, False):
        embeddings, labels = batch(0, CLASSES[1])
        kept = sm.SemiHardMiner(inf, normalize=normalize)(embeddings, labels)
        filled = sm.SemiHardMiner(inf, fallback="farthest", normalize=normalize)(embeddings, labels)
        assert len(kept.anchor) < len(filled.anchor)


# sentence-transformers


def st_loss(name, embeddings, labels):
    """Return a loss of sentence-transformers on embeddings."""
    pytest.importorskip("sentence_transformers", reason="the peer sentence-transformers is not installed")
    from sentence_transformers.sentence_transformer import losses

    loss = getattr(losses, name)(model=None)
    return loss.compute_loss_from_embeddings([embeddings], labels)


def mean_hinge(embeddings, triplets, margin):
    """Return the triplet loss by its formula, on gathered rows."""
    anchor, positive, negative = (embeddings[rows] for rows in triplets)
    return torch.relu((anchor - positive).norm(dim=1) - (anchor - negative).norm(dim=1) + margin).mean()


def our_loss(embeddings, labels, miner, margin):
    """Return our Euclidean triplet loss on rows as they are."""
    return sm.TripletLoss(margin=margin, squared=False, normalize=False, miner=miner)(embeddings, labels)


def by_formula(embeddings, labels, miner, margin):
    return mean_hinge(embeddings, miner(embeddings, labels), margin)


def with_gradient(loss, embeddings, *rest):
    """Return a loss and its gradient."""
    embeddings = embeddings.clone().requires_grad_()
    value = loss(embeddings, *rest)
    return value.detach(), torch.autograd.grad(value, embeddings)[0]


@every_batch
@pytest.mark.parametrize("ours", [by_formula, our_loss])
@pytest.mark.parametrize("length", [1, 8])  # at 8 some triplets are beyond the margin of 5
def test_st_batch_semi_hard_loss_and_gradient(seed, sizes, ours, length):
    embeddings, labels = batch(seed, sizes)
    embeddings = length * embeddings
    theirs = with_gradient(lambda rows: st_loss("BatchSemiHardTripletLoss", rows, labels), embeddings)
    miner = sm.SemiHardMiner(inf, fallback="farthest", normalize=False)
    torch.testing.assert_close(with_gradient(ours, embeddings, labels, miner, 5.0), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("ours", [by_formula, our_loss])
@pytest.mark.parametrize("seed", SEEDS)
def test_st_batch_hard_loss_and_gradient_where_no_row_is_alone(seed, ours):
    embeddings, labels = batch(seed, (4, 3, 2))
    theirs = with_gradient(lambda rows: st_loss("BatchHardTripletLoss", rows, labels), embeddings)
    miner = sm.BatchHardMiner(normalize=False)
    torch.testing.assert_close(with_gradient(ours, embeddings, labels, miner, 5.0), theirs, rtol=1e-6, atol=1e-9)


# The losses of pytorch-metric-learning average over what is above zero


@every_batch
@every_margin
@pytest.mark.parametrize("squared", [False, True])
def test_pml_triplet_loss_and_gradient(pml, seed, sizes, margin, squared):
    """Over every triplet: many are at zero there, so that the two means differ."""
    from pytorch_metric_learning.losses import TripletMarginLoss

    embeddings, labels = batch(seed, sizes)
    distance = pml_distance("squared" if squared else "distance")
    theirs = with_gradient(TripletMarginLoss(margin=margin, distance=distance), embeddings, labels)
    loss = sm.TripletLoss(margin, squared=squared, miner="all", reduction="mean_nonzero")
    torch.testing.assert_close(with_gradient(loss, embeddings, labels), theirs, rtol=1e-6, atol=1e-9)


# The page itself


def code_blocks():
    return re.findall(r"```python\n(.*?)```", (DOCS / "semantics.md").read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(code_blocks())))
def test_code_block_of_the_page_runs(number, tmp_path):
    block = tmp_path / f"block_{number}.py"
    block.write_text(code_blocks()[number], "utf-8")
    runpy.run_path(str(block))


def test_images_are_current():
    page = (DOCS / "semantics.md").read_text("utf-8")
    for path, svg in draw_semantics.draw_images().items():
        assert path.read_text("utf-8") == svg, f"{path.name} is old: run python tools/draw_semantics.py"
        assert f"](images/{path.name})" in page
