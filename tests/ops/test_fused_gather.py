"""The fused sums in Triton's interpreter, against plain sums in float64."""

import pytest
import torch
from kernel_work import answer_gather_and_step, run
from torch import Tensor

from shadowmetric.ops.arg_min import LAST
from shadowmetric.ops.fused_gather import STRETCH, fused_gather, fused_gather_sorted
from shadowmetric.ops.triton_ops import missing

interpreted = pytest.mark.skipif(bool(missing()), reason=f"kernels need {missing()}")

DRAW = torch.Generator().manual_seed(0)
OUTSIDE = [-1, -(2**63), 12, LAST]  # of 12 rows
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def rows_of(count: int, dim: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, dim, generator=DRAW, dtype=torch.float64).to(dtype)


def index_of(*shape: int) -> Tensor:
    """Return row numbers below 12, a third of them outside."""
    index = torch.randint(12, shape, generator=DRAW)
    outside = torch.tensor(OUTSIDE)[torch.randint(len(OUTSIDE), shape, generator=DRAW)]
    return torch.where(torch.rand(shape, generator=DRAW) < 0.3, outside, index)


BEYOND = torch.full((1, 5), torch.inf)  # lies before the first row and behind the last

QUESTIONS: dict[str, tuple[Tensor, ...]] = {
    f"{dtype} {dim}": (rows_of(12, dim, dtype), index_of(9, 4), rows_of(9, 4, dtype))
    for dtype in TYPES
    for dim in (1, 5, 33, 130)
}
QUESTIONS |= {
    "longer than a stretch": (rows_of(12, STRETCH + 3), index_of(3, 5), rows_of(3, 5)),
    "int32": (rows_of(12, 5), torch.randint(12, (6, 3), generator=DRAW).int(), rows_of(6, 3)),
    "transposed": (rows_of(5, 12).T, index_of(4, 6).T, rows_of(4, 6).T),
    "all outside": (rows_of(12, 5), torch.full((3, 2), -1), rows_of(3, 2)),
    "just outside": (
        torch.cat([BEYOND, rows_of(12, 5), BEYOND])[1:-1],
        torch.tensor([[0, -1], [12, 11]]),
        rows_of(2, 2),
    ),
    "no rows": (rows_of(0, 5), index_of(3, 2), rows_of(3, 2)),
    "no sums": (rows_of(12, 5), index_of(0, 2), rows_of(0, 2)),
    "no terms": (rows_of(12, 5), index_of(3, 0), rows_of(3, 0)),
    "no columns": (rows_of(12, 0), index_of(3, 2), rows_of(3, 2)),
    "infinite rows that nobody chose": (
        torch.cat([rows_of(3, 5), torch.full((9, 5), torch.inf)]),
        torch.tensor([[0, -1], [2, LAST], [12, 1]]),
        rows_of(3, 2),
    ),
    "infinite weight of none": (rows_of(12, 5), torch.tensor([[0, -1]]), torch.tensor([[1.0, torch.inf]])),
    "segments": (rows_of(12, 33), index_of(40), rows_of(40, 1)[:, 0], torch.tensor([0, 0, 3, 3, 3, 25, 40, 40])),
    "segments in float64": (
        rows_of(12, 5, torch.float64),
        index_of(40),
        rows_of(40, 1)[:, 0].double(),
        torch.tensor([4, 20, 39]),
    ),
    "no segments": (rows_of(12, 5), index_of(4), rows_of(4, 1)[:, 0], torch.tensor([0])),
}


def plain_sums(rows: Tensor, chosen: Tensor, weight: Tensor, begins: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the sums by plain loops in float64, and the sums of the terms' magnitudes."""
    if begins is None:
        lines = [list(zip(*line, strict=True)) for line in zip(chosen.tolist(), weight.tolist(), strict=True)]
    else:
        terms = list(zip(chosen.tolist(), weight.tolist(), strict=True))
        lines = [terms[start:stop] for start, stop in zip(begins.tolist(), begins.tolist()[1:], strict=False)]
    sums = torch.zeros(2, len(lines), rows.shape[1], dtype=torch.float64)
    for i, line in enumerate(lines):
        for row, share in line:
            if 0 <= row < len(rows):
                term = share * rows[row].double()
                sums[:, i] += torch.stack([term, term.abs()])
    return sums[0], sums[1]


@pytest.fixture(scope="module")
def interpreted_work():
    """Everything that is asked in this file, done by one process."""
    return run(answer_gather_and_step, QUESTIONS, interpret=True)


@pytest.fixture(scope="module")
def answers(interpreted_work):
    return interpreted_work[0]


@interpreted
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_sums_are_those_of_plain_loops(name, answers):
    rows, answer = QUESTIONS[name][0], answers[name]
    sums, magnitudes = plain_sums(*QUESTIONS[name])
    assert answer.dtype == rows.dtype
    assert answer.shape == sums.shape
    summed = torch.float64 if rows.dtype == torch.float64 else torch.float32
    bound = 20 * torch.finfo(summed).eps * magnitudes + torch.finfo(rows.dtype).eps * sums.abs()
    assert ((answer.double() - sums).abs() <= bound).all()


@interpreted
@pytest.mark.parametrize("name", ["all outside", "no rows", "no terms"])
def test_what_is_outside_adds_nothing(name, answers):
    assert answers[name].shape == (3, 5)
    assert not answers[name].any()


@interpreted
def test_a_step_compiled_as_one_graph_answers_the_same(interpreted_work):
    plain, compiled = interpreted_work[1]
    assert all(torch.equal(left, right) for left, right in zip(plain, compiled, strict=True))


def test_the_questions_hold_numbers_outside():
    numbers = set(torch.cat([question[1].flatten().long() for question in QUESTIONS.values()]).tolist())
    assert numbers == {*range(12), *OUTSIDE}


ROWS, TERMS = torch.ones(3, 2), torch.zeros(4, dtype=torch.int64)


@pytest.mark.parametrize(
    ("gather", "arguments", "words"),
    [
        (fused_gather, (ROWS, TERMS, TERMS.float()), "index and weight are"),
        (fused_gather, (ROWS, TERMS.view(2, 2), ROWS), "index and weight are"),
        (fused_gather_sorted, (ROWS[0], TERMS, TERMS.float(), TERMS), "rows is .* 2-D"),
        (fused_gather_sorted, (ROWS.long(), TERMS, TERMS.float(), TERMS), "rows is .* floating"),
        (fused_gather_sorted, (ROWS, TERMS, TERMS.float()[:3], TERMS), "chosen and weight are"),
        (fused_gather_sorted, (ROWS, TERMS, TERMS.float(), TERMS[:0]), "begins is"),
    ],
)
def test_what_does_not_fit_is_refused(gather, arguments, words):
    with pytest.raises(ValueError, match=words):
        gather(*arguments)
