"""Rectangles of equal class in a block: written and read whole, by slices or by entries."""

import pytest
import torch

from shadowmetric.mining.classes import group_by_class
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.runs import RECTANGLES_ONE_BY_ONE, add, exclude, raise_to_maxima
from shadowmetric.ops.similarity_blocks import similarity_blocks


@pytest.mark.parametrize("classes", [1, 3, 150])  # 150: more rectangles in a block than are handled one by one
@pytest.mark.parametrize("width", [16, 70, 400])
def test_every_entry_of_equal_class_and_no_other(classes, width):
    generator = torch.Generator().manual_seed(classes)
    labels, others = (torch.randint(classes + 1, (n,), generator=generator) for n in (200, 400))
    labels[0] = 10**12  # a class that the other side does not have
    grouped = group_by_class(labels, others)
    left, right = torch.randn(200, 2, generator=generator), torch.randn(400, 2, generator=generator)
    equal = labels[grouped.order][:, None] == others[grouped.reference_order]
    whole = left @ right.T
    best = torch.full((200,), -9.0)
    met = 0
    for block in similarity_blocks(Rows(left), Rows(right), width=width):
        here = (slice(block.top, block.bottom), slice(block.first, block.last))
        met = max(met, len(grouped.runs.between(block)))
        raise_to_maxima(best[here[0]], block, grouped.runs)
        add(block, grouped.runs, 3.0)
        torch.testing.assert_close(block.values, whole[here] + 3.0 * equal[here])
        exclude(block, grouped.runs, -9.0)
        torch.testing.assert_close(block.values, whole[here].masked_fill(equal[here], -9.0))
    assert (met > RECTANGLES_ONE_BY_ONE) == (classes == 150 and width == 400)
    torch.testing.assert_close(best, whole.masked_fill(~equal, -9.0).amax(1))
