"""Several processes share an evaluation: real ones, by gloo, against what one process finds.

This file is also the program that starts the processes. Each does all cases, shared and alone, and counts what it
measures; then the tests look at what the ranks wrote down.
"""

import math
import os
import subprocess
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from batches import plain_batch

import shadowmetric as sm
from shadowmetric.evaluation import hits, measuring, sharing, silhouette, verification
from shadowmetric.evaluation.comparison import Sets
from shadowmetric.ops import top_k
from shadowmetric.ops.ranks import share

RANKS = (2, 3)
SECONDS = 30  # until a rank that waits for another gives up
COUNTED = ("map_at_r", "silhouette", "accuracy", "nmi", "verification", "collapse")
NO_PAIRS = {"measures": [name for name in sm.evaluation.MEASURES if name != "verification"]}  # whose sums take longest
ROWS = 601  # where what is measured is counted: even for no number of ranks


def two_sets(rows, **settings):
    embeddings, labels = plain_batch(rows + 40, dtype=torch.float32)
    labels = labels % 6
    gallery = {"gallery": embeddings[rows:], "gallery_labels": labels[rows:]}
    return embeddings[:rows], labels[:rows], gallery | settings


def one_set(rows, **settings):
    return *plain_batch(rows), settings


def duplicates():
    rows, labels = plain_batch(50)
    rows[25:] = rows[:25]
    rows[7] = 0.0
    return rows, labels % 4, NO_PAIRS


def arrays():
    rows, labels = plain_batch(31)
    return rows.numpy().astype(np.float16), labels.numpy().astype(np.int32), NO_PAIRS


CASES = {
    "one set": lambda: one_set(61),  # the last query is lone
    "small blocks": lambda: one_set(100, scratch_bytes=4096),
    "two sets": lambda: two_sets(23),
    "a sample": lambda: one_set(61, queries=10, seed=3),
    "a sample of a query set": lambda: two_sets(23, queries=11, **NO_PAIRS),
    "one query": lambda: two_sets(1),
    "two rows": lambda: one_set(2),
    "one row": lambda: one_set(1),
    "a sample of one": lambda: one_set(61, queries=1, **NO_PAIRS),
    "one class": lambda: (plain_batch(20)[0], torch.zeros(20, dtype=torch.int64), NO_PAIRS),
    "duplicates": duplicates,
    "arrays": arrays,
    "by cosine": lambda: one_set(61, silhouette_distance="cosine", neighbors=99, **NO_PAIRS),
    "no recall": lambda: one_set(20, measures=["recall_at"], recall_at=()),
    "nothing": lambda: one_set(20, measures=[]),
}


def wrong(rank):
    """Return what ranks disagree on: the arguments of this rank, by a name."""
    rows, labels, first = *plain_batch(30), rank == 0
    broken = rows.clone()
    broken[7, 3] = math.nan
    gallery = {"gallery": rows, "gallery_labels": labels}
    return {
        "shape": (rows if first else rows[:29], labels if first else labels[:29], {}),
        "labels": (rows, labels if first else labels.flip(0), {}),
        "gallery": (rows, labels, {} if first else gallery),
        "gallery labels": (rows, labels, gallery if first else gallery | {"gallery_labels": labels + 1}),
        "settings": (rows, labels, {"recall_at": (1, 2) if first else (1, 3)}),
        "not finite": (rows if first else broken, labels, {}),
        "no tensor": (rows if first else rows.tolist(), labels, {}),
    }


