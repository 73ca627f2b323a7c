"""Queries with their nearest neighbours: some drawn at random, the worst, and the best.

Queries are sorted by MAP@R, among equals by the place of the first right neighbour, and then by a draw that the seed
decides. The random ones are the first of that draw, so that every run of a dataset shows the same. Lone queries, of
whose class there is nothing else to find, are left out.

Memory: the scratch of the evaluation, and k neighbours for each query.
"""

from dataclasses import dataclass

import numpy as np
import torch

from shadowmetric.app.data.dataset import Dataset
from shadowmetric.app.data.thumbnails import thumbnail
from shadowmetric.evaluation import Scores

KINDS = ("random", "worst", "best")


@dataclass(frozen=True)
class Neighbour:
    """One answer to a query."""

    picture: str  # a data: address
    label: str
    similarity: float
    right: bool


@dataclass(frozen=True)
class Query:
    """A test picture and what was found for it."""

    kind: str  # one of KINDS
    number: int  # in the test split
    name: str
    picture: str
    label: str
    map_at_r: float
    first_right: int  # place of the nearest picture of its class, from 1
    neighbours: tuple[Neighbour, ...]


def gallery_of(found: Scores, dataset: Dataset, count: int, side: int, seed: int) -> list[Query]:
    """Return so many queries of each kind, from an evaluation whose votes hold the neighbours."""
    values, places = (found.per_query[name].numpy() for name in ("map_at_r", "reciprocal_rank"))
    return [
        query_of(found, dataset, kind, number, side)
        for kind, numbers in chosen(values, places, count, seed).items()
        for number in numbers
    ]


def chosen(values: np.ndarray, places: np.ndarray, count: int, seed: int) -> dict[str, list[int]]:
    """Return the numbers of the queries of each kind; `values` are NaN for lone queries, `places` break ties."""
    drawn = np.random.default_rng(seed).permutation(np.flatnonzero(~np.isnan(values)))
    rising = drawn[np.lexsort((places[drawn], values[drawn]))]
    orders = {"best": rising[::-1], "worst": rising, "random": drawn}
    return {kind: orders[kind][:count].tolist() for kind in KINDS}


def query_of(found: Scores, dataset: Dataset, kind: str, number: int, side: int) -> Query:
    """Return one query with its neighbours and their pictures."""
    assert found.vote is not None
    searched = dataset.gallery or dataset.test
    there = torch.isfinite(found.vote.similarity[number])
    rows = found.vote.row[number][there].tolist()
    similarities = found.vote.similarity[number][there].tolist()
    label = int(dataset.test.labels[number])
    neighbours = tuple(
        Neighbour(
            thumbnail(searched.images, row, side),
            dataset.classes[int(searched.labels[row])],
            round(similarity, 4),
            int(searched.labels[row]) == label,
        )
        for row, similarity in zip(rows, similarities, strict=True)
    )
    return Query(
        kind,
        number,
        dataset.test.images.name(number),
        thumbnail(dataset.test.images, number, side),
        dataset.classes[label],
        round(float(found.per_query["map_at_r"][number]), 4),
        round(1 / float(found.per_query["reciprocal_rank"][number])),
        neighbours,
    )
