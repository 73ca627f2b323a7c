"""The arithmetic under miners and losses equals the naive program, whatever the block."""

import pytest
import torch
from batches import batches, plain_batch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from shadowmetric.ops.arg_min import GROUP, no_best, update_arg_min
from shadowmetric.ops.pair_dots import pair_dots, weighted_sums
from shadowmetric.ops.row_lengths import row_lengths
from shadowmetric.ops.row_stream import row_stream
from shadowmetric.ops.rows import Rows, squared_distance_rows, unit_rows
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
    for rows in (Rows(source), Rows(source, order=order), unit_rows(source, order)):
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


@pytest.mark.parametrize("normalize", [True, False])
def test_distance_rows_multiply_to_squared_distances(normalize):
    embeddings, _ = plain_batch()
    others = torch.cat([embeddings[:4], torch.randn(9, 8).double()])
    left, right, offset, least = squared_distance_rows(embeddings, others, normalize=normalize)
    a, b = (torch.nn.functional.normalize(e) if normalize else e for e in (embeddings, others))
    product = left.load(0, 30) @ right.load(0, 13).T
    torch.testing.assert_close(product - offset, torch.cdist(a, b).square(), atol=1e-12, rtol=1e-9)
    assert (product > 0).all() or least == 0


@given(batches(16), st.integers(0, 99))
def test_pair_dots_equal_the_gathered_rows(batch, seed):
    embeddings, _ = batch
    generator = torch.Generator().manual_seed(seed)
    anchor = torch.randint(0, len(embeddings), (23,), generator=generator)
    other = torch.randint(0, len(embeddings), (23,), generator=generator)
    expected = (embeddings[anchor] * embeddings[other]).sum(1)
    torch.testing.assert_close(pair_dots(embeddings, None, anchor, other), expected)
    leaf, references = embeddings.clone().requires_grad_(), embeddings.flip(0).clone().requires_grad_()
    assert gradcheck(lambda e: pair_dots(e, None, anchor, other), (leaf,))
    assert gradcheck(lambda e, r: pair_dots(e, r, anchor, other), (leaf, references))


def test_pair_dots_of_many_pairs_in_several_gathers():
    embeddings = torch.randn(50, 300, dtype=torch.float64)
    anchor, other = torch.randint(0, 50, (2, 5000))
    torch.testing.assert_close(pair_dots(embeddings, None, anchor, other), (embeddings @ embeddings.T)[anchor, other])


def test_weighted_sums_equal_index_add():
    rows, weight = torch.randn(20, 6).double(), torch.randn(70).double()
    into, chosen = torch.randint(0, 9, (70,)), torch.randint(0, 20, (70,))
    expected = torch.zeros(11, 6).double().index_add(0, into, weight[:, None] * rows[chosen])
    torch.testing.assert_close(weighted_sums(rows, into, chosen, weight, 11), expected)


def test_row_lengths_of_zero_rows_have_no_gradient():
    embeddings = torch.randn(5, 3, dtype=torch.float64)
    embeddings[2] = 0
    embeddings.requires_grad_()
    lengths = row_lengths(embeddings)
    lengths.sum().backward()
    torch.testing.assert_close(lengths.detach(), embeddings.detach().norm(dim=1).clamp_min(1e-12))
    assert (embeddings.grad[2] == 0).all()
    torch.testing.assert_close(embeddings.grad[0], (embeddings[0] / lengths[0]).detach())


@pytest.mark.parametrize("scratch", [1, 2**25])
def test_a_row_stream_equals_the_naive_program(scratch):
    embeddings, references = torch.randn(19, 4).double().requires_grad_(), torch.randn(13, 4).double().requires_grad_()
    rows, columns = torch.rand(19).double().requires_grad_(), torch.rand(13).double().requires_grad_()

    def terms(start, stop):
        return [
            lambda d, r, c: torch.stack([(d * r[:, None] + c).sin().sum(1), d.exp().sum(1)], 1),
            lambda d, r, c: (d * c).square().sum(1, keepdim=True).expand(-1, 2),
        ]

    def streamed(e, f, r, c):
        return row_stream(e, f, r, c, terms, outputs=2, scratch_bytes=scratch)

    def naive(e, f, r, c):
        return sum(term(e @ f.T, r, c) for term in terms(0, 19))

    inputs = (embeddings, references, rows, columns)
    weight = torch.randn(19, 2).double()
    torch.testing.assert_close(streamed(*inputs), naive(*inputs))
    torch.testing.assert_close(
        torch.autograd.grad((streamed(*inputs) * weight).sum(), inputs),
        torch.autograd.grad((naive(*inputs) * weight).sum(), inputs),
    )


def test_a_row_stream_may_take_rows_in_any_order_and_several_times():
    embeddings = torch.randn(7, 4).double().requires_grad_()
    order = torch.tensor([3, 0, 3, 6, 1, 1])
    ones = torch.ones(7).double()

    def terms(start, stop):
        return [lambda d, r, c: (d[0::2] * d[1::2]).sum(1).repeat_interleave(2)[:, None]]

    streamed = row_stream(embeddings, embeddings, ones[order], ones, terms, order=order, multiple=2, scratch_bytes=1)
    dots = (embeddings @ embeddings.T)[order]
    naive = (dots[0::2] * dots[1::2]).sum(1).repeat_interleave(2)[:, None]
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
def test_parts_of_a_size_are_even_and_none_is_thin(size, side):
    part = even(size, side)
    sizes = [min(part, size - start) for start in range(0, size, part)]
    assert sum(sizes) == size
    assert min(sizes) >= 8 or len(sizes) == 1
    assert part <= max(side + 63, 16)
