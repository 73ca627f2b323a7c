"""What is skipped, and the reason that it gives."""

import pytest

from benchmarks.losses.plan import Job, Machine, check_sizes, expected_seconds, skip_reason

SMALL = Machine(available_bytes=1_000_000_000, operations_per_second=1e11)
LARGE = Machine(available_bytes=10**15, operations_per_second=1e11)
BLIND = Machine(available_bytes=None, operations_per_second=1e11)


@pytest.mark.parametrize(
    ("job", "gigabytes"),
    [
        (Job("pml", 1024, 128), "1.3"),  # 1024**3 of cube, 56 * 1024 * 4 * 1019 of triplets, 3 copies of the rows
        (Job("st", 4096, 128), "1.3"),  # 80 * 4096**2 and 3 copies of the rows
    ],
)
def test_what_does_not_fit_is_skipped_with_the_memory_it_would_need(job, gigabytes):
    assert skip_reason(job, SMALL, 300.0) == f"needs about {gigabytes} GB, more than 60% of the 1.0 GB available"


@pytest.mark.parametrize("contender", ["ours", "bare-product", "algorithm-1"])
def test_the_same_size_without_quadratic_tensors_is_run(contender):
    assert skip_reason(Job(contender, 4096, 128), SMALL, 300.0) is None


def test_pml_leaves_its_cube_behind_above_1290_rows():
    machine = Machine(available_bytes=10_000_000_000, operations_per_second=1e11)
    assert skip_reason(Job("pml", 4096, 128), machine, 300.0) is None  # the cube would be 69 GB


@pytest.mark.parametrize("contender", ["pml", "st"])
def test_peers_stop_at_8192_rows_even_where_memory_would_do(contender):
    assert skip_reason(Job(contender, 8192, 64), LARGE, 3000.0) is None
    reason = skip_reason(Job(contender, 8193, 64), LARGE, 3000.0)
    assert reason is not None
    assert "8192 rows" in reason


def test_what_takes_longer_than_the_limit_is_skipped():
    reason = skip_reason(Job("ours", 65536, 2048), LARGE, 300.0)
    assert reason is not None
    assert reason.endswith("more than the limit of 300 s")
    assert skip_reason(Job("ours", 65536, 2048), LARGE, 1e6) is None


def test_unknown_memory_skips_nothing_for_memory():
    assert skip_reason(Job("st", 8192, 64), BLIND, 300.0) is None


def test_a_larger_batch_is_expected_to_take_longer():
    seconds = [expected_seconds(Job("pml", batch, 128), LARGE) for batch in (256, 1024, 4096)]
    assert seconds == sorted(set(seconds))


def test_sizes_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"^--batch is 0; it must be 1 or more\.$"):
        check_sizes("--batch", [32, 0])
