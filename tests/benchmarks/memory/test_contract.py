"""The memory bench at tiny sizes: every loss and miner has figures, and none is over its formula."""

import json
import sys

import pytest

from benchmarks import answer
from benchmarks.memory import contract as memory
from benchmarks.memory.contract import MEMORY, SUBJECTS, MemoryJob, inputs, record, skip_reason
from shadowmetric.losses.catalogue import CONTROLS, LOSSES
from shadowmetric.ops.memory import Bytes, Cost


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_loss_and_miner_has_a_row_within_its_formula(name):
    found = record(MemoryJob(name, 40, 8, scratch_mb=1))
    assert "reason" not in found
    assert set(found) <= set(MEMORY.columns)
    assert 0 < found["counted_bytes"] <= found["predicted_bytes"]
    assert found["kept_bytes"] <= found["kept_predicted_bytes"]
    assert found["over"] is False
    assert found["resident_bytes"] is None or found["resident_bytes"] >= 0


def test_every_loss_of_the_catalogue_is_there():
    assert set(LOSSES) - set(CONTROLS) <= set(SUBJECTS)


def test_the_scratch_reaches_the_miner_of_a_loss():
    assert SUBJECTS["shadow"](MemoryJob("shadow", 40, 8, scratch_mb=2)).miner.scratch_bytes == 2 * 2**20


def test_a_broken_formula_is_over(monkeypatch):
    nothing = Cost(Bytes(), (Bytes(),))
    monkeypatch.setattr(memory.ShadowLoss, "memory", lambda self, dtype: nothing)
    found = record(MemoryJob("shadow, all", 100, 64, scratch_mb=1))
    assert found.get("over") is True, found


def test_a_list_of_too_many_triplets_is_skipped():
    assert skip_reason(MemoryJob("all miner", 256, 8)) is None
    assert "would list triplets of up to 3.2 GB" in str(skip_reason(MemoryJob("all miner", 4096, 8)))
    assert skip_reason(MemoryJob("shadow, all", 4096, 8)) is None


def test_a_job_is_answered_with_one_json_line(monkeypatch, capsys):
    job = {"name": "hard miner", "batch": 40, "dim": 8, "dtype": "float16"}
    monkeypatch.setattr(sys, "argv", ["memory", json.dumps(job)])
    monkeypatch.setattr(answer, "offer_this_process_first", lambda: None)
    answer.answer(MemoryJob, record)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["positives"] == 160


def test_what_raises_is_a_reason():
    assert record(MemoryJob("nobody", 40, 8)) == {"reason": "KeyError: 'nobody'"}


def test_inputs_have_whole_classes_in_mixed_order():
    embeddings, labels = inputs(MemoryJob("shadow", 12, 4))
    assert labels.bincount().tolist() == [5, 5, 2]
    assert labels.tolist() != sorted(labels.tolist())
    assert embeddings.shape == (12, 4)
