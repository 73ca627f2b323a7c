"""Whatever happens to a job is a row, and the run goes on. Real processes, small ones."""

import csv
import sys

import pytest

from benchmarks.losses.plan import LOSSES, Job, Machine, skip_reason
from benchmarks.run import cpu_name, rows, run_job

MACHINE = Machine(available_bytes=1_000_000_000, operations_per_second=1e11)


def says(code):
    """Return a bench whose worker runs this code instead of a job."""
    return LOSSES._replace(worker=(sys.executable, "-c", code))


def test_the_real_worker_answers_with_a_reason():
    reason = run_job(LOSSES, Job("nobody", 32, 8), timeout=120.0)["reason"]
    assert reason.startswith("ValueError: loss is 'nobody'; choose one of shadow, triplet")


def test_a_failure_and_a_skip_are_rows_and_the_run_goes_on(tmp_path):
    code = "import sys; 'nobody' in sys.argv[1] and sys.exit('who?'); print('{\"total_ms\": 1.5}')"
    jobs = [Job("nobody", 32, 8), Job("st", 4096, 8), Job("bare-product", 32, 8, repeats=1)]
    path = tmp_path / "bench.csv"
    with path.open("w", newline="") as file:
        failed, skipped, done = rows(says(code), jobs, lambda job: skip_reason(job, MACHINE, 60.0), 60.0, file)
    assert failed["reason"] == "ended with exit code 1: who?"
    assert skipped["reason"].startswith("skipped: needs about 1.3 GB")
    assert done["reason"] is None
    assert done["total_ms"] == 1.5
    with path.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["contender"] for row in written] == ["nobody", "st", "bare-product"]
    assert tuple(written[0]) == LOSSES.columns
    for row in written:
        assert all(row[column] for column in ("torch", "threads", "cpu", "date"))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL, most likely out of memory"),
        ("import sys; sys.exit('first line\\nlast words')", "ended with exit code 1: last words"),
        ("pass", "ended with exit code 0: it said nothing"),
        ("import time; time.sleep(60)", "took longer than the limit of 1 s"),
    ],
)
def test_a_process_that_ends_badly_is_a_reason(code, reason):
    limit = 1.0 if "sleep" in code else 60.0
    assert run_job(says(code), Job("ours", 32, 8), limit) == {"reason": reason}


def test_chatter_before_the_record_does_not_matter():
    talkative = says("print('a peer says hello'); print('{\"total_ms\": 1.5}')")
    assert run_job(talkative, Job("ours", 32, 8), timeout=60.0) == {"total_ms": 1.5}


def test_the_processor_has_a_name():
    assert cpu_name()
