"""Collapse equals the plain loops and closed forms, near the collapsed state too."""

import dataclasses
import math

import numpy
import pytest
import reference
import torch
from batches import batches, plain_batch
from hypothesis import given
from hypothesis import strategies as st
from test_memory import LargestAllocation

from shadowmetric.evaluation.collapse import GROUP, collapse, collapse_bytes, collapse_costs


def figures(found) -> tuple:
    return tuple(found.variance.tolist()), found.mean_variance, *dataclasses.astuple(found)[2:]


@given(batches(), st.sampled_from([1, 2**25]))
def test_every_figure_is_the_loop_s(batch, scratch):
    found, expected = collapse(batch[0], scratch_bytes=scratch), reference.collapse(batch[0])
    assert found.variance.tolist() == pytest.approx(expected["variance"], abs=1e-14)
    assert found.mean_variance == pytest.approx(expected["mean_variance"], abs=1e-14)
    assert found.effective_rank == pytest.approx(expected["effective_rank"], rel=1e-6)
    assert found.dead_share == expected["dead_share"]
    assert found.mean_cosine == pytest.approx(expected["mean_cosine"], abs=1e-13, nan_ok=True)


@pytest.mark.parametrize("rows", [1, 2, 700])
def test_equal_rows_are_one_point(rows):
    found = collapse(torch.tensor([[0.3, -2.0, 0.7]]).repeat(rows, 1) * torch.arange(1, rows + 1)[:, None])
    assert found.variance.max() < 1e-13  # float32 rows of other lengths are rounded otherwise
    assert (found.effective_rank, found.dead_share) == (0.0, 1.0)
    assert math.isnan(found.mean_cosine) if rows == 1 else found.mean_cosine == pytest.approx(1.0)


@pytest.mark.parametrize("dim", [2, 5, 90])
def test_orthonormal_rows_have_every_figure_in_closed_form(dim):
    found = collapse(3 * torch.linalg.qr(torch.randn(dim, dim, dtype=torch.float64)).Q)
    assert found.mean_variance == pytest.approx(1 / dim - 1 / dim**2)  # |row|^2 = 1, |mean|^2 = 1 / dim, shared by dim
    assert found.effective_rank == pytest.approx(dim - 1)  # equal singular values, one direction lost to the mean
    assert found.mean_cosine == pytest.approx(0.0, abs=1e-14)
    one_hot = collapse(torch.eye(dim))
    assert one_hot.variance.tolist() == pytest.approx([1 / dim - 1 / dim**2] * dim)
    assert one_hot.dead_share == 0.0


def test_the_effective_rank_of_opposed_rows_counts_their_directions():
    rows = torch.cat([torch.eye(6)[:4], -torch.eye(6)[:4]])
    found = collapse(rows)
    assert found.effective_rank == pytest.approx(4.0)
    assert found.variance.tolist() == pytest.approx([0.25] * 4 + [0.0] * 2)
    assert found.dead_share == pytest.approx(2 / 6)
    assert found.mean_cosine == pytest.approx(-1 / 7)  # one of seven others is opposite


def test_unequal_singular_values_weigh_by_their_share():
    rows = torch.tensor(
        [[1.0, 0.0]] * 8 + [[-1.0, 0.0]] * 8 + [[0.0, 1.0], [0.0, -1.0]]
    )  # singular values 4 and sqrt 2
    p = 4 / (4 + math.sqrt(2))
    assert collapse(rows).effective_rank == pytest.approx(math.exp(-p * math.log(p) - (1 - p) * math.log(1 - p)))


@pytest.mark.parametrize("spread", [1e-4, 1e-5])
def test_nearly_collapsed_rows_do_not_cancel(spread):
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1000, 20, generator=generator, dtype=torch.float64)
    rows = torch.cat([torch.ones(1000, 1, dtype=torch.float64), spread * noise], 1)
    found = collapse(rows)
    unit = torch.nn.functional.normalize(rows)
    centered = unit - unit.mean(0)
    torch.testing.assert_close(found.variance, centered.square().mean(0), rtol=1e-6, atol=1e-24)
    singular = torch.linalg.svdvals(centered)
    p = singular / singular.sum()
    assert found.effective_rank == pytest.approx(math.exp(-(p * p.log()).sum()), rel=1e-4)
    assert 19.0 < found.effective_rank < 20.1
    assert found.dead_share == pytest.approx(1 / 21)  # the direction that they all share


