"""Label trees: a path from the root to a leaf for each row; rows of one leaf are positive.

    grade(a, b) = levels that the paths have in common, from the root on / levels

So a sibling's grade is near 1 and a stranger's is 0, and a triplet's margin, multiplied by grade(a, p) - grade(a, n),
is the smaller the nearer the negative is in the tree: a hierarchical margin. positive_level moves the line: with 1
rows of one branch of the root are positive.

A number names a node among its siblings only. A path that ends early is filled up with one number of your choice.

Memory: an int64 for each row and level; grades of a block are a block of float32, and two masks.
"""

import torch
from torch import Tensor

from shadowmetric.checks import INTEGERS
from shadowmetric.types import Relation


class LabelTree(Relation):
    """The places of a batch in a tree: paths (batch, levels) of integers, the level below the root first.

    graded: a triplet's margin is multiplied by grade(a, p) - grade(a, n).
    positive_level: from so many levels in common on a pair is positive; None: all of them.
    """

    def __init__(self, paths: Tensor, *, graded: bool = True, positive_level: int | None = None):
        if not isinstance(paths, Tensor) or paths.ndim != 2 or paths.dtype not in INTEGERS or paths.shape[1] == 0:
            what = f"{paths.dtype} of shape {tuple(paths.shape)}" if isinstance(paths, Tensor) else type(paths).__name__
            raise ValueError(f"paths is {what}; give (rows, levels) of integers.")
        self.rows, self.graded = paths.long(), graded
        self.positive_from = self._grade_of(positive_level)

    def at_level(self, positive_level: int | None) -> "LabelTree":
        """Return the same tree with rows positive from another level on."""
        other = self.with_rows(self.rows)
        other.positive_from = self._grade_of(positive_level)
        return other

    def _grade_of(self, level: int | None) -> float:
        levels = self.rows.shape[1]
        if level is not None and (isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= levels):
            raise ValueError(f"positive_level is {level!r}; the paths have levels 1 to {levels}.")
        return (levels if level is None else level) / levels

    def measure(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the share of levels in common, of each row with each other."""
        return _levels_in_common(rows[:, None], others[None])

    def measure_pairs(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the share of levels in common of each pair."""
        return _levels_in_common(rows, others)


def _levels_in_common(rows: Tensor, others: Tensor) -> Tensor:
    """Return the share of the levels before the first that differs; one level after the other, so no larger tensor."""
    levels = rows.shape[-1]
    same = rows[..., 0] == others[..., 0]
    common = same.to(torch.float32)
    for level in range(1, levels):
        same = same & (rows[..., level] == others[..., level])
        common += same
    return common / levels
