"""The same embedder learns in a plain loop and in three libraries' trainers, with their losses and with ours."""

import importlib.util
from pathlib import Path

import pytest

from shadowmetric.runtime.files import read_rows

pytestmark = pytest.mark.usefixtures("one_thread")
FILE = Path(__file__).parents[2] / "examples" / "trainers.py"


@pytest.mark.filterwarnings("ignore")
def test_every_way_learns_and_the_rows_are_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")  # which the example sets for good
    spec = importlib.util.spec_from_file_location("trainers", FILE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    rows = example.main(["--steps", "25", "--seeds", "1", "--csv", str(tmp_path / "rows.csv")])
    assert [(row["trainer"], row["loss"]) for row in rows] == list(example.WAYS)
    assert len({row["recall_at_1_before"] for row in rows}) == 1  # one embedder, untrained
    for row in rows:
        assert row["recall_at_1"] > row["recall_at_1_before"] + 0.1, row
        assert row["map_at_r"] > row["map_at_r_before"] + 0.15, row
    assert [row["loss"] for row in read_rows(tmp_path / "rows.csv")] == [row["loss"] for row in rows]
