"""What is refused at the door: one sentence each, naming the value and what to do."""

import gc
import subprocess
import sys
import weakref

import pytest
import torch
from batches import plain_batch
from unchecked_calls import unchecked_calls

import shadowmetric as sm

E, Y = plain_batch(dtype=torch.float32)
NAN = E.clone()
NAN[7, 2] = float("nan")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((E[0], Y), r"embeddings has shape \(8,\); it must be \(rows, dim\)"),
        ((E.long(), Y), r"embeddings is torch.int64; it must be a floating type"),
        ((E[:0], Y[:0]), r"embeddings is empty, of shape \(0, 8\)"),
        ((E, Y[:29]), r"labels has shape \(29,\) for 30 rows of embeddings; give one label for each row"),
        ((E, Y.float()), r"labels is torch.float32; class labels must be integers"),
        ((E, Y[:, None]), r"labels has shape \(30, 1\)"),
        ((NAN, Y), r"embeddings has NaN or infinity in 1 of .* rows, the first is row 7"),
        ((1e301 * E.double(), Y), r"embeddings has a number of .*; numbers must stay below 1e\+300"),
    ],
)
@pytest.mark.parametrize(
    "user",
    [
        sm.ShadowLoss(),
        sm.MultiSimilarityLoss(),
        sm.AngularLoss(),
        sm.SemiHardMiner(),
        sm.HardMiner(),
        sm.BatchHardMiner(),
        sm.AllMiner(),
        sm.SoftTripleLoss(6, 8),
    ],
)
def test_bad_batches_are_refused_in_one_sentence(user, arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        user(*arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"references": E}, "references was given without reference_labels; pass both or neither"),
        ({"reference_labels": Y}, "reference_labels was given without references; pass both or neither"),
        ({"references": E[:, :4], "reference_labels": Y}, "references has rows of 4 numbers and embeddings of 8"),
        ({"references": E, "reference_labels": Y[:3]}, r"reference_labels has shape \(3,\) for 30 rows of references"),
    ],
)
@pytest.mark.parametrize("loss", [sm.ShadowLoss(), sm.ContrastiveLoss(), sm.AngularLoss()])
def test_bad_references_are_refused(loss, keywords, sentence):
    with pytest.raises(ValueError, match=sentence):
        loss(E, Y, **keywords)


ROWS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("triplets", "sentence"),
    [
        ((ROWS, ROWS), r"triplets is a tuple of 2; give \(anchor, positive, negative\)"),
        ((ROWS, ROWS, ROWS[:1]), r"lengths \[2, 2, 1\]; they must be equal"),
        ((ROWS, ROWS, torch.tensor([0, 30])), r"triplets' negative names row 30; the rows are 0 to 29"),
        ((torch.tensor([-1, 0]), ROWS, ROWS), r"triplets' anchor names row -1; the rows are 0 to 29"),
        ((ROWS.float(), ROWS, ROWS), r"triplets' anchor is torch.float32 of shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("loss", [sm.ShadowLoss(), sm.ContrastiveLoss(), sm.AngularLoss()])
def test_bad_triplets_are_refused(loss, triplets, sentence):
    with pytest.raises(ValueError, match=sentence):
        loss(E, Y, triplets)


@pytest.mark.parametrize("margin", [0.0, -0.2, float("nan")])
@pytest.mark.parametrize(
    "made", [sm.ShadowLoss, sm.TripletLoss, sm.AngularTripletLoss, sm.ContrastiveLoss, sm.SemiHardMiner]
)
def test_margins_that_are_not_above_zero_are_refused(made, margin):
    with pytest.raises(ValueError, match=r"margin is .*; it must be a number above 0"):
        made(margin)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: sm.ShadowLoss(miner="semihard"),
            "miner is 'semihard'; choose one of hard, semi_hard, batch_hard, all",
        ),
        (lambda: sm.ShadowLoss(miner=7), "miner is 7; give one of hard, semi_hard, batch_hard, all or a miner object"),
        (lambda: sm.ShadowLoss(reduction="avg"), "reduction is 'avg'; choose one of mean, sum, mean_nonzero"),
        (lambda: sm.SemiHardMiner(negatives="hardest"), "negatives is 'hardest'; choose one of nearest, all, random"),
        (lambda: sm.HardMiner(unit="cosine"), "unit is 'cosine'; choose one of squared, gap, distance, angle"),
        (lambda: sm.equivalent_margins(0.2, "metres"), "unit is 'metres'; choose one of gap"),
        (lambda: sm.AngularLoss(95.0), r"degrees is 95\.0; it must be between 0 and 90"),
    ],
)
def test_unknown_names_are_refused_with_the_choices(make, sentence):
    with unchecked_calls(), pytest.raises(ValueError, match=sentence):
        make()


