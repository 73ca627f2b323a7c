"""Every loss equals its plain loop in reference.py, value and gradient, on batches that hypothesis makes."""

import math

import pytest
import reference
import torch
from batches import batches, plain_batch, with_references
from every_loss import CENTERS, CLASSES, OF_CENTERS, OF_ROWS, ROWS, forms_of, is_drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

import shadowmetric as sm

SCRATCH = st.sampled_from([1, 5000, 2**25])
REDUCTIONS = st.sampled_from(["mean", "sum", "mean_nonzero"])


def value_and_gradient(loss, embeddings):
    leaf = embeddings.detach().clone().requires_grad_()
    value = loss(leaf)
    value.backward()
    return value.detach(), leaf.grad


def assert_same(ours, theirs, embeddings, **tolerance):
    torch.testing.assert_close(
        value_and_gradient(ours, embeddings),
        value_and_gradient(theirs, embeddings),
        **(tolerance or {"rtol": 1e-7, "atol": 1e-8}),
    )


def spread(embeddings):
    """Move rows a little, so that no distance, gap or angle sits on a kink of its loss."""
    generator = torch.Generator().manual_seed(3)
    wider = torch.nn.functional.pad(embeddings, (0, 2))
    return wider + 0.1 * torch.randn(wider.shape, generator=generator, dtype=wider.dtype)


TRIPLET_LOSSES = {
    "shadow": (sm.ShadowLoss, reference.shadow, {}),
    "triplet": (sm.TripletLoss, reference.triplet, {}),
    "triplet_euclidean": (sm.TripletLoss, reference.triplet, {"squared": False}),
    "soft_margin": (sm.SoftMarginTripletLoss, reference.soft_margin_triplet, {}),
    "angular_triplet": (sm.AngularTripletLoss, reference.angular_triplet, {}),
}
MINERS = {"hard": reference.hard, "batch_hard": reference.batch_hard, "all": reference.all_triplets}
NAMES = [*MINERS, "semi_hard", "window", "paper"]
UNITS = {
    "shadow": "gap",
    "triplet": "squared",
    "triplet_euclidean": "distance",
    "soft_margin": "distance",
    "angular_triplet": "angle",
}


def made(name, miner, **settings):
    """The loss, with a miner by name, the window of that miner as a stream, or the paper's miner."""
    module, loops, fixed = TRIPLET_LOSSES[name]
    normalize, scratch = settings.get("normalize", True), settings["scratch_bytes"]
    chosen = {
        "window": sm.SemiHardMiner(0.3, "all", unit=UNITS[name], normalize=normalize, scratch_bytes=scratch),
        "paper": sm.SemiHardMiner(0.3, scratch_bytes=scratch),
    }.get(miner, miner)
    return module(margin=0.3, miner=chosen, **fixed, **settings), loops, fixed | {"margin": 0.3}


def mined_by_loops(name, miner, embeddings, labels, *, normalize=True, **references):
    """The triplets of a loss's miner by name: in the loss's unit, on rows as the loss compares them."""
    if miner == "paper":
        return reference.semi_hard(embeddings, labels, margin=0.3, **references)
    settings = {"unit": UNITS[name], "normalize": normalize}
    if miner in MINERS:
        return MINERS[miner](embeddings, labels, **settings, **references)
    if miner == "window":
        return reference.semi_hard(embeddings, labels, margin=0.3, negatives="all", **settings, **references)
    margin = math.inf if name == "soft_margin" else 0.3
    return reference.semi_hard(embeddings, labels, margin=margin, **settings, **references)


@pytest.mark.parametrize("name", TRIPLET_LOSSES)
@given(batches(12), st.sampled_from(NAMES), st.booleans(), REDUCTIONS, SCRATCH)
def test_triplet_losses_equal_the_loops(name, batch, miner, normalize, reduction, scratch):
    embeddings, labels = spread(batch[0]), batch[1]
    loss, loops, fixed = made(name, miner, normalize=normalize, reduction=reduction, scratch_bytes=scratch)
    triplets = mined_by_loops(name, miner, embeddings, labels, normalize=normalize)
    assert_same(
        lambda e: loss(e, labels),
        lambda e: loops(e, triplets, normalize=normalize, reduction=reduction, **fixed),
        embeddings,
    )


@pytest.mark.parametrize("name", TRIPLET_LOSSES)
@given(with_references(8), st.sampled_from(NAMES), st.booleans(), SCRATCH)
def test_triplet_losses_against_references_equal_the_loops(name, batch, miner, normalize, scratch):
    embeddings, labels, references, reference_labels = batch
    spread_references, embeddings = spread(torch.cat([references, embeddings])).tensor_split([len(references)])
    loss, loops, fixed = made(name, miner, normalize=normalize, scratch_bytes=scratch)
    against = {"references": spread_references, "reference_labels": reference_labels}
    triplets = mined_by_loops(name, miner, embeddings, labels, normalize=normalize, **against)
    fixed = fixed | {"normalize": normalize}
    assert_same(
        lambda e: loss(e, labels, references=spread_references, reference_labels=reference_labels),
        lambda e: loops(e, triplets, references=spread_references, **fixed),
        embeddings,
    )
    assert_same(
        lambda r: loss(embeddings.clone(), labels, tensors(triplets), references=r, reference_labels=reference_labels),
        lambda r: loops(embeddings.clone(), triplets, references=r, **fixed) + 0 * r.sum(),
        spread_references,
    )


