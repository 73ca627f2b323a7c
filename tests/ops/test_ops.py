"""The arithmetic under miners and losses equals the naive program, whatever the block."""

import pytest
import torch
from batches import batches
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from shadowmetric.losses.distances import distance, similarity, squared_distance
from shadowmetric.losses.shadow import gap
from shadowmetric.ops.arg_min import GROUP, no_best, update_arg_min
from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.pair_measures import pair_measures, weighted_sums
from shadowmetric.ops.row_lengths import squared_lengths
from shadowmetric.ops.row_stream import Stream, row_stream
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import even, similarity_blocks, square_side, whole_row_blocks
from shadowmetric.ops.top_k import top_k


def test_blocks_cover_the_product_once_and_stay_within_the_scratch():
    left, right = torch.randn(37, 5).double(), torch.randn(50, 5).double()
    for scratch in (1, 4000, 2**20):
        covered = torch.full((37, 50), float("nan"), dtype=torch.float64)
        for top, bottom, first, last, values in similarity_blocks(Rows(left), Rows(right), scratch_bytes=scratch):
            assert covered[top:bottom, first:last].isnan().all()
            covered[top:bottom, first:last] = values
        torch.testing.assert_close(covered, left @ right.T)


@pytest.mark.parametrize("scratch", [1, 2**14, 2**20, 2**25])
@pytest.mark.parametrize("width", [1, 100, 5000])
def test_blocks_of_a_given_width_cover_the_product_and_stay_within_the_scratch(scratch, width):
    left, right = Rows(torch.randn(300, 7).half()), Rows(torch.randn(1000, 7).half())  # columns are loaded
    told, entries = [], 0
    for top, bottom, first, last, values in similarity_blocks(
        left, right, scratch_bytes=scratch, width=width, temporaries=1.0, progress=told.append
    ):
        assert 4 * (2 * values.numel() + 2 * 7 * (last - first)) <= max(scratch, 4 * 8 * 2 * 2 * (8 + 7))
        assert values.shape == (bottom - top, last - first)
        entries += values.numel()
    assert entries == 300_000
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_the_share_done_counts_what_a_triangle_needs():
    rows, told = Rows(torch.randn(64, 5)), []
    list(similarity_blocks(rows, rows, scratch_bytes=1, reach=lambda top, _: (top, 64), progress=told.append))
    assert told[-1] == 1.0
    assert len(told) == 36
    assert told[7] == 8 / 36  # the first of eight rows of blocks


def test_blocks_reach_only_as_far_as_told():
    rows = Rows(torch.randn(40, 5))
    blocks = list(similarity_blocks(rows, rows, scratch_bytes=1, reach=lambda top, bottom: (top, 40)))
    assert all(block.first >= block.top for block in blocks)
    assert sum(len(b.values) * b.values.shape[1] for b in blocks) == sum(8 * (40 - top) for top in range(0, 40, 8))


def test_whole_row_blocks_hold_whole_rows_of_any_kind():
    source = torch.randn(31, 4).half()
    order = torch.randperm(31)
    for rows in (Rows(source), Rows(source, order=order), Rows(source, order=order, divisor=torch.rand(31) + 1)):
        expected = torch.cat([rows.load(i, i + 1).clone() for i in range(31)])
        expected = expected @ expected.T
        got = torch.cat([b.values.clone() for b in whole_row_blocks(rows, rows_again(rows), scratch_bytes=9000)])
        torch.testing.assert_close(got, expected)


def rows_again(rows):
    return Rows(rows.source, order=rows.order, divisor=rows.divisor)


@pytest.mark.parametrize("dim", [8, 512, 4096])
@pytest.mark.parametrize("scratch", [2**20, 2**25])
def test_the_side_of_a_block_fits_its_budget(dim, scratch):
    rows = Rows(torch.empty(1, dim))
    side = square_side(rows, scratch, temporaries=1.0)
    assert side == 8 or 4 * (2 * side**2 + 3 * side * dim) <= scratch


def grids_of(embeddings, references, normalize):
    left = GridRows(embeddings, normalize=normalize, finer=True)
    return left, left if references is None else GridRows(references, normalize=normalize, finer=True)


def measured(embeddings, references, anchor, other, measure, normalize):
    grids = grids_of(embeddings, references, normalize)
    return pair_measures(embeddings, references, anchor, other, measure, grids)


@given(batches(16), st.integers(0, 99), st.sampled_from([similarity, squared_distance, distance, gap]), st.booleans())
def test_pair_measures_equal_those_of_the_gathered_rows(batch, seed, measure, normalize):
    embeddings, _ = batch
    embeddings = embeddings + torch.rand(embeddings.shape, generator=torch.Generator().manual_seed(seed)).double()
    generator = torch.Generator().manual_seed(seed)
    anchor = torch.randint(0, len(embeddings), (23,), generator=generator)
    other = (anchor + torch.randint(1, max(len(embeddings), 2), (23,), generator=generator)) % len(embeddings)
    rows = torch.nn.functional.normalize(embeddings) if normalize else embeddings
    a, x = rows[anchor], rows[other]
    expected = measure((a * x).sum(1), a.square().sum(1), x.square().sum(1))
    found = measured(embeddings, None, anchor, other, measure, normalize)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-7)  # a root of a difference of 1e-14
    if len(embeddings) > 1:
        leaf, references = embeddings.clone().requires_grad_(), (embeddings.flip(0) + 0.1).requires_grad_()
        assert gradcheck(lambda e: measured(e, None, anchor, other, measure, normalize), (leaf,))
        assert gradcheck(lambda e, r: measured(e, r, anchor, anchor, measure, normalize), (leaf, references))