def work(rank, ranks, folder):
    """Do all cases as one of the ranks, and write down what came out."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    patience = timedelta(seconds=SECONDS)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting{ranks}", rank=rank, world_size=ranks, timeout=patience
    )
    found = {"sentences": {name: sentence_of(*given) for name, given in wrong(rank).items()}}
    for name, case in CASES.items():
        rows, labels, settings = case()
        found[name] = sm.evaluate(rows, labels, progress=False, shared=True, **settings)
        if rank == 0:
            found[name, "alone"] = sm.evaluate(rows, labels, progress=False, **settings)
    rows, labels = plain_batch(61)
    rows += 1e-7 * rank * torch.randn(61, 8, generator=torch.Generator().manual_seed(rank))
    found["not quite the same rows"] = sm.evaluate(rows, labels, progress=False, shared=True)
    count_blocks()
    found["measured"] = {name: measured(name, shared=True) for name in COUNTED}
    found["measured alone"] = {name: measured(name, shared=False) for name in COUNTED if rank == 0}
    torch.save(found, f"{folder}/{rank}of{ranks}.pt")
    dist.destroy_process_group()


def sentence_of(rows, labels, settings):
    try:
        sm.evaluate(rows, labels, progress=False, shared=True, **settings)
    except ValueError as error:
        return str(error)


ENTRIES = []  # of all blocks of similarities, and the rows of collapse, once they are counted


def count_blocks():
    blocks = hits.similarity_blocks

    def counting(*sides, **settings):
        for block in blocks(*sides, **settings):
            ENTRIES.append(block.values.numel())
            yield block

    for module in (hits, silhouette, top_k, verification):
        module.similarity_blocks = counting
    spread = measuring.collapse

    def counting_rows(rows, **settings):
        ENTRIES.append(len(rows))
        return spread(rows, **settings)

    measuring.collapse = counting_rows


def measured(name, shared):
    """Return how many similarities a measure makes in this process, or how many rows collapse looks at."""
    ENTRIES.clear()
    rows, labels = plain_batch(ROWS)
    sm.evaluate(rows, labels, measures=[name], scratch_bytes=2**16, progress=False, shared=shared)
    return sum(ENTRIES)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the folder that all processes wrote to; they run once for all tests, from one import of torch."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, __file__, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module", params=RANKS)
def found(request, written):
    """Return what each of so many ranks found."""
    files = [written / f"{rank}of{request.param}.pt" for rank in range(request.param)]
    return [torch.load(file, weights_only=False) for file in files]


def tensors_of(scores):
    vote = {} if scores.vote is None else scores.vote._asdict()
    spread = {} if scores.collapse is None else {"variance": scores.collapse.variance}
    rows = {"labels": scores.labels, "gallery_labels": scores.gallery_labels, "query_rows": scores.query_rows}
    return scores.per_query | vote | spread | rows


def assert_equal(mine, theirs, but=()):
    """Compare two evaluations bit by bit, but for some figures, of which the last digits are free."""
    assert mine.setting == theirs.setting
    figures = theirs.as_dict()
    assert mine.as_dict().keys() == figures.keys()
    for name, figure in mine.as_dict().items():
        tolerance = {"abs": 1e-12, "rel": 0.0} if name in but else {"abs": 0.0, "rel": 0.0}
        if isinstance(figure, float):
            assert figure == pytest.approx(figures[name], nan_ok=True, **tolerance), name
        else:
            assert repr(figure) == repr(figures[name]), name  # NaN inside
    tensors = tensors_of(theirs)
    assert tensors_of(mine).keys() == tensors.keys()
    for name, values in tensors_of(mine).items():
        close = 1e-12 if name in but else 0.0
        torch.testing.assert_close(values, tensors[name], rtol=0.0, atol=close, equal_nan=True, msg=name)
    assert repr(mine.report) == repr(theirs.report)


@pytest.mark.parametrize("case", CASES)
def test_the_first_rank_finds_what_one_process_finds(found, case):
    assert_equal(found[0][case], found[0][case, "alone"], but=("silhouette", "nmi", "ami"))


@pytest.mark.parametrize("case", [*CASES, "not quite the same rows"])
def test_all_ranks_find_the_same(found, case):
    for rank in found[1:]:
        assert_equal(rank[case], found[0][case])


def test_each_rank_measures_its_own_queries_only(found):
    alone = found[0]["measured alone"]
    for rank, mine in enumerate(each["measured"] for each in found):
        for name in ("map_at_r", "silhouette", "accuracy"):
            assert mine[name] == len(share(ROWS, rank, len(found))) * ROWS, name
            assert alone[name] == ROWS * ROWS, name
        assert mine["collapse"] == (ROWS if rank == 0 else 0)
        assert mine["nmi"] * ROWS == alone["nmi"] * len(share(ROWS, rank, len(found)))


def test_the_ranks_divide_the_pairs_evenly(found):
    mine = [each["measured"]["verification"] for each in found]
    pairs = ROWS * (ROWS - 1) / 2
    assert sum(mine) >= pairs
    assert max(mine) < 1.2 * pairs / len(found)  # blocks on the diagonal are whole


SENTENCES = {
    "shape": "embeddings: shape (30, 8) on rank 0, shape (29, 8) on rank 1; with shared=True give every rank the same.",
    "labels": "labels: checksum ",
    "gallery": "gallery: none on rank 0, shape (30, 8) on rank 1; with shared=True give every rank the same.",
    "gallery labels": "gallery_labels: checksum ",
    "settings": "recall_at: (1, 2) on rank 0, (1, 3) on rank 1; with shared=True give every rank the same.",
    "not finite": "rank 1 refuses what it was given: embeddings has NaN or infinity in 1 of 30 rows",
    "no tensor": "rank 1 refuses what it was given: embeddings is a list; give a tensor or a numpy array.",
}


@pytest.mark.parametrize("mistake", SENTENCES)
def test_ranks_that_disagree_say_so_on_every_rank(found, mistake):
    sentences = [rank["sentences"][mistake] for rank in found]
    assert sentences[0].startswith(SENTENCES[mistake])
    own = SENTENCES[mistake].removeprefix("rank 1 refuses what it was given: ")
    assert all(sentence.startswith(own) for sentence in sentences[1:])


@pytest.mark.parametrize("group", [False, True])
def test_one_process_sends_nothing(tmp_path, monkeypatch, group):
    def refuse(*_, **__):
        raise AssertionError("something was sent")

    rows, labels = plain_batch(40)
    if group:
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        for name in (
            "all_gather",
            "all_gather_into_tensor",
            "all_gather_object",
            "all_reduce",
            "broadcast_object_list",
        ):
            monkeypatch.setattr(dist, name, refuse)
        alone, shared = (sm.evaluate(rows, labels, progress=False, shared=each) for each in (False, True))
    finally:
        if group:
            dist.destroy_process_group()
    assert_equal(shared, alone)


def test_a_part_of_the_queries_is_no_copy():
    rows, labels = plain_batch(20)
    sets = Sets(rows, labels, rows, labels, torch.arange(20))
    part = sets.some(slice(5, 9))
    assert part.query.data_ptr() == rows[5:].data_ptr()
    assert part.own.tolist() == [5, 6, 7, 8]


def test_values_are_sent_from_a_device_that_can(monkeypatch):
    values = torch.ones(3)
    monkeypatch.setattr(dist, "get_backend_config", lambda: "cpu:gloo,cuda:nccl")
    assert sharing._sendable(values) is values
    monkeypatch.setattr(dist, "get_backend_config", lambda: "meta:nccl")  # a group that cannot send from the CPU
    assert sharing._sendable(values).device.type == "meta"


if __name__ == "__main__":
    start = "fork" if sys.platform == "linux" else "spawn"
    for ranks in RANKS:
        mp.start_processes(work, (ranks, sys.argv[1]), nprocs=ranks, start_method=start)  # ends all if one fails
