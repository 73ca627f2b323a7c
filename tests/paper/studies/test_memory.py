"""The paper's memory table: what losses keep by dimension, what a step holds, and the words beside the paper's."""

import json
from pathlib import Path

import pytest
import torch

from paper.studies import memory
from paper.studies.memory import EVERY_DIM, labels_of, loss_of, measure, random_rows, tables
from paper.studies.memory_tables import between, bytes_of_gathered
from shadowmetric.losses.catalogue import PAPER_LOSSES

RECORD = Path(__file__).parents[3] / "paper" / "records" / "small" / "memory.json"
LABELS = labels_of(32, 5)


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def found(told):
    return measure("smoke", lambda words, share: told.append((share, words)))


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORD.read_text("utf-8"))["found"]


def kept(found, loss):
    return {one["dim"]: one["bytes"] for one in found["loss_kept"] if one["loss"] == loss}


def test_the_study_is_plain_json_and_tells_how_far_it_is(found, told):
    assert json.loads(json.dumps(found)) == found
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("loss", PAPER_LOSSES)
def test_what_ours_keep_is_the_same_at_every_dimension(found, loss):
    assert set(kept(found, loss)) >= {*EVERY_DIM, 16}
    assert len(set(kept(found, loss).values())) == 1
    assert kept(found, loss)[8] > 0


@pytest.mark.parametrize(("loss", "rows"), [("shadow_rows", 3), ("triplet_rows", 2)])
def test_gathered_forms_keep_whole_rows_of_each_triplet(found, loss, rows):
    """Algorithm 1 keeps its three tensors; the gathered Triplet its two differences."""
    sizes = kept(found, loss)
    for dim in EVERY_DIM[1:]:
        assert sizes[dim] - sizes[8] == rows * 4 * found["triplets"] * (dim - 8)


@pytest.mark.parametrize("loss", ["shadow", "triplet"])
def test_gathered_forms_are_the_same_losses(loss):
    rows = random_rows(32, 16)
    torch.testing.assert_close(loss_of(f"{loss}_rows", 16)(rows, LABELS), loss_of(loss, 16)(rows, LABELS))


def test_triplets_are_counted_as_plain_loops_do(found):
    labels = LABELS.tolist()
    pairs = [(a, p) for a in range(32) for p in range(32) if a != p and labels[a] == labels[p]]
    assert found["triplets"] == len(pairs)
    assert found["every_triplet"] == sum(labels[a] != other for a, _ in pairs for other in labels)


def test_a_step_holds_what_its_embedder_keeps(found):
    assert {(one["loss"], one["dim"]) for one in found["step_peak"]} == {("shadow", 8), ("shadow", 16)}
    for one, embedder in zip(found["step_peak"], found["embedder"], strict=True):
        assert all(peak is None or peak > embedder["kept_bytes"] for peak in one["bytes"])
    assert found["embedder"][1]["kept_bytes"] > found["embedder"][0]["kept_bytes"]


def test_the_tables_of_a_smoke_run_quote_nothing(found):
    words = "".join(cell for table in tables(found) for row in table.rows for cell in row)
    assert "quoted" not in words  # the paper has no figure at D = 8 or 16
    assert f"{kept(found, 'shadow')[16]:,} bytes" in words  # kept: the same at both


def test_the_tables_put_the_paper_beside_ours(record):
    peaks, by_dim, savings = tables(record)
    rows = {row[0]: row for row in peaks.rows}
    assert rows["shadow"][1] == "8.62 to 8.94 GB quoted"
    assert rows["triplet"][1::3] == ("10.31 to 10.72 GB quoted", "12.41 GB quoted")
    assert rows["soft_triple"][4] == "–"
    assert all(row[2].endswith("MB measured") for row in peaks.rows[:-1])
    assert peaks.kinds.count("control") == by_dim.kinds.count("control") == 2
    sizes = kept(record, "shadow_rows")
    assert bytes_of_gathered(record["triplets"], 64) == sizes[128] - sizes[64]  # the formula is what Algorithm 1 keeps
    assert "2.2 to 2.4 million needed" in [row[1] for row in savings.rows]
    assert ("1.69 to 1.82 GB quoted", "16.4 to 17.2 % quoted") in [row[2:] for row in savings.rows]


def test_the_record_says_that_the_loss_is_not_what_fills_memory(record):
    """Peaks of all losses lie within a thousandth of each other, and gathering every triplet is less than that."""
    for dim, embedder in zip(record["setting"]["dims"], record["embedder"], strict=True):
        peaks = [peak for one in record["step_peak"] if one["dim"] == dim for peak in one["bytes"]]
        assert max(peaks) - min(peaks) < 2e-3 * min(peaks)
        assert bytes_of_gathered(record["every_triplet"], dim) < 4e-3 * embedder["kept_bytes"]


def test_a_step_whose_memory_is_not_known_says_so(record):
    unknown = record | {"step_peak": [one | {"bytes": [None]} for one in record["step_peak"]]}
    assert all(row[2] == "not known here" for row in tables(unknown)[0].rows[:-1])


def test_the_docstring_has_the_figures_of_the_record(record):
    for dim in (64, 128):
        peaks = [peak / 1e6 for one in record["step_peak"] if one["dim"] == dim for peak in one["bytes"]]
        assert f"{between(peaks, 1)} MB" in str(memory.__doc__)
    for loss in ("shadow", "triplet", "shadow_rows", "triplet_rows"):
        assert f"{kept(record, loss)[64]:,}" in str(memory.__doc__)