def test_pair_measures_of_many_pairs_in_several_gathers():
    embeddings = torch.randn(50, 300, dtype=torch.float64)
    anchor, other = torch.randint(0, 50, (2, 5000))
    found = measured(embeddings, None, anchor, other, similarity, False)
    torch.testing.assert_close(found, (embeddings @ embeddings.T)[anchor, other])


def test_weighted_sums_equal_index_add():
    rows, weight = torch.randn(20, 6).double(), torch.randn(70).double()
    into, chosen = torch.randint(0, 9, (70,)), torch.randint(0, 20, (70,))
    expected = torch.zeros(11, 6).double().index_add(0, into, weight[:, None] * rows[chosen])
    torch.testing.assert_close(weighted_sums(rows, into, chosen, weight, 11), expected)


def test_squared_lengths_have_a_gradient_and_keep_the_rows_alone():
    embeddings = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    squares = squared_lengths(embeddings)
    squares.sum().backward()
    torch.testing.assert_close(squares.detach(), embeddings.detach().square().sum(1))
    torch.testing.assert_close(embeddings.grad, 2 * embeddings.detach())


@pytest.mark.parametrize("scratch", [1, 2**25])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_a_row_stream_equals_the_naive_program(scratch, normalize, squared, own):
    embeddings, references = torch.randn(19, 4).double().requires_grad_(), torch.randn(13, 4).double().requires_grad_()

    def terms(start, stop):
        return [
            lambda d, r, c: torch.stack([(d * r + c).sin().sum(1), d.exp().sum(1)], 1),
            lambda d, r, c: (d * c).square().sum(1, keepdim=True).expand(-1, 2),
        ]

    def streamed(e, f):
        stream = Stream(normalize, squared=squared, outputs=2, scratch_bytes=scratch)
        return row_stream(e, None if own else f, terms, stream)

    def naive(e, f):
        f = e if own else f
        e, f = (torch.nn.functional.normalize(rows) if normalize else rows for rows in (e, f))
        r, c = e.square().sum(1)[:, None], f.square().sum(1)
        block = r + c - 2 * e @ f.T if squared else e @ f.T
        if normalize:
            r, c = torch.ones_like(r), torch.ones_like(c)
        return sum(term(block, r, c) for term in terms(0, 19))

    inputs = (embeddings,) if own else (embeddings, references)
    weight = torch.randn(19, 2).double()
    torch.testing.assert_close(streamed(embeddings, references), naive(embeddings, references))
    torch.testing.assert_close(
        torch.autograd.grad((streamed(embeddings, references) * weight).sum(), inputs),
        torch.autograd.grad((naive(embeddings, references) * weight).sum(), inputs),
    )


def test_a_row_stream_may_take_rows_in_any_order_and_several_times():
    embeddings = torch.randn(7, 4).double().requires_grad_()
    order = torch.tensor([3, 0, 3, 6, 1, 1])

    def terms(start, stop):
        return [lambda d, r, c: (d[0::2] * d[1::2]).sum(1)[:, None]]

    stream = Stream(normalize=False, order=order, multiple=2, scratch_bytes=1)
    streamed = row_stream(embeddings, None, terms, stream)
    dots = (embeddings @ embeddings.T)[order]
    naive = (dots[0::2] * dots[1::2]).sum(1)[:, None]
    torch.testing.assert_close(streamed, naive)
    torch.testing.assert_close(*(torch.autograd.grad(out.sum(), embeddings)[0] for out in (streamed, naive)))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [1, GROUP - 1, GROUP, 3 * GROUP, 3 * GROUP + 5])
@pytest.mark.parametrize("values", ["distinct", "ties", "all equal"])
def test_arg_min_equals_torch_and_gives_ties_to_the_smallest_rank(axis, size, values):
    generator = torch.Generator().manual_seed(size)
    shape = (size, 17) if axis == 0 else (17, size)
    block = torch.randint(
        0, {"distinct": 10**6, "ties": 4, "all equal": 1}[values], shape, generator=generator, dtype=torch.int32
    )
    rank = torch.randperm(size, generator=generator)
    best = no_best(17, torch.int32, block.device)
    half = size // 2  # in two parts, as blocks come
    for part in (slice(0, half), slice(half, size)):
        piece = block[part] if axis == 0 else block[:, part]
        if piece.numel():
            update_arg_min(best, piece.contiguous(), axis, rank[part], torch.arange(17))
    lines = block.T if axis == 0 else block
    least = lines.amin(1)
    expected = torch.where(lines == least[:, None], rank, size).amin(1)
    assert best.value.tolist() == least.tolist()
    assert best.rank.tolist() == expected.tolist()


@pytest.mark.parametrize("k", [1, 3, 40, 99])
@pytest.mark.parametrize("scratch", [1, 2**25])
def test_top_k_is_a_stable_sort_of_the_whole_row(k, scratch):
    generator = torch.Generator().manual_seed(k)
    left = torch.randint(-2, 3, (21, 3), generator=generator).float()  # small integers: exact, and full of ties
    right = torch.randint(-2, 3, (40, 3), generator=generator).float()
    found = top_k(Rows(left), Rows(right), k, scratch_bytes=scratch)
    similarity, row = (left @ right.T).sort(dim=1, descending=True, stable=True)
    assert found.row.tolist() == row[:, :k].tolist()
    assert found.similarity.tolist() == similarity[:, :k].tolist()


@given(st.integers(1, 5000), st.integers(8, 2048))
def test_parts_of_a_size_are_even(size, side):
    part = even(size, side)
    sizes = [min(part, size - start) for start in range(0, size, part)]
    assert sum(sizes) == size
    assert max(sizes) <= side + 63
    assert len(sizes) <= -(-size // side)
