"""The fused search in Triton's interpreter: bit for bit the dense program, our own search, and our miners."""

from functools import cache

import pytest
import torch
from kernel_work import Asked, answer_losses, answer_nearest, run
from made_rows import made_rows
from torch import Tensor

from shadowmetric.checks import ELSEWHERE
from shadowmetric.mining import BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.mining.classes import group_by_class
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.ops.arg_min import LAST
from shadowmetric.ops.fused_nearest import fused_nearest
from shadowmetric.ops.grid_rows import GridRows, GridSide
from shadowmetric.ops.nearest_beyond import nearest_beyond
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.triton_ops import missing

interpreted = pytest.mark.skipif(bool(missing()), reason=f"kernels need {missing()}")

MANY, FEW = 256, 4  # programs: a tile for each, and several tiles
SHAPES = {  # kind of rows, rows, references, columns, slots, classes
    "duplicates": ("duplicates", 130, None, 33, 5, 9),
    "collapsed": ("collapsed", 40, None, 5, 2, 3),
    "one-hot": ("one-hot", 65, None, 5, 8, 4),
    "lattice": ("lattice", 70, 97, 5, 3, 5),
    "nearly equal": ("near", 66, 129, 33, 4, 6),
    "zero rows": ("zeros", 63, 33, 16, 3, 4),
    "one column": ("random", 64, 64, 1, 9, 3),
    "130 columns": ("random", 64, 32, 130, 1, 4),
    "20 slots": ("duplicates", 30, 300, 5, 20, 7),
    "one class": ("random", 20, 33, 5, 3, 1),
    "one row": ("random", 1, None, 5, 2, 1),
    "one reference": ("random", 7, 1, 5, 2, 2),
    "a class for each": ("random", 67, None, 33, 2, 10**6),
}
EMPTY = {"no rows": (0, 5, 2), "no references": (5, 0, 2), "no slots": (5, 7, 0)}
BATCHES = {"duplicates": 60, "lattice": 90, "random": 70}  # that are mined: kind of rows, and how many


def squared_of(asked: Asked) -> Tensor:
    """Return the dense program: all squared distances in float64."""
    left, right = (grid.first.double() for grid in asked.grids())
    square, other_square = (torch.where((rows != 0).any(1), rows.square().sum(1), 1.0) for rows in (left, right))
    return square[:, None] + other_square - 2 * left @ right.T


def negatives_of(asked: Asked) -> Tensor:
    """Return all squared distances, infinite within a class."""
    return squared_of(asked).masked_fill(asked.labels[:, None] == asked.other_labels, NEVER)


def dense_nearest(asked: Asked) -> tuple[Tensor, Tensor]:
    """Return for each slot the least distance beyond its floor, and the first column that has it."""
    squared = negatives_of(asked)[:, None]
    distance, column = torch.where(squared > asked.floors[:, :, None], squared, NEVER).min(2)
    return distance, torch.where(distance < NEVER, column, LAST)


def labels_of(rows: int, classes: int, draw: torch.Generator) -> Tensor:
    """Return ragged classes, some of one row, among them labels that float64 would merge."""
    labels = (torch.rand(rows, generator=draw).square() * classes).long()
    return torch.where(labels < 2, labels + 2**53, labels)


@cache
def question(name: str) -> Asked:
    """Return rows, labels, and floors that are distances of the row itself, none at all, or beyond everything."""
    kind, rows, references, dim, slots, classes = SHAPES[name]
    draw = torch.Generator().manual_seed(rows)
    made = torch.from_numpy(made_rows(kind, rows + (references or 0), dim, seed=dim)).float()
    labels = labels_of(len(made), classes, draw)
    others = (None, None) if references is None else (made[rows:], labels[rows:])
    asked = Asked(made[:rows], labels[:rows], *others, torch.empty(0))
    squared = negatives_of(asked)
    floors = squared.gather(1, torch.randint(squared.shape[1], (rows, slots), generator=draw))
    floors[torch.rand(floors.shape, generator=draw) < 0.2] = -1.0
    return asked._replace(floors=floors.T.contiguous().T)


