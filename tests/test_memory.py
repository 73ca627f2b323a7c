"""Memory-linear for real: bytes kept for backward, and every allocation, counted.

Kept bytes are the storages that autograd saves, other than those of the inputs. Allocations are seen by a
dispatch mode that looks at the storage of every tensor an operation returns. Both are exact counts.
"""

from functools import partial

import pytest
import torch
from batches import plain_batch
from every_loss import CENTERS, ROWS, is_light, maker
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import shadowmetric as sm
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES

LOSSES = {
    "shadow": lambda dim, **s: sm.ShadowLoss(miner="hard", **s),
    "shadow_free_rows": lambda dim, **s: sm.ShadowLoss(miner="hard", normalize=False, **s),
    "shadow_semi_hard": lambda dim, **s: sm.ShadowLoss(miner=sm.SemiHardMiner(4.5, fallback="farthest", **s), **s),
    "shadow_batch_hard": lambda dim, **s: sm.ShadowLoss(miner=sm.BatchHardMiner(**s), **s),
    "shadow_all": lambda dim, **s: sm.ShadowLoss(miner="all", **s),
    "shadow_window": lambda dim, **s: sm.ShadowLoss(miner=sm.SemiHardMiner(0.2, "all", **s), **s),
    "triplet": lambda dim, **s: sm.TripletLoss(miner="hard", **s),
    "triplet_euclidean": lambda dim, **s: sm.TripletLoss(miner="hard", squared=False, **s),
    "soft_margin": lambda dim, **s: sm.SoftMarginTripletLoss(miner="hard", **s),
    "angular_triplet": lambda dim, **s: sm.AngularTripletLoss(miner="hard", **s),
    **{name: maker(entry, entry.kept_without, of_centers=False) for name, entry in ROWS.items()},
    **{name: partial(maker(entry, entry.kept_without, of_centers=True), classes=20) for name, entry in CENTERS.items()},
}


