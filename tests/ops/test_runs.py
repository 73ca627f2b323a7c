"""Rectangles of equal class in a block: taken out whole, by slices or by entries."""

import pytest
import torch

from shadowmetric.mining.classes import group_by_class
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.runs import RECTANGLES_ONE_BY_ONE, exclude, take
from shadowmetric.ops.similarity_blocks import similarity_blocks


@pytest.mark.parametrize("classes", [1, 3, 150])  # 150: more rectangles in a block than are handled one by one
@pytest.mark.parametrize("width", [16, 70, 400])
def test_take_moves_every_entry_of_equal_class_and_no_other(classes, width):
    generator = torch.Generator().manual_seed(classes)
    labels, others = (torch.randint(classes + 1, (n,), generator=generator) for n in (200, 400))
    labels[0] = 10**12  # a class that the other side does not have
    grouped = group_by_class(labels, others)
    left, right = torch.randn(200, 2, generator=generator), torch.randn(400, 2, generator=generator)
    most = int(grouped.size.max())
    same = torch.full((200, most), torch.nan)
    rest = torch.empty(200, 400)
    met = 0
    for block in similarity_blocks(Rows(left), Rows(right), width=width):
        met = max(met, len(grouped.runs.between(block)))
        take(block, grouped.runs, same[block.top : block.bottom], -9.0)
        rest[block.top : block.bottom, block.first : block.last] = block.values
    assert (met > RECTANGLES_ONE_BY_ONE) == (classes == 150 and width == 400)
    equal = labels[grouped.order][:, None] == others[grouped.reference_order]
    whole = left @ right.T
    torch.testing.assert_close(rest, whole.masked_fill(equal, -9.0))
    for row in range(200):
        torch.testing.assert_close(same[row, : int(equal[row].sum())], whole[row][equal[row]])
        assert same[row, int(equal[row].sum()) :].isnan().all()
    for block in similarity_blocks(Rows(left), Rows(right), width=width):
        exclude(block, grouped.runs, -9.0)
        torch.testing.assert_close(block.values, rest[block.top : block.bottom, block.first : block.last])