def test_centers_refuse_labels_they_have_no_class_for_and_triplets():
    with pytest.raises(ValueError, match="labels has 5; with 3 classes they must be 0 to 2"):
        sm.SoftTripleLoss(3, 8)(E, Y)
    with pytest.raises(ValueError, match="compares rows with its centers; it takes no triplets"):
        sm.ArcFaceLoss(6, 8)(E, Y, (ROWS, ROWS, ROWS))
    with pytest.raises(ValueError, match="embeddings has rows of 8 numbers; the centers have 5"):
        sm.ArcFaceLoss(6, 5)(E, Y)


def test_centers_come_with_a_learning_rate_of_their_own():
    network, loss = torch.nn.Linear(8, 8), sm.SoftTripleLoss(6, 8)
    optimizer = torch.optim.Adam([{"params": network.parameters()}, *loss.parameter_groups()], lr=1e-4)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-4, 1e-2]
    assert optimizer.param_groups[1]["params"][0] is loss.centers


def test_a_loss_says_the_unit_of_its_margin():
    assert "margin=0.2 (gap)" in repr(sm.ShadowLoss())
    assert "margin=0.2 (squared distance)" in repr(sm.TripletLoss())
    assert "margin=0.2 (distance)" in repr(sm.TripletLoss(squared=False))
    assert "margin=0.2 (radians)" in repr(sm.AngularTripletLoss())
    assert "margin=1.0 (distance)" in repr(sm.ContrastiveLoss())
    assert "margin=1.0 (distance)" in repr(sm.LiftedStructureLoss())
    assert "margin=0.4 (distance)" in repr(sm.RankedListLoss())
    assert "margin=0.01 (cosine)" in repr(sm.SoftTripleLoss(3, 8))
    assert "margin=0.5 (radians)" in repr(sm.ArcFaceLoss(3, 8))


def test_the_text_of_a_loss_has_the_bytes_that_it_keeps():
    for loss in (sm.ShadowLoss(), sm.AngularLoss(), sm.NPairLoss(), sm.SoftTripleLoss(3, 8)):
        assert f"kept={loss.memory().kept} bytes" in repr(loss)
    assert "P bytes" in repr(sm.ShadowLoss())  # a triplet for each positive pair
    assert "kept" not in repr(sm.ShadowLoss(miner=lambda embeddings, labels: None))  # who knows


def test_a_named_miner_takes_the_loss_s_margin_and_an_object_keeps_its_own():
    assert sm.ShadowLoss(0.7).miner == sm.SemiHardMiner(0.7, unit="gap")
    assert sm.TripletLoss(0.7).miner == sm.SemiHardMiner(0.7)
    assert sm.TripletLoss(0.7, squared=False, normalize=False, miner="hard").miner == sm.HardMiner(
        unit="distance", normalize=False
    )
    assert sm.ShadowLoss(0.7, miner=sm.SemiHardMiner(0.1)).miner == sm.SemiHardMiner(0.1)


def test_other_integer_types_are_labels_too():
    for dtype in (torch.int32, torch.int16, torch.uint8):
        torch.testing.assert_close(sm.ShadowLoss()(E, Y.to(dtype)), sm.ShadowLoss()(E, Y))


def test_a_pml_miner_s_triplets_are_taken_as_they_come():
    theirs = pytest.importorskip("pytorch_metric_learning.miners")
    given = theirs.BatchHardMiner()(E, Y)
    torch.testing.assert_close(sm.ShadowLoss()(E, Y, given), sm.ShadowLoss(miner="batch_hard")(E, Y))


@pytest.mark.filterwarnings("ignore")  # the compiler's own, about the graph breaks that mining causes
def test_losses_work_inside_a_compiled_step():
    """Mining has shapes that depend on data, so the compiler breaks its graph there; value and gradient stay."""
    layer, loss = torch.nn.Linear(8, 4), sm.ShadowLoss(0.4)

    def step(inputs, labels):
        return loss(layer(inputs), labels)

    plain = step(E, Y)
    plain.backward()
    expected, layer.weight.grad = layer.weight.grad, None
    compiled = torch.compile(step, backend="eager")(E, Y)
    compiled.backward()
    torch.testing.assert_close(compiled, plain)
    torch.testing.assert_close(layer.weight.grad, expected)