def kept_bytes(loss, embeddings, labels) -> int:
    """Count the bytes of storages that autograd saves, without those of inputs and parameters."""
    own = {t.untyped_storage().data_ptr() for t in (embeddings, labels, *loss.parameters())}
    storages = {}

    def save(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        loss(embeddings, labels)
    return sum(size for size, _ in storages.values())


class LargestAllocation(TorchDispatchMode):
    """Remember the largest storage that any operation returned and that did not exist before."""

    def __init__(self, known):
        super().__init__()
        self.known = {t.untyped_storage().data_ptr() for t in known}
        self.largest, self.where = 0, ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage.nbytes() > self.largest and storage.data_ptr() not in self.known:
                    self.largest, self.where = storage.nbytes(), str(func)
        return out


@pytest.mark.parametrize("name", LOSSES)
def test_what_backward_keeps_does_not_grow_with_the_dimension(name):
    def kept(dim):
        embeddings, labels = plain_batch(rows=100, dim=dim, dtype=torch.float32)
        return kept_bytes(LOSSES[name](dim), embeddings.requires_grad_(), labels)

    assert kept(8) == kept(4096)


@pytest.mark.parametrize("name", LOSSES)
def test_what_backward_keeps_grows_with_the_rows_and_not_with_their_square(name):
    def kept(rows):
        embeddings, labels = plain_batch(rows=rows, dtype=torch.float32)
        labels = labels % 20 if name in CENTERS else labels
        return kept_bytes(LOSSES[name](8), embeddings.requires_grad_(), labels)

    assert kept(1200) <= 3 * kept(600)  # 4 for squares; below 512 rows another way is taken, which keeps less


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_rows_are_not_kept_as_a_float32_copy(dtype):
    def kept(dim):
        embeddings, labels = plain_batch(rows=100, dim=dim, dtype=dtype)
        return kept_bytes(sm.ShadowLoss(miner="batch_hard"), embeddings.requires_grad_(), labels)

    assert kept(8) == kept(4096)


def test_the_counter_sees_what_the_printed_algorithm_keeps():
    """The same count on the paper's Algorithm 1, so that a counter that sees nothing can't pass."""

    def kept(dim):
        embeddings, labels = plain_batch(rows=100, dim=dim, dtype=torch.float32)
        loss = sm.ShadowLoss()
        triplets = sm.HardMiner()(embeddings, labels)
        loss.forward = lambda e, y: sm.shadow_loss_rows(*(e[numbers] for numbers in triplets))
        return kept_bytes(loss, embeddings.requires_grad_(), labels)

    assert kept(512) > 10 * kept(8)


@pytest.mark.parametrize(
    ("name", "rows"), [(name, rows) for name in LOSSES for rows in (600, 1500) if rows == 600 or not is_light(name)]
)
def test_no_allocation_is_larger_than_the_scratch(name, rows):
    scratch = 2**20  # a (rows, rows) float32 tensor is 1.4 and 9 MB
    embeddings, labels = plain_batch(rows=rows, dim=16, dtype=torch.float32)
    labels = labels % 20 if name in CENTERS else labels
    embeddings.requires_grad_()
    loss = LOSSES[name](16, scratch_bytes=scratch)
    with LargestAllocation([embeddings, labels, *loss.parameters()]) as seen:
        loss(embeddings, labels).backward()
    assert seen.largest <= scratch, seen.where
    assert seen.largest > 0


def test_the_counter_sees_a_square_matrix():
    embeddings = torch.randn(600, 16)
    with LargestAllocation([embeddings]) as seen:
        (embeddings @ embeddings.T).relu()
    assert seen.largest == 600 * 600 * 4


def test_sixty_five_thousand_rows_fit_the_default_scratch():
    """Batch-hard on S = 65,536: 17 GB as a matrix; here no allocation above the scratch."""
    embeddings, labels = torch.randn(65_536, 4), torch.arange(65_536) // 4
    with LargestAllocation([embeddings, labels]) as seen:
        triplets = sm.BatchHardMiner()(embeddings, labels)
    assert len(triplets.anchor) == 65_536
    assert seen.largest <= SCRATCH_BYTES


@pytest.mark.parametrize("classes", [2, 300])
@pytest.mark.parametrize("measure", ["map_at_r", "reciprocal_rank", "silhouette", "accuracy", "nmi", "collapse"])
def test_an_evaluation_allocates_no_more_than_its_scratch(measure, classes):
    """Peaks of single allocations: the scratch, or a few numbers for each row, whichever is larger."""
    rows, dim, scratch = 1500, 16, 2**18
    embeddings, _ = plain_batch(rows=rows, dim=dim, dtype=torch.float32)
    labels = torch.arange(rows) % classes
    with LargestAllocation((embeddings, labels)) as seen:
        sm.evaluate(embeddings, labels, measures=[measure], scratch_bytes=scratch, progress=False)
    assert seen.largest <= 1.25 * scratch, seen.where
    assert seen.largest < rows * rows  # a byte for each pair would be seen


@pytest.mark.parametrize("name", CENTERS)
def test_a_hundred_thousand_classes_take_fixed_memory(name):
    """A (rows, classes) float32 tensor is 13 MB; nothing but the centers and their gradient exceeds the scratch."""
    scratch, rows, dim = 2**22, 32, 4
    make = maker(CENTERS[name], CENTERS[name].kept_without, of_centers=True)
    classes = 100_000 // len(make(dim, 1).centers)  # as many centers
    loss = make(dim, classes, scratch_bytes=scratch)
    embeddings, labels = plain_batch(rows=rows, dim=dim, dtype=torch.float32)
    embeddings.requires_grad_()
    with LargestAllocation([embeddings, labels, *loss.parameters()]) as seen:
        loss(embeddings, labels * (classes // 7)).backward()
    assert seen.largest <= max(scratch, 16 * len(loss.centers)), seen.where  # a gradient; two numbers of the loops
    assert seen.largest < 4 * rows * 100_000 / 2
