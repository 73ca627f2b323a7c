"""Retrieval measures where a relation says what is relevant, and how much: label sets, trees, listed pairs.

A gallery item is relevant to a query if the relation makes them a positive pair; so Recall@1 asks whether the nearest
item shares a label. R, of R-precision and MAP@R, is how many relevant items a query has. NDCG@K is of grades.

The tie rule is that of `hits.py`, and so are the measures. Relevant items do not stand together in any order of the
gallery, so blocks are whole rows.

Memory: the scratch, or some whole rows of the gallery if that is more: 60 bytes for each of its items and eight rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.evaluation.comparison import HALF_A_STEP, STEPS, Sets
from shadowmetric.evaluation.hits import NOWHERE, Hits
from shadowmetric.evaluation.ndcg import ndcg_at_k
from shadowmetric.ops.exact_rows import ExactUnitRows
from shadowmetric.ops.largest import largest_values
from shadowmetric.ops.similarity_blocks import Progress, whole_row_blocks
from shadowmetric.ops.top_k import write_at
from shadowmetric.types import Relation

TEMPORARIES = 5.0

Measures = Callable[[Hits], dict[str, Tensor]]


class Relevant(NamedTuple):
    """Some queries against the whole gallery."""

    here: slice
    similarity: Tensor  # (rows, gallery), NOWHERE for the query itself
    positive: Tensor  # (rows, gallery) bool
    grades: Tensor  # (rows, gallery) float32, 0 for the query itself and below no grade


def relation_retrieval(
    sets: Sets,
    of_hits: Measures | None,
    *,
    limit: int,
    ndcg_at: Sequence[int],
    reciprocal_rank: bool,
    scratch_bytes: int,
    progress: Progress,
) -> dict[str, Tensor]:
    """Return the values of each query by name: of its hits up to max(R, limit), and of grades; NaN for lone ones."""
    parts: dict[str, list[Tensor]] = {}
    for relevant in iterate_relevant(sets, scratch_bytes=scratch_bytes, progress=progress):
        columns = relevant.similarity.shape[1]
        values = {f"ndcg_at_{k}": ndcg_at_k(relevant.similarity, relevant.grades, min(k, columns)) for k in ndcg_at}
        if reciprocal_rank:
            values["reciprocal_rank"] = _reciprocal_rank(relevant)
        if of_hits is not None:
            values |= of_hits(_hits(relevant, limit))
        for name, value in values.items():
            parts.setdefault(name, []).append(value)
    return {name: torch.cat(values) for name, values in parts.items()}


def iterate_relevant(sets: Sets, *, scratch_bytes: int, progress: Progress | None = None) -> Iterator[Relevant]:
    """Yield consecutive queries against the whole gallery."""
    known, others = sets.labels, sets.gallery_labels
    assert isinstance(known, Relation)
    assert isinstance(others, Relation)
    query = ExactUnitRows(sets.query)
    gallery = ExactUnitRows(sets.gallery).make_whole(scratch_bytes)
    for block in whole_row_blocks(
        query, gallery, scratch_bytes=scratch_bytes, temporaries=TEMPORARIES + known.temporaries, progress=progress
    ):
        here = slice(block.top, block.bottom)
        positive, grades = known.masks(here, others)[0], known.grades(here, others).clamp_min(0.0)
        if sets.own is not None:
            own = sets.own[here]
            write_at(block.values, own, NOWHERE)
            positive[torch.arange(len(own), device=own.device), own] = False
            write_at(grades, own, 0.0)
        yield Relevant(here, block.values, positive, grades)


def relation_counts(sets: Sets) -> Tensor:
    """Return for each query how many relevant items it has; no similarity is asked for."""
    known, others = sets.labels, sets.gallery_labels
    assert isinstance(known, Relation)
    assert isinstance(others, Relation)
    counts, some = [], max(1, 2**22 // max(len(others), 1))
    for top in range(0, len(known), some):
        here = slice(top, min(top + some, len(known)))
        positive = known.masks(here, others)[0]
        if sets.own is not None:
            own = sets.own[here]
            positive[torch.arange(len(own), device=own.device), own] = False
        counts.append(positive.sum(1))
    return torch.cat(counts)


def _hits(relevant: Relevant, limit: int) -> Hits:
    """Return which places hold relevant items: the others have half a step more, which is the class in the number."""
    count = relevant.positive.sum(1)
    limit = min(max(limit, int(count.max())), relevant.similarity.shape[1])
    values = relevant.similarity.add(HALF_A_STEP)
    values[relevant.positive] -= HALF_A_STEP
    values[relevant.similarity == NOWHERE] = NOWHERE
    steps = largest_values(values, limit).flip(1).mul(2 * STEPS).long()  # odd where an item is not relevant
    return Hits(steps.bitwise_and_(1) == 0, count, values.new_empty(0))


def _reciprocal_rank(relevant: Relevant) -> Tensor:
    """Return one over the place of the best relevant item of each row."""
    positive, similarity = relevant.positive, relevant.similarity
    closest = torch.where(positive, similarity, NOWHERE).amax(1, keepdim=True)
    before = (~positive & (similarity >= closest) & (similarity > NOWHERE)).sum(1)
    return torch.where(positive.any(1), 1 / (1 + before).double(), torch.nan)


def class_numbers(sets: Sets) -> tuple[Tensor, Tensor]:
    """Return a label for each row of both sides: its own, or of a relation the number of what is known of it."""
    if not isinstance(sets.labels, Relation) or not isinstance(sets.gallery_labels, Relation):
        return sets.classes()
    both = torch.cat([sets.labels.rows, sets.gallery_labels.rows])
    number = torch.unique(both, dim=0, return_inverse=True)[1]
    return number[: len(sets.labels)], number[len(sets.labels) :]
