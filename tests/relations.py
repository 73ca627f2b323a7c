"""Relations that hypothesis makes, and the same ones as plain Python for reference.py.

Label sets with empty rows, trees with twins, listed pairs of items that come several times; with and without a gap
between what is positive and what is negative.
"""

import reference
import torch
from hypothesis import strategies as st

import shadowmetric as sm

KINDS = ("sets", "sets_gap", "tree", "tree_level", "pairs", "pairs_both", "relevance")


def both(kind: str, rows: int, seed: int) -> tuple[sm.Relation, reference.Known]:
    """Return a relation of so many rows, and its plain form."""
    random = torch.Generator().manual_seed(seed)
    if kind.startswith("sets"):
        bits = torch.rand(rows, 4, generator=random) < 0.4
        if kind == "sets":
            return sm.LabelSets(bits, graded=True), reference.Known(bits.tolist(), reference.shared_labels)
        relation = sm.LabelSets(bits.long(), positive_from=0.5, negative_below=0.3, graded=True)
        return relation, reference.Known(
            bits.tolist(), reference.shared_labels, lambda grade: grade >= 0.5, lambda grade: grade < 0.3
        )
    if kind.startswith("tree"):
        paths = torch.randint(-1, 2, (rows, 3), generator=random)
        least = 1 if kind == "tree" else 1 / 3
        relation = sm.LabelTree(paths, positive_level=None if kind == "tree" else 1)
        return relation, reference.Known(
            paths.tolist(), reference.shared_levels, lambda grade: grade >= least, lambda grade: grade < least
        )
    items = torch.randint(0, max(2, 2 * rows // 3), (rows,), generator=random) * 7 - 3
    pairs = torch.randint(0, max(3, rows), (2 * rows, 2), generator=random) * 7 - 3
    pairs = torch.tensor(sorted({(min(pair), max(pair)) for pair in pairs.tolist()}))
    listed = [tuple(pair) for pair in pairs.tolist()]
    if kind == "relevance":
        grades = torch.randint(0, 4, (len(pairs),), generator=random)
        highest = float(grades.max()) or 1.0
        known = reference.listed_grade(dict(zip(listed, grades.tolist(), strict=True)), highest)
        return sm.Relevance(items, pairs, grades), reference.Known(items.tolist(), known)
    half = len(pairs) // 2 if kind == "pairs_both" else len(pairs)
    signs = dict.fromkeys(listed[:half], 1.0) | dict.fromkeys(listed[half:], -1.0)
    plain = reference.Known(items.tolist(), reference.listed_grade(signs, 1.0))
    if kind == "pairs":
        return sm.Pairs(items, pairs), plain
    plain.negative = lambda grade: grade < 0
    return sm.Pairs(items, pairs[:half], pairs[half:]), plain


@st.composite
def relations(draw: st.DrawFn, rows: int) -> tuple[sm.Relation, reference.Known]:
    """Any kind."""
    return both(draw(st.sampled_from(KINDS)), rows, draw(st.integers(0, 2**16)))


def parts(relation: sm.Relation, plain: reference.Known, first: int):
    """Return both forms of the first rows, and both of the rest."""
    plains = [
        reference.Known(rows, plain.grade, plain.positive, plain.negative)
        for rows in (plain.rows[:first], plain.rows[first:])
    ]
    return (relation[:first], plains[0]), (relation[first:], plains[1])
