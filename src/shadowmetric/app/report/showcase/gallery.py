"""Queries with their nearest neighbors: some drawn at random, the worst, and the best.

Queries are sorted by MAP@R, among equals by the place of the first right neighbor, and then by a draw that the seed
decides. The random ones are the first of that draw, so that every run of a dataset shows the same. Lone queries, of
whose class there is nothing else to find, are left out.

Memory: the scratch of the evaluation, and k neighbors for each query.
"""

from dataclasses import dataclass

import numpy as np
import torch

from shadowmetric.app.data.dataset import Dataset
from shadowmetric.app.data.thumbnails import thumbnail
from shadowmetric.evaluation import Scores

KINDS = ("random", "worst", "best")


@dataclass(frozen=True)
class Neighbor:
    """One answer to a query."""

    image: str  # a data: address
    label: str
    similarity: float
    right: bool


@dataclass(frozen=True)
class Query:
    """A test image and what was found for it."""

    kind: str  # one of KINDS
    number: int  # in the test split
    name: str
    image: str
    label: str
    map_at_r: float
    first_right: int  # place of the nearest image of its class, from 1
    neighbors: tuple[Neighbor, ...]


def gallery_of(scores: Scores, dataset: Dataset, count: int, side: int, seed: int) -> list[Query]:
    """Return so many queries of each kind, from an evaluation whose votes hold the neighbors."""
    values, places = (scores.per_query[name].numpy() for name in ("map_at_r", "reciprocal_rank"))
    return [
        query_of(scores, dataset, kind, number, side)
        for kind, numbers in choose_queries(values, places, count, seed).items()
        for number in numbers
    ]


def choose_queries(values: np.ndarray, places: np.ndarray, count: int, seed: int) -> dict[str, list[int]]:
    """Return the numbers of the queries of each kind; `values` are NaN for lone queries, `places` break ties."""
    drawn = np.random.default_rng(seed).permutation(np.flatnonzero(~np.isnan(values)))
    rising = drawn[np.lexsort((places[drawn], values[drawn]))]
    orders = {"best": rising[::-1], "worst": rising, "random": drawn}
    return {kind: orders[kind][:count].tolist() for kind in KINDS}


def query_of(scores: Scores, dataset: Dataset, kind: str, number: int, side: int) -> Query:
    """Return one query with its neighbors and their images."""
    assert scores.vote is not None
    searched = dataset.gallery or dataset.test
    there = torch.isfinite(scores.vote.similarity[number])
    rows = scores.vote.row[number][there].tolist()
    similarities = scores.vote.similarity[number][there].tolist()
    label = int(dataset.test.labels[number])
    neighbors = tuple(
        Neighbor(
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
        round(float(scores.per_query["map_at_r"][number]), 4),
        round(1 / float(scores.per_query["reciprocal_rank"][number])),
        neighbors,
    )