@cache
def mined_question(kind: str, *, references: bool) -> Asked:
    """Return a batch with a slot for each positive of a row: its distance."""
    rows = BATCHES[kind]
    made = torch.from_numpy(made_rows(kind, rows, 6, seed=rows)).float()
    labels = labels_of(rows, 8, torch.Generator().manual_seed(rows))
    batch, others = slice(0, rows // 2), slice(rows // 2, rows)
    asked = Asked(made, labels, None, None, made)
    if references:
        asked = Asked(made[batch], labels[batch], made[others], labels[others], made)
    partners = partners_of(asked)
    floors = torch.full((len(partners), max(map(len, partners))), NEVER, dtype=torch.float64)
    for line, own, columns in zip(floors, squared_of(asked), partners, strict=True):
        line[: len(columns)] = own[columns]
    return asked._replace(floors=floors)


def partners_of(asked: Asked) -> list[list[int]]:
    """Return the positives of each row, which is none of them."""
    same = asked.labels[:, None] == asked.other_labels
    if asked.references is None:
        same.fill_diagonal_(False)
    return [line.nonzero()[:, 0].tolist() for line in same]


MINED = [(kind, references) for kind in BATCHES for references in (False, True)]


def empty_question(name: str) -> Asked:
    rows, references, slots = EMPTY[name]
    labels = torch.arange(12)
    floors = torch.zeros(rows, slots, dtype=torch.float64)
    return Asked(torch.ones(rows, 3), labels[:rows], torch.ones(references, 3), labels[:references] + 50, floors)


@pytest.fixture(scope="module")
def answers():
    """Everything that is asked in this file, answered by one process."""
    questions = {(name, programs): question(name) for name in SHAPES for programs in (MANY, FEW)}
    questions |= {(name, MANY): empty_question(name) for name in EMPTY}
    for kind, references in MINED:
        asked = mined_question(kind, references=references)
        no_floor = torch.full((len(asked.labels), 1), -1.0, dtype=torch.float64)
        questions[kind, references, FEW] = asked
        questions[kind, references, "hard", MANY] = asked._replace(floors=no_floor)
    answers = run(answer_nearest, list(questions.values()), [name[-1] for name in questions], interpret=True)
    return dict(zip(questions, answers, strict=True))


@interpreted
@pytest.mark.parametrize("programs", [MANY, FEW])
@pytest.mark.parametrize("name", SHAPES)
def test_the_answer_is_that_of_the_dense_program(name, programs, answers):
    distance, rank = answers[name, programs]
    dense_distance, dense_rank = dense_nearest(question(name))
    assert torch.equal(distance, dense_distance)
    assert torch.equal(rank, dense_rank)


@interpreted
@pytest.mark.parametrize("name", SHAPES)
def test_the_answer_is_that_of_our_own_search(name, answers):
    asked = question(name)
    classes = group_by_class(asked.labels, asked.reference_labels)
    left, right = asked.grids()
    sides = GridSide(left, classes.order), GridSide(right, classes.reference_order)
    floors = list(asked.floors[classes.order].T.contiguous())
    symmetric = asked.references is None
    ours = nearest_beyond(*sides, floors, classes.runs, classes.reference_order, symmetric=symmetric)
    for slot, near in enumerate(ours):
        distance, rank = (values[classes.order, slot] for values in answers[name, MANY])
        assert torch.equal(distance, near.distance)
        assert torch.equal(rank, torch.where(near.distance < NEVER, near.rank, LAST))


@interpreted
@pytest.mark.parametrize("name", EMPTY)
def test_where_there_is_nothing_there_is_no_answer(name, answers):
    distance, rank = answers[name, MANY]
    rows, _, slots = EMPTY[name]
    assert distance.shape == rank.shape == (rows, slots)
    assert distance.eq(NEVER).all()
    assert rank.eq(LAST).all()


def test_the_questions_hold_what_they_are_for():
    asked = [question(name) for name in SHAPES]
    floors = torch.cat([one.floors.flatten() for one in asked])
    assert floors.eq(-1).any()
    assert floors.eq(NEVER).any()
    assert not all(one.floors.is_contiguous() for one in asked)
    ties = 0
    for one in asked:
        distance, _ = dense_nearest(one)
        ties += int(((negatives_of(one)[:, None] == distance[:, :, None]).sum(2) > 1)[distance < NEVER].sum())
    assert ties > 100
    mined = [mined_question(kind, references=references) for kind, references in MINED]
    assert max(one.floors.shape[1] for one in mined) > 12
    assert min(len(line) for one in mined for line in partners_of(one)) == 0


def triplets_of(asked: Asked, rank: Tensor, chosen: Tensor) -> set[tuple[int, int, int]]:
    """Return the triplets of rows, their positives, and the chosen answers."""
    return {
        (a, p, int(rank[a, slot]))
        for a, partners in enumerate(partners_of(asked))
        for slot, p in enumerate(partners)
        if chosen[a, slot]
    }


def mine(miner: TripletMiner, asked: Asked) -> set[tuple[int, int, int]]:
    """Return the triplets of a miner that takes equal rows for rows of their own."""
    anchors_at = None if asked.references is None else ELSEWHERE
    return set(zip(*(part.tolist() for part in miner(*asked[:4], anchors_at=anchors_at)), strict=True))


@interpreted
@pytest.mark.parametrize("margin", [0.2, float("inf")])
@pytest.mark.parametrize(("kind", "references"), MINED)
def test_floors_of_positives_make_semi_hard_triplets(kind, references, margin, answers):
    asked = mined_question(kind, references=references)
    distance, rank = answers[kind, references, FEW]
    triplets = triplets_of(asked, rank, (rank != LAST) & (distance < asked.floors + margin))
    assert triplets == mine(SemiHardMiner(margin), asked)
    assert triplets


@interpreted
@pytest.mark.parametrize(("kind", "references"), MINED)
def test_no_floor_makes_hard_triplets(kind, references, answers):
    asked = mined_question(kind, references=references)
    _, rank = answers[kind, references, "hard", MANY]
    rank = rank.expand_as(asked.floors)
    triplets = triplets_of(asked, rank, rank != LAST)
    assert triplets == mine(HardMiner(), asked)
    batch_hard = mine(BatchHardMiner(), asked)
    assert batch_hard <= triplets
    assert {a for a, _, _ in batch_hard} == {a for a, _, _ in triplets}


def given(rows: int = 4, dim: int = 3, **settings) -> GridRows:
    return GridRows(torch.ones(rows, dim), **{"normalize": True, "finer": False, **settings})


LABELS, FLOORS = torch.arange(4), torch.zeros(4, 2, dtype=torch.float64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((given(finer=True), given(), LABELS, LABELS, FLOORS), "finer or of free length"),
        ((given(), given(normalize=False), LABELS, LABELS, FLOORS), "finer or of free length"),
        ((given(), given(dim=2), LABELS, LABELS, FLOORS), "3 and 2 columns"),
        ((given(), given(), LABELS.int(), LABELS, FLOORS), "^labels is .* must be int64"),
        ((given(), given(), LABELS, LABELS[:3], FLOORS), "^other_labels is .* must be int64"),
        ((given(), given(), LABELS, LABELS, FLOORS.float()), "floors is .* must be float64"),
        ((given(), given(), LABELS, LABELS, FLOORS[:3]), "floors is .* must be float64"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        fused_nearest(*arguments)


@interpreted
def test_losses_with_kernels_equal_those_without():
    draw = torch.Generator().manual_seed(1)
    rows, references = torch.randn(45, 33, generator=draw), torch.randn(52, 33, generator=draw)
    rows[20:24] = rows[3]
    labels, others = torch.randint(0, 9, (45,), generator=draw), torch.randint(0, 9, (52,), generator=draw)
    questions = {
        f"{miner} {kind}": batch
        for miner in ("semi_hard", "hard", "batch_hard")
        for kind, batch in {"own": (rows, labels), "references": (rows, labels, references, others)}.items()
    }
    answers = run(answer_losses, questions, interpret=True)
    for name in questions:
        for plain, fused in zip(answers[f"{name} False"], answers[f"{name} True"], strict=True):
            assert plain.abs().max() > 0
            torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-6)