def test_import_pulls_in_torch_alone():
    """Nothing that `import torch` does not load itself, but this package."""
    code = (
        "import sys, torch; before = set(sys.modules); import shadowmetric; "
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "['shadowmetric']"


def test_settings_without_meaning_are_refused():
    for made in (
        lambda: sm.ShadowLoss(float("inf")),
        lambda: sm.ContrastiveLoss(float("inf")),
        lambda: sm.SoftTripleLoss(3, 8, gamma=0.0),
        lambda: sm.MultiSimilarityLoss(epsilon=float("nan")),
        lambda: sm.ShadowLoss(scratch_bytes=0),
        lambda: sm.SemiHardMiner(scratch_bytes=-5),
        lambda: sm.shadow_loss(E, (ROWS, ROWS, ROWS), reduction="none"),
        lambda: sm.shadow_loss(E, (ROWS, ROWS, ROWS + 29)),
        lambda: sm.ArcFaceLoss(6, 8)(E, Y, references=E),
    ):
        with unchecked_calls(), pytest.raises(ValueError, match=r"; "):
            made()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: sm.RankedListLoss(balance=-1.0), "balance is -1.0; it must be at least 0 and at most 1"),
        (lambda: sm.RankedListLoss(balance=1.5), "balance is 1.5; it must be at least 0 and at most 1"),
        (lambda: sm.RankedListLoss(temperature=-1.0), "temperature is -1.0; it must be at least 0"),
        (lambda: sm.RankedListLoss(margin=1.3), "margin is 1.3 and alpha 1.2; .* give a margin of at most alpha"),
        (lambda: sm.ranked_list_loss(E, Y, alpha=0.3), "margin is 0.4 and alpha 0.3; .* a margin of at most alpha"),
        (lambda: sm.NPairLoss(l2_weight=-0.1), "l2_weight is -0.1; it must be at least 0"),
        (lambda: sm.SoftTripleLoss(3, 8, tau=-0.2), "tau is -0.2; it must be at least 0"),
        (lambda: sm.SoftTripleLoss(3, 8, margin=-0.01), "margin is -0.01; it must be at least 0"),
        (lambda: sm.ArcFaceLoss(3, 8, margin=28.6), "margin is 28.6; it is in radians and must be below pi: 28.6 deg"),
    ],
)
def test_settings_that_turn_a_loss_around_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        make()
    assert "\n" not in str(error.value)


def test_settings_at_the_ends_of_their_ranges_are_taken():
    for loss in (
        sm.RankedListLoss(balance=0.0),
        sm.RankedListLoss(balance=1.0, temperature=0.0),
        sm.RankedListLoss(alpha=0.4, margin=0.4),
        sm.NPairLoss(l2_weight=0.0),
        sm.SoftTripleLoss(6, 8, tau=0.0, margin=0.0),
    ):
        assert loss(E, Y).isfinite()


def test_references_that_need_no_gradient_get_none():
    references = torch.randn(50, 8)
    embeddings = E.clone().requires_grad_()
    for loss in (sm.ShadowLoss(miner="batch_hard"), sm.NPairLoss(), sm.ShadowLoss(miner="all")):
        loss(embeddings, Y, references=references, reference_labels=torch.arange(50) // 5).backward()
        assert references.grad is None
    wanted = references.requires_grad_()
    for loss in (sm.ShadowLoss(miner="batch_hard"), sm.NPairLoss(), sm.ShadowLoss(miner="all")):
        wanted.grad = None
        loss(E, Y, references=wanted, reference_labels=torch.arange(50) // 5).backward()
        assert wanted.grad.abs().sum() > 0


def test_a_loss_does_not_keep_the_rows_alive_after_backward():
    kept = []
    for loss in (sm.ShadowLoss(), sm.MultiSimilarityLoss(), sm.NPairLoss(), sm.AngularLoss()):
        embeddings = E.clone().requires_grad_() * 1
        value = loss(embeddings, Y)
        value.backward()
        alive = weakref.ref(embeddings)
        kept.append(value)  # as a training loop does that sums up its losses
        del embeddings
        gc.collect()
        assert alive() is None, loss
