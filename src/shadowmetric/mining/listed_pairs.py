"""Pairs that somebody lists, by the numbers of items: positive ones, negative ones, or with a grade each.

    sm.Pairs(items, positive)                  what is listed is positive, all else negative
    sm.Pairs(items, positive, negative)        what is listed counts; nothing is known of the rest
    sm.Relevance(items, pairs, grades)         what is listed has its grade, all else 0

items names the item that each row shows: a query, a product, a photo; pairs are of items, in either order. Two rows of
one item are positive, with the highest grade. Where numbers of queries and of documents overlap, shift one of them.

Memory: two numbers for each pair and direction, once for all batches that are taken from one relation; grades of a
block are a block of float32 twice.
"""

import torch
from torch import Tensor

from shadowmetric.checks import INTEGERS
from shadowmetric.mining.label_sets import check_grades
from shadowmetric.types import Relation


class ListedPairs(Relation):
    """Pairs with a grade each, in a table that is sorted by both items."""

    temporaries = 3.0

    def __init__(self, items: Tensor, pairs: Tensor, grades: Tensor):
        if not isinstance(items, Tensor) or items.ndim != 1 or items.dtype not in INTEGERS:
            what = f"{items.dtype} of shape {tuple(items.shape)}" if isinstance(items, Tensor) else type(items).__name__
            raise ValueError(f"items is {what}; give the number of an item for each row.")
        self.rows = items.long()
        self.known = torch.unique(pairs)  # (items,) ascending
        place = torch.searchsorted(self.known, pairs)
        other = place.flip(1)
        code = torch.cat([place, other[place[:, 0] != place[:, 1]]])
        grade = torch.cat([grades, grades[place[:, 0] != place[:, 1]]])
        order = torch.argsort(code[:, 0] * len(self.known) + code[:, 1], stable=True)
        code, grade = code[order], grade[order]
        again = (code[1:] == code[:-1]).all(1)
        if bool((again & (grade[1:] != grade[:-1])).any()):
            first = int((again & (grade[1:] != grade[:-1])).nonzero()[0])
            one, two = self.known[code[first]].tolist()
            raise ValueError(f"the pair ({one}, {two}) is listed with two grades; give each pair one.")
        single = torch.cat([torch.ones_like(again[:1]) if len(code) else again[:0], ~again])
        self.code, self.grade = code[single], grade[single]  # (entries, 2), (entries,)
        self.begin = torch.searchsorted(
            self.code[:, 0].contiguous(), torch.arange(len(self.known) + 1).to(items.device)
        )

    def tables(self) -> tuple[Tensor, ...]:
        """Return the list."""
        return self.known, self.code, self.grade

    def measure(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the grade of each row with each other."""
        there, column = torch.unique(others, return_inverse=True)
        place, listed = self._places(rows)
        begin = self.begin[place]
        count = torch.where(listed, self.begin[place + 1] - begin, 0) if len(self.known) else torch.zeros_like(place)
        row = torch.arange(len(rows), device=rows.device).repeat_interleave(count)
        before = count.cumsum(0) - count
        entry = torch.arange(len(row), device=rows.device) + (begin - before)[row]
        item = self.known[self.code[entry, 1]]
        where = torch.searchsorted(there, item).clamp_max(len(there) - 1)
        here = there[where] == item
        table = torch.zeros(len(rows), len(there), device=rows.device)
        table[row[here], where[here]] = self.grade[entry[here]]
        return torch.where(rows[:, None] == others, self.largest, table[:, column])

    def measure_pairs(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the grade of each pair."""
        if not len(self.known):
            return (rows == others).float() * self.largest
        (row, listed), (other, other_listed) = self._places(rows), self._places(others)
        codes = self.code[:, 0] * len(self.known) + self.code[:, 1]
        wanted = row * len(self.known) + other
        entry = torch.searchsorted(codes, wanted).clamp_max(len(codes) - 1)
        there = listed & other_listed & (codes[entry] == wanted)
        return torch.where(rows == others, self.largest, torch.where(there, self.grade[entry], 0.0))

    def _places(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Return the places of items among those that are listed, and which of them are."""
        if not len(self.known):
            return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
        place = torch.searchsorted(self.known, items).clamp_max(len(self.known) - 1)
        return place, self.known[place] == items


class Pairs(ListedPairs):
    """Positive and negative pairs of items: (pairs, 2) of item numbers each.

    negative: None if all that is not listed is negative.
    """

    def __init__(self, items: Tensor, positive: Tensor, negative: Tensor | None = None):
        listed = [check_pairs(positive, "positive")]
        if negative is not None:
            listed.append(check_pairs(negative, "negative"))
            self.positive_from, self.negative_below = 1.0, 0.0
        signs = [
            torch.full((len(pairs),), sign, device=pairs.device)
            for pairs, sign in zip(listed, (1.0, -1.0), strict=False)
        ]
        super().__init__(items, torch.cat(listed), torch.cat(signs))


class Relevance(ListedPairs):
    """Graded pairs of items: pairs (pairs, 2) of item numbers, and the grade of each, 0 or above.

    graded: a triplet's margin is multiplied by grade(a, p) - grade(a, n), as shares of the highest grade.
    positive_from: the least grade of a positive pair; None: any above 0. negative_below: a grade; None: all that is
    not positive is negative.
    """

    def __init__(
        self,
        items: Tensor,
        pairs: Tensor,
        grades: Tensor,
        *,
        graded: bool = True,
        positive_from: float | None = None,
        negative_below: float | None = None,
    ):
        pairs = check_pairs(pairs, "pairs")
        if not isinstance(grades, Tensor) or grades.shape != pairs.shape[:1] or grades.is_complex():
            what = f"of shape {tuple(grades.shape)}" if isinstance(grades, Tensor) else f"a {type(grades).__name__}"
            raise ValueError(f"grades is {what} for {len(pairs)} pairs; give one number for each.")
        grades = grades.float()
        if len(grades) and not (float(grades.min()) >= 0 and float(grades.max()) < float("inf")):
            raise ValueError(f"grades go from {float(grades.min())} to {float(grades.max())}; they must be 0 or above.")
        self.graded = graded
        self.largest = max(float(grades.max()), 0.0) or 1.0 if len(grades) else 1.0
        self.positive_from, self.negative_below = check_grades(positive_from, negative_below, largest=self.largest)
        super().__init__(items, pairs, grades)


def check_pairs(pairs: Tensor, name: str) -> Tensor:
    """Return pairs as int64, or refuse what is none."""
    if not isinstance(pairs, Tensor) or pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype not in INTEGERS:
        what = f"{pairs.dtype} of shape {tuple(pairs.shape)}" if isinstance(pairs, Tensor) else type(pairs).__name__
        raise ValueError(f"{name} is {what}; give (pairs, 2) of item numbers.")
    return pairs.long()
