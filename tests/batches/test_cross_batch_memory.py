"""A memory of earlier batches: the loss of a batch against itself and what is remembered."""

import copy

import pytest
import reference
import torch
from every_loss import LOSSES, of_distances
from hypothesis import given
from hypothesis import strategies as st

import shadowmetric as sm
from shadowmetric.losses.catalogue import CLASS_LOSSES

DIM = 5


def batch(seed: int, rows: int = 14) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(rows, DIM, generator=generator, dtype=torch.float64)
    return embeddings, torch.randint(0, 4, (rows,), generator=generator)


def loss_of(name: str) -> torch.nn.Module:
    torch.manual_seed(3)
    return LOSSES[name](DIM).double()


def value_and_gradient(loss, embeddings, labels):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    return value.detach(), leaf.grad


@pytest.mark.parametrize("name", LOSSES)
def test_an_empty_memory_changes_nothing(name):
    embeddings, labels = batch(0)
    embeddings[3] = embeddings[2]  # an equal row is another row, and no reason to leave it out
    if of_distances(name):
        embeddings[3] += 0.1  # their roots at 0 make 1e-8 of a rounding
    wanted = value_and_gradient(loss_of(name), embeddings, labels)
    found = value_and_gradient(sm.CrossBatchMemory(loss_of(name), 30), embeddings, labels)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("first", ["loss", "state"])
def test_a_memory_that_begins_without_gradients_serves_a_training_step(first):
    """What is made under torch.inference_mode can't be changed in a training step."""
    filled = sm.CrossBatchMemory(sm.ShadowLoss(miner="hard"), 30)
    filled(*batch(0))
    memory = sm.CrossBatchMemory(sm.ShadowLoss(miner="hard"), 30)
    with torch.inference_mode():
        if first == "loss":
            memory(*batch(0))
        else:
            memory.load_state_dict(filled.state_dict())
    for seed in (1, 2):
        found, wanted = (value_and_gradient(loss, *batch(seed)) for loss in (memory, filled))
        torch.testing.assert_close(found, wanted)
    assert memory.filled == 30


