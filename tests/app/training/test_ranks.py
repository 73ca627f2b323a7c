"""Several processes train one run: they share its batches, and end where one process does."""

import os
import signal
import socket
import subprocess
import sys

import pytest
from safetensors.torch import load_file

from shadowmetric.app.training import loop
from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.other_ranks import difference, is_of_lost_rank
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import Interrupted

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
ACCELERATE += ["--num_processes", "2", "--mixed_precision", "no", "--dynamo_backend", "no"]
ACCELERATE += ["--main_process_port", "0"]  # any: its own 29500 may belong to somebody else
SETTINGS = TrainSettings(
    data="digits",
    loss="soft_triple",
    device="cpu",
    epochs=2,
    batches=3,
    logical_batch=50,
    micro_batch=9,
    per_class=2,
    patience=0,
    optimizer="sgd",
    learning_rate=0.1,
    freeze_batch_norm=True,
)


def launched(*command: str) -> subprocess.CompletedProcess:
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=600
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return found


def options() -> list[str]:
    return [
        word
        for name in (
            "loss",
            "device",
            "epochs",
            "batches",
            "logical_batch",
            "micro_batch",
            "per_class",
            "patience",
        )
        for word in (f"--{name.replace('_', '-')}", str(getattr(SETTINGS, name)))
    ] + ["--optimizer", "sgd", "--learning-rate", "0.1", "--freeze-batch-norm"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Run:
    """The run of one process."""
    run = Run(tmp_path_factory.mktemp("alone") / "run")
    loop.train(SETTINGS, run.folder)
    return run


def assert_same_run(run: Run, alone: Run) -> None:
    wanted, found = load_file(alone.best_file), load_file(run.best_file)
    for name, weights in wanted.items():
        assert (weights - found[name]).abs().max() < 1e-5, name
    for line, other in zip(run.journal(), alone.journal(), strict=True):
        assert line["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert line["gradient"] == pytest.approx(other["gradient"], rel=1e-3)
        assert (line["images"], line["batches"], line["step"]) == (150, 3, other["step"])
    assert run.scores()["map_at_r"] == pytest.approx(alone.scores()["map_at_r"], abs=0.01)


def test_accelerate_launches_two_processes_that_end_where_one_does(alone, tmp_path):
    done = launched(
        *ACCELERATE, "-m", "shadowmetric", "train", "--data", "digits", *options(), "--out", str(tmp_path / "run")
    )
    assert "2 ranks share each batch" in " ".join(done.stderr.split())
    assert done.stdout.count("Test split") == 1  # one process speaks
    assert_same_run(Run(tmp_path / "run"), alone)


def test_torchrun_goes_on_with_the_run_of_one_process_and_says_what_stays_equal(alone, tmp_path):
    run, steps = Run(tmp_path / "run"), []

    def asked() -> bool:
        steps.append(1)
        return len(steps) > 3

    with pytest.raises(Interrupted):
        loop.train(SETTINGS, run.folder, stop=Stop(also=asked))
    assert run.scores() is None
    done = launched(*TORCHRUN, "-m", "shadowmetric", "train", "--resume", str(run.folder))
    said = " ".join(done.stderr.split())
    assert "trained by 1 process(es) and goes on with 2: batches, their order, random changes of images" in said
    assert_same_run(run, alone)


DYING = """
import os, sys
from shadowmetric.app.cli import main
from shadowmetric.app.training import loop

step = loop.train_step

def dying(training, *given):
    if training.accelerator.process_index == 1 and training.state.step == 2:
        raise RuntimeError("the disk is on fire")
    step(training, *given)

loop.train_step = dying
main(["train", *sys.argv[1:]])
"""


def test_a_rank_that_dies_ends_the_job_with_its_message(tmp_path):
    script = tmp_path / "dying.py"
    script.write_text(DYING)
    done = subprocess.run(
        [*TORCHRUN, str(script), *options(), "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode != 0
    assert "the disk is on fire" in done.stderr
    assert Run(tmp_path / "run").scores() is None


ANOTHER = """
import os, signal, sys
from shadowmetric.app.cli import main
from shadowmetric.app.training import loop

step, what = loop.train_step, sys.argv[1]

def killed(training, *given):
    if training.accelerator.process_index == 1 and training.state.step == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    step(training, *given)

data = "digits"
if what == "killed":
    loop.train_step = killed
elif os.environ["RANK"] == "1":
    data = "glyphs"
main(["train", "--data", data, *sys.argv[2:]])
"""


def two_ranks(tmp_path, what: str) -> list[subprocess.CompletedProcess]:
    """Run two processes that nobody watches, as two machines have them; return how each ended."""
    script = tmp_path / "another.py"
    script.write_text(ANOTHER)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ours = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), what, *options(), "--out", str(tmp_path / "run")]
    started = [
        subprocess.Popen(
            command,
            env=os.environ | ours | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    ended = []
    for one in started:
        out, said = one.communicate(timeout=600)
        ended.append(subprocess.CompletedProcess(command, one.returncode, out, said))
    return ended


def test_the_survivor_of_a_killed_rank_says_so_in_a_sentence(tmp_path):
    survivor, killed = two_ranks(tmp_path, "killed")
    assert killed.returncode == -signal.SIGKILL
    assert survivor.returncode == 1, survivor.stderr[-2000:]
    assert "Traceback" not in survivor.stderr
    last = survivor.stderr.strip().splitlines()[-1]
    assert last.startswith("rank 0: Stopped: another of the 2 processes is gone, so that this one cannot go on;")
    assert f"shadowmetric train --resume {tmp_path / 'run'}" in last


def test_ranks_with_other_data_are_refused_before_anything_is_trained(tmp_path):
    for rank, ended in enumerate(two_ranks(tmp_path, "other")):
        assert ended.returncode == 2, ended.stderr[-2000:]
        said = ended.stderr.strip().splitlines()[-1]
        assert said.startswith(f"rank {rank}: rank 1 has other training images than rank 0: ")
        assert "of glyphs and 1,075 of digits; give all of them the same --data." in said
    assert not (tmp_path / "run").exists()


def test_settings_that_differ_between_ranks_are_named():
    first = {"settings": {"margin": 0.2, "dim": 8}, "images": {"training": (9, "x")}, "name": "a"}
    assert difference(first, first, 1) == ""
    said = difference(first, first | {"settings": {"margin": 0.2, "dim": 16}}, 3)
    assert said == "rank 3 has --dim 16 and rank 0 has 8; start all with one command."
    assert not is_of_lost_rank(RuntimeError("the disk is on fire"))