def tensors(triplets):
    return tuple(torch.tensor([t[i] for t in triplets], dtype=torch.int64) for i in range(3))


ROW_FORMS, CENTER_FORMS = forms_of(ROWS), forms_of(CENTERS)
FEW = settings(max_examples=8)  # of a loss that goes another's way


def examples(entry):
    """Return as many examples as a loss is worth."""
    return FEW if entry.light else settings()


@pytest.mark.parametrize("name", ROW_FORMS)
def test_row_losses_equal_the_loops(name):
    entry, fixed = ROW_FORMS[name]

    @examples(entry)
    @given(batches(10), st.booleans(), SCRATCH)
    def run(batch, normalize, scratch):
        embeddings, labels = spread(batch[0]), batch[1]
        loss = entry.module(normalize=normalize, scratch_bytes=scratch, **fixed)
        assert_same(
            lambda e: loss(e, labels), lambda e: entry.loops(e, labels, normalize=normalize, **fixed), embeddings
        )

    run()


@pytest.mark.parametrize("name", [name for name, entry in ROWS.items() if entry.references])
def test_row_losses_against_references_equal_the_loops(name):
    entry, fixed = ROW_FORMS[name]

    @examples(entry)
    @given(with_references(8), SCRATCH)
    def run(batch, scratch):
        embeddings, labels, references, reference_labels = batch
        references, embeddings = spread(torch.cat([references, embeddings])).tensor_split([len(references)])
        loss = entry.module(scratch_bytes=scratch, **fixed)
        against = {"references": references, "reference_labels": reference_labels}
        assert_same(
            lambda e: loss(e, labels, **against), lambda e: entry.loops(e, labels, **fixed, **against), embeddings
        )

    run()


@pytest.mark.parametrize("name", [name for name, entry in ROWS.items() if entry.triplets])
def test_row_losses_of_given_triplets_equal_the_loops(name):
    entry, fixed = ROW_FORMS[name]

    @examples(entry)
    @given(batches(10), SCRATCH)
    def run(batch, scratch):
        embeddings, labels = spread(batch[0]), batch[1]
        loss = entry.module(scratch_bytes=scratch, **fixed)
        triplets = reference.semi_hard(embeddings, labels, margin=1.0, negatives="all")
        assert_same(
            lambda e: loss(e, labels, tensors(triplets)),
            lambda e: entry.loops(e, labels, triplets=triplets, **fixed),
            embeddings,
        )

    run()


@pytest.mark.parametrize("name", [name for name, entry in ROWS.items() if not entry.triplets])
def test_all_triplets_given_is_all_pairs(name):
    embeddings, labels = plain_batch(rows=14, per_class=4)  # the last class has two rows
    entry, fixed = ROW_FORMS[name]
    loss = entry.module(**fixed)
    torch.testing.assert_close(loss(embeddings, labels, sm.AllMiner()(embeddings, labels)), loss(embeddings, labels))


@pytest.mark.parametrize("name", ["angular", "lifted_structure"])
def test_losses_of_two_rows_take_the_batch_again_as_references(name):
    embeddings, labels = plain_batch(rows=14, per_class=4)
    entry, fixed = ROW_FORMS[name]
    loss, again = entry.module(**fixed), {"references": embeddings.clone(), "reference_labels": labels}
    torch.testing.assert_close(loss(embeddings, labels, **again), loss(embeddings, labels))


@pytest.mark.parametrize("name", CENTER_FORMS)
def test_losses_with_centers_equal_the_loops(name):
    entry, fixed = CENTER_FORMS[name]

    @examples(entry)
    @given(batches(10), SCRATCH)
    def run(batch, scratch):
        embeddings, labels = spread(batch[0]), torch.unique(batch[1], return_inverse=True)[1]
        loss = entry.module(CLASSES, embeddings.shape[1], scratch_bytes=scratch, **fixed).double()
        centers = loss.centers.detach().clone()
        assert_same(lambda e: loss(e, labels), lambda e: entry.loops(e, labels, centers, **fixed), embeddings)
        loss.centers.grad = None
        loss(embeddings, labels).backward()
        _, expected = value_and_gradient(lambda w: entry.loops(embeddings, labels, w, **fixed), centers)
        torch.testing.assert_close(loss.centers.grad, expected, rtol=1e-7, atol=1e-8)

    run()


