"""One, two and three ranks with uneven batches give value and gradients of one process with the whole batch."""

from functools import cache

import pytest
import rank_work
import torch
from processes import run_ranks

TOLERANCE = {"rtol": 0.0, "atol": 1e-10}


@cache
def every_group() -> dict[int, list[dict]]:
    return run_ranks((3, 2, 1), rank_work.all_work)


def ranks_of(count: int) -> list[dict]:
    return every_group()[count]


@pytest.mark.parametrize("form", ["", ", cached"])
@pytest.mark.parametrize("name", rank_work.EVERY)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_give_value_and_gradient_of_one_process(name, ranks, form):
    wanted = rank_work.one_process(name)
    for rank in ranks_of(ranks):
        found = rank["steps"][name + form]
        torch.testing.assert_close(found["value"], wanted["value"], **TOLERANCE)
        for part in ("gradient", "loss_gradient"):
            for one, other in zip(found[part], wanted[part], strict=True):
                torch.testing.assert_close(one, other, **TOLERANCE)
    assert any(part.abs().max() > 1e-6 for part in wanted["gradient"])


def test_rows_that_are_embedded_again_inside_of_what_is_wrapped_give_the_same():
    for name in rank_work.INSIDE:
        wanted = rank_work.one_process(name)
        for ranks in (2, 3):
            for rank in ranks_of(ranks):
                found = rank["inside"][name]
                torch.testing.assert_close(found["value"], wanted["value"], **TOLERANCE)
                for one, other in zip(found["gradient"], wanted["gradient"], strict=True):
                    torch.testing.assert_close(one, other, **TOLERANCE)


def test_two_towers_give_value_and_gradient_of_one_process():
    wanted = rank_work.towers()
    for ranks in (1, 2, 3):
        for rank in ranks_of(ranks):
            torch.testing.assert_close(rank["towers"]["value"], wanted["value"], **TOLERANCE)
            for one, other in zip(rank["towers"]["gradient"], wanted["gradient"], strict=True):
                torch.testing.assert_close(one, other, **TOLERANCE)
    assert all(part.abs().max() > 1e-6 for part in wanted["gradient"])


@pytest.mark.parametrize("name", [name for name in rank_work.EVERY if name.startswith("memory")])
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_remembers_the_rows_of_all_in_the_same_order(name, ranks):
    wanted = rank_work.one_process(name)["memory"]
    memories = [rank["steps"][name]["memory"] for rank in ranks_of(ranks)]
    for memory in memories:
        for part, value in wanted.items():
            torch.testing.assert_close(memory[part], value, **TOLERANCE)
            assert torch.equal(memory[part], memories[0][part])


@pytest.mark.parametrize("form", ["", ", cached"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_of_a_step_are_few_and_do_not_grow_with_the_micro_batches(ranks, form):
    for rank in ranks_of(ranks):
        found = rank["steps"]["shadow/semi_hard" + form]
        assert found["buckets"] == 1  # one all-reduce of the weights' gradients, not one for each micro-batch
        counts = found["counts"]
        assert counts["all_gather"] == 2  # rows and labels
        assert counts["all_gather_into_tensor"] == 1  # how many each rank has
        scattered = counts["reduce_scatter"]  # the gradient of the rows, which gloo of torch before 2.8 can't scatter
        assert scattered == 1 or torch.__version__ < "2.8"
        assert scattered + counts["all_reduce"] == 2 + found["buckets"]  # the other is of the sums


@pytest.mark.skipif(rank_work.fully_shard is None, reason="this torch has no fully_shard that works without a GPU")
def test_weights_that_are_sharded_get_the_gradient_of_one_process_or_a_refusal():
    images, labels = rank_work.make_images()
    half = 2 * (rank_work.IMAGES // 2)
    embedder = rank_work.embedder_of()
    rank_work.loss_of("shadow/semi_hard")(embedder(images[:half]), labels[:half]).backward()
    for rank in ranks_of(2):
        for found, wanted in zip(rank["sharded"]["gradient"], embedder.parameters(), strict=True):
            torch.testing.assert_close(found, wanted.grad, **TOLERANCE)
        assert "as under FSDP" in rank["sharded"]["said"]
        assert "use cached_backward" in rank["sharded"]["said"]


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_mines_its_own_anchors_against_everybody(ranks):
    for number, rank in enumerate(ranks_of(ranks)):
        assert rank["anchors"] == [(rank_work.SHARES[ranks][number], rank_work.IMAGES)]


def test_shares_are_consecutive_and_cover_everything():
    assert [rank["shares"] for rank in ranks_of(3)] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_a_rank_without_rows_is_said_on_every_rank():
    assert {rank["empty"] for rank in ranks_of(3)} == {"rank 1 has no rows; give each of the 3 ranks at least one."}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_first_rank_s_values_are_sent_to_all(ranks):
    assert [rank["from_first"] for rank in ranks_of(ranks)] == [[0.0, 0.5]] * ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_rank_looks_at_the_same_rows_from_all_over_the_batch(ranks):
    """Ten classes one after the other: the first rows alone would be one point, and a collapse."""
    seen = [rank["looked_at"] for rank in ranks_of(ranks)]
    assert all(one == seen[0] for one in seen)
    (labels, mean_cosine) = seen[0][0]
    assert labels == list(range(10))
    assert mean_cosine < 0.3