@pytest.mark.parametrize("name", LOSSES)
def test_the_second_batch_is_compared_with_itself_and_the_first(name):
    (first, first_labels), (second, second_labels) = batch(0), batch(1)
    loss = sm.CrossBatchMemory(loss_of(name), 30)
    loss(first, first_labels)
    value, gradient = value_and_gradient(loss, second, second_labels)
    leaf = second.clone().requires_grad_()
    wanted = loss_of(name)(
        leaf,
        second_labels,
        references=torch.cat([leaf, first]),
        reference_labels=torch.cat([second_labels, first_labels]),
        anchors_at=0,
    )
    wanted.backward()
    torch.testing.assert_close(value, wanted.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(gradient, leaf.grad, rtol=0, atol=1e-10)
    if name not in CLASS_LOSSES:
        assert abs(value - loss_of(name)(second, second_labels)) > 1e-6


def test_a_remembered_batch_equals_the_loops():
    """Hard mining by plain loops over batch and memory, the anchor itself left out by its place."""
    (first, first_labels), (second, second_labels) = batch(0), batch(1)
    memory = sm.CrossBatchMemory(sm.ShadowLoss(miner="hard"), 30)
    memory(first, first_labels)
    rows, labels = torch.cat([second, first]), torch.cat([second_labels, first_labels])
    own = [triplet for triplet in reference.hard(rows, labels) if triplet[0] < len(second)]
    wanted = reference.shadow(rows, own, margin=0.2)
    torch.testing.assert_close(memory(second, second_labels), wanted)


@given(st.integers(1, 20), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_the_queue_holds_the_last_rows_and_forgets_the_oldest(size, sizes):
    memory = sm.CrossBatchMemory(sm.ShadowLoss(miner="hard"), size)
    rows, labels = batch(5, sum(sizes))
    for part, part_labels in zip(rows.split(sizes), labels.split(sizes), strict=True):
        memory(part, part_labels)
    wanted, wanted_labels = rows[-size:], labels[-size:]
    assert memory.filled == len(wanted)
    assert memory.seen == len(sizes)
    order = [(memory.place - memory.filled + step) % size for step in range(memory.filled)]
    assert torch.equal(memory.rows[order], wanted)
    assert torch.equal(memory.row_labels[order], wanted_labels)


def test_warm_up_remembers_and_does_not_compare():
    loss = sm.MultiSimilarityLoss()
    memory = sm.CrossBatchMemory(loss, 50, warmup=2)
    for number in range(4):
        embeddings, labels = batch(number)
        same = torch.allclose(memory(embeddings, labels), loss(embeddings, labels))
        assert same == (number < 2)
        assert memory.filled == min(50, 14 * (number + 1))


def test_in_eval_mode_nothing_is_remembered():
    memory = sm.CrossBatchMemory(sm.ShadowLoss(), 50).eval()
    memory(*batch(0))
    assert memory.filled == memory.seen == 0


def test_remembered_rows_have_no_gradient_and_no_graph():
    memory = sm.CrossBatchMemory(sm.ShadowLoss(miner="hard"), 50)
    first = batch(0)[0].requires_grad_()
    memory(first, batch(0)[1]).backward()
    first.grad = None
    second = batch(1)[0].requires_grad_()
    memory(second, batch(1)[1]).backward()
    assert first.grad is None
    assert not memory.rows.requires_grad


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_resumed_memory_goes_on_with_the_same_bits(before, tmp_path):
    def run(memory, numbers):
        return [memory(*batch(number)).item() for number in numbers]

    whole = sm.CrossBatchMemory(sm.SoftMarginTripletLoss(), 20)
    killed, resumed = copy.deepcopy(whole), copy.deepcopy(whole)
    wanted = run(whole, range(6))[before:]
    run(killed, range(before))
    torch.save(killed.state_dict(), tmp_path / "state.pt")
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert run(resumed, range(before, 6)) == wanted
    assert {name for name in resumed.state_dict()} >= {"rows", "row_labels", "place", "filled", "seen"}
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value)


def test_a_loss_with_centers_is_saved_with_its_memory():
    memory = sm.CrossBatchMemory(sm.SoftTripleLoss(4, DIM), 20)
    memory(batch(0)[0].float(), batch(0)[1])
    again = sm.CrossBatchMemory(sm.SoftTripleLoss(4, DIM), 20)
    again.load_state_dict(memory.state_dict())
    assert torch.equal(again.loss.centers, memory.loss.centers)
    assert again.parameter_groups()[0]["params"][0] is again.loss.centers


def test_a_logical_batch_goes_into_the_memory_once():
    memory = sm.CrossBatchMemory(sm.ShadowLoss(miner="hard"), 50)
    images, labels = batch(0)
    embedder = torch.nn.Linear(DIM, DIM).double()
    sm.cached_backward(embedder, images, labels, memory, 4)
    assert (memory.filled, memory.seen) == (14, 1)
    assert torch.equal(memory.rows[:14], torch.cat([embedder(part) for part in images.split(4)]).detach())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sm.CrossBatchMemory(sm.ShadowLoss(), 0), "size is 0; it must be a whole number of at least 1"),
        (lambda: sm.CrossBatchMemory(sm.ShadowLoss(), 5, warmup=-1), "warmup is -1"),
        (lambda: sm.CrossBatchMemory(torch.nn.MSELoss(), 5), "MSELoss can't be compared with remembered rows"),
    ],
)
def test_mistakes_are_said_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_memory_of_another_size_or_dim_is_refused():
    memory = sm.CrossBatchMemory(sm.ShadowLoss(), 20)
    memory(*batch(0))
    with pytest.raises(ValueError, match="embeddings have rows of 3 numbers, the memory of 5"):
        memory(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]))
    with pytest.raises(ValueError, match="has 20 rows, and this one 30"):
        sm.CrossBatchMemory(sm.ShadowLoss(), 30).load_state_dict(memory.state_dict())
    with pytest.raises(ValueError, match="give references only with anchors_at"):
        memory.sums(*batch(0), references=batch(1)[0], reference_labels=batch(1)[1])