def test_few_rows_in_many_dimensions_span_no_more_than_there_are():
    rows = torch.randn(6, 120, generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(rows.double())
    singular = torch.linalg.svdvals(unit - unit.mean(0))
    p = singular[:5] / singular[:5].sum()
    assert collapse(rows).effective_rank == pytest.approx(math.exp(-(p * p.log()).sum()), rel=1e-9)


@pytest.mark.parametrize("rows", [3 * GROUP + 5, 40])
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_more_dimensions_than_rows_have_the_figures_of_all_singular_values(rows, spread):
    generator = torch.Generator().manual_seed(0)
    wide = torch.ones(rows, rows + 30, dtype=torch.float64)
    wide += spread * torch.randn(wide.shape, generator=generator, dtype=torch.float64)
    unit = torch.nn.functional.normalize(wide)
    centered = unit - unit.mean(0)
    singular = torch.linalg.svdvals(centered)[: rows - 1]
    p = singular / singular.sum()
    for scratch in (1, 2**28):
        found = collapse(wide, scratch_bytes=scratch)
        assert found.effective_rank == pytest.approx(math.exp(-(p * p.log()).sum()), rel=1e-6)
        torch.testing.assert_close(found.variance, centered.square().mean(0), rtol=1e-6, atol=1e-24)


def test_dimensions_of_zeros_change_nothing_but_their_number():
    embeddings, _ = plain_batch(rows=300, dim=20)
    found, wider = collapse(embeddings), collapse(torch.cat([embeddings, torch.zeros(300, 400)], 1))
    assert wider.effective_rank == pytest.approx(found.effective_rank, rel=1e-12)
    assert wider.mean_cosine == pytest.approx(found.mean_cosine, abs=1e-14)
    assert wider.mean_variance == pytest.approx(found.mean_variance / 21)
    assert wider.dead_share == pytest.approx(1 - 20 / 420)


def test_few_rows_cost_no_matrix_of_all_dimensions():
    embeddings = torch.randn(50, 3000, generator=torch.Generator().manual_seed(0))
    with LargestAllocation([embeddings]) as seen:
        collapse(embeddings)
    assert seen.largest <= 8 * embeddings.numel(), seen.where  # the rows in float64; all dimensions would take 72 MB


def test_the_costs_are_those_of_the_smaller_side():
    assert collapse_costs(600, 8192)[1] == collapse_costs(8192, 600)[1] == collapse_costs(600, 600)[1]
    assert collapse_bytes(600, 8192) == collapse_bytes(8192, 600) == 16 * 600**2


@pytest.mark.parametrize("shape", [(700, 4), (700, 900)])
def test_progress_rises_to_where_eigenvalues_begin(shape):
    shares = []
    collapse(torch.randn(shape, generator=torch.Generator().manual_seed(0)), progress=shares.append)
    matrix, eigenvalues = collapse_costs(*shape)
    assert shares == sorted(shares)
    assert len(shares) == 3
    assert shares[-1] == pytest.approx(matrix / (matrix + eigenvalues))


def test_rounding_adds_no_directions_to_rows_that_span_few():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(500, 3, generator=generator, dtype=torch.float64)
    turned = rows @ torch.linalg.qr(torch.randn(100, 3, generator=generator, dtype=torch.float64)).Q.T
    assert collapse(turned).effective_rank == pytest.approx(collapse(rows).effective_rank, rel=1e-12)


def test_nothing_depends_on_the_block_size():
    embeddings, _ = plain_batch(rows=5 * GROUP + 3, dim=33)
    whole = figures(collapse(embeddings, scratch_bytes=2**28))
    for scratch in (1, 2**20):
        assert figures(collapse(embeddings, scratch_bytes=scratch)) == whole


def test_rotations_and_lengths_change_nothing_but_the_axes():
    embeddings, _ = plain_batch(rows=200, dim=12)
    rotation = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64)).Q
    found, turned = collapse(embeddings), collapse(embeddings @ rotation * torch.arange(1, 201)[:, None])
    for name in ("mean_variance", "effective_rank", "mean_cosine"):
        assert getattr(turned, name) == pytest.approx(getattr(found, name), abs=1e-12)
    assert not torch.allclose(turned.variance, found.variance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_types_are_summed_in_float64(dtype):
    embeddings, _ = plain_batch(rows=300, dim=10, dtype=dtype)
    assert figures(collapse(embeddings)) == figures(collapse(embeddings.double()))


def test_the_rows_given_are_left_as_they_are():
    embeddings, _ = plain_batch()
    before = embeddings.clone()
    collapse(embeddings.requires_grad_())
    assert torch.equal(embeddings, before)


def test_zero_rows_stay_zero():
    found = collapse(torch.tensor([[0.0, 0.0], [5.0, 0.0]]))
    assert found.variance.tolist() == [0.25, 0.0]
    assert (found.effective_rank, found.dead_share, found.mean_cosine) == (pytest.approx(1.0), 0.5, 0.0)


def test_a_file_on_disk_is_never_copied_whole(tmp_path):
    embeddings, _ = plain_batch(rows=20_000, dim=16, dtype=torch.float32)
    stored = numpy.memmap(tmp_path / "rows", dtype="float32", mode="w+", shape=embeddings.shape)
    stored[:] = embeddings.numpy()
    on_disk = torch.from_numpy(stored)
    with LargestAllocation([on_disk]) as seen:
        found = collapse(on_disk, scratch_bytes=2**17)
    assert figures(found) == figures(collapse(embeddings))
    assert seen.largest <= 2**17, seen.where  # the rows are 1.3 MB


@pytest.mark.parametrize(
    ("rows", "scratch", "sentence"),
    [
        (torch.zeros(3), 1, "embeddings has shape"),
        (torch.zeros(0, 3), 1, "embeddings is empty"),
        (torch.full((2, 2), math.nan), 1, "NaN or infinity"),
        (torch.ones(2, 2), 0, "scratch_bytes is 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(rows, scratch, sentence):
    with pytest.raises(ValueError, match=sentence):
        collapse(rows, scratch_bytes=scratch)
