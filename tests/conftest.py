"""One hypothesis profile for everyone: no deadlines (machines are noisy), the same examples on every run.

`make test` runs a process a core: each then computes with one thread, as the processes of a comparison do, and so do
the processes that it starts.

Commands that take more than some seconds say lines where no terminal is. Tests compare what is said, and are run on
slow machines: to them no command is long.

Commands heed variables of whoever calls them: how wide a terminal is, and whether it has colors. All tests, and the
processes that they start, see the same ones, unless they say otherwise themselves. Servers that tests start are on
this machine, where no proxy would find them.
"""

import os
import signal

import pytest
import torch
from browser_pages import browser as browser
from hypothesis import HealthCheck, settings

from shadowmetric import progress
from shadowmetric.app.training import show

settings.register_profile(
    "shadowmetric",
    deadline=None,
    max_examples=20,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("shadowmetric")
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
for name in ("COLORTERM", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)
progress.QUIET = show.FIRST = 3600.0
os.environ["HF_HUB_OFFLINE"] = "1"  # nobody asks for published weights
os.environ["COLUMNS"] = "80"  # what a file has
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "localhost,127.0.0.1"


@pytest.fixture
def one_thread():
    """Compute with one thread: for tests that start processes, or that ask for the same bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def interruptible():
    """Let processes that are started here hear Ctrl-C: a job in the background ignores it, and so would they.

    A handler of ours becomes the default one when another program starts; "ignored" would stay.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