EVERY = (
    {
        f"{name}/{miner}": lambda dim, module=module, miner=miner, fixed=fixed: module(miner=miner, **fixed)
        for name, (module, _, fixed) in TRIPLET_LOSSES.items()
        for miner in ("hard", "all")
    }
    | {
        f"shadow/{unit}": lambda dim, unit=unit: sm.ShadowLoss(miner=sm.SemiHardMiner(0.5, "all", unit=unit))
        for unit in ("squared", "angle")
    }
    | OF_ROWS
    | OF_CENTERS
)


SMOOTH = {entry.module: entry.smooth for entry in ROWS.values()}
SLOPES = [name for name, make in EVERY.items() if SMOOTH.get(type(make(8)), {}) is not None]


@pytest.mark.parametrize(
    ("name", "normalize"), [(name, unit) for name in SLOPES for unit in (True, False) if unit or name not in OF_CENTERS]
)
def test_gradients_equal_finite_differences(name, normalize):
    loss = EVERY[name](4).double()
    for setting, value in SMOOTH.get(type(loss), {}).items():
        setattr(loss, setting, value)
    loss.normalize = normalize
    embeddings, labels = plain_batch(rows=11, dim=4, per_class=3, seed=5)
    leaves = [embeddings.requires_grad_(), *loss.parameters()]
    assert gradcheck(lambda *_: loss(embeddings, labels), leaves, eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("labels", [[0] * 6, [0, 1, 2, 3, 4, 5], [0]], ids=["one class", "only singletons", "one row"])
def test_batches_without_triplets_give_a_finite_value_and_gradient(name, labels):
    loss = EVERY[name](8)
    embeddings = torch.randn(len(labels), 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    value = loss(embeddings, torch.tensor(labels))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(embeddings.grad).all()
    if not hasattr(loss, "centers") and len(labels) != 6:
        assert value == 0 or getattr(loss, "l2_weight", 0)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", ["duplicates", "zero rows", "opposite rows"])
def test_degenerate_rows_keep_the_gradient_finite(name, kind):
    loss = EVERY[name](8)
    embeddings, labels = plain_batch(rows=30, dtype=torch.float32)
    if kind == "duplicates":
        embeddings[1:20] = embeddings[0]
    elif kind == "zero rows":
        embeddings[3:9] = 0
    else:
        embeddings[10:20] = -embeddings[0:10]
    embeddings.requires_grad_()
    value = loss(embeddings, labels)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(embeddings.grad).all()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_rows_are_summed_in_float32(name, dtype):
    """The error of half rows is that of the rows themselves, not of the sums: compare with the same rows in float64."""
    torch.manual_seed(0)
    loss = EVERY[name](8)
    embeddings, labels = plain_batch(dtype=dtype)
    value, gradient = value_and_gradient(lambda e: loss(e, labels), embeddings)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    exact, exact_gradient = value_and_gradient(lambda e: loss.double()(e, labels), embeddings.double())
    torch.testing.assert_close(value.double(), exact, rtol=1e-4, atol=1e-5)
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(
        gradient.double(), exact_gradient, rtol=2 * step, atol=2 * step * float(exact_gradient.abs().max())
    )


@pytest.mark.parametrize("name", EVERY)
def test_autocast_changes_nothing(name):
    loss = EVERY[name](8)
    embeddings, labels = plain_batch(dtype=torch.float32)
    plain = value_and_gradient(lambda e: loss(e, labels), embeddings)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = value_and_gradient(lambda e: loss(e, labels), embeddings)
    torch.testing.assert_close(cast, plain)


@pytest.mark.parametrize("name", EVERY)
def test_a_second_derivative_is_refused_in_one_sentence(name):
    loss = EVERY[name](8)
    embeddings, labels = plain_batch(dtype=torch.float32)
    embeddings.requires_grad_()
    with pytest.raises(RuntimeError, match=r"no second derivative.*without create_graph=True"):
        torch.autograd.grad(loss(embeddings, labels), embeddings, create_graph=True)


@pytest.mark.parametrize("name", EVERY)
def test_block_size_does_not_matter(name):
    torch.manual_seed(0)
    loss = EVERY[name](8).double()
    embeddings, labels = plain_batch(rows=47, per_class=9)
    results = []
    for scratch in (1, 20_000, 2**28):
        loss.scratch_bytes = scratch
        results.append(value_and_gradient(lambda e: loss(e, labels), embeddings))
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])


@pytest.mark.parametrize("name", [name for name in EVERY if not is_drawn(name)])
def test_order_of_rows_and_names_of_classes_do_not_matter(name):
    torch.manual_seed(0)
    loss = EVERY[name](8).double()
    embeddings, labels = plain_batch()
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    value, gradient = value_and_gradient(lambda e: loss(e, labels), embeddings)
    renamed = labels if hasattr(loss, "centers") else 2**60 - 3 * labels
    permuted, permuted_gradient = value_and_gradient(lambda e: loss(e, renamed[order]), embeddings[order])
    torch.testing.assert_close(permuted, value)
    torch.testing.assert_close(permuted_gradient, gradient[order])
