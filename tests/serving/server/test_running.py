"""The socket, the addresses, and the end: by a signal, with a request at work, in a process of its own."""

import re
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import httpx
import pytest
import torch

from shadowmetric.mistakes import Mistake
from shadowmetric.serving.server import running
from shadowmetric.serving.server.running import address_of, listen, share_cores
from shadowmetric.serving.server.settings import ServeSettings, cores

SCRIPT = """
import sys, time
from pathlib import Path
import numpy as np
from shadowmetric.serving.file_gallery import FileGallery
from shadowmetric.serving.server.app import make_app
from shadowmetric.serving.server.running import address_of, listen, serve
from shadowmetric.serving.server.settings import ServeSettings

class Slow:
    def __init__(self, about):
        self.about = about
    def embed(self, squares):
        if squares.any():  # not the black square that warms it
            print("at work", flush=True)
            time.sleep(float(sys.argv[2]))
        return np.eye(1, self.about.dim, dtype=np.float32)

gallery = FileGallery(Path(sys.argv[1]))
listening = listen(ServeSettings(port=0))
app = make_app(gallery, Slow(gallery.about), ServeSettings())
serve(app, listening, lambda: print(address_of(listening), flush=True))
print("the end", flush=True)
"""


@pytest.fixture
def started(small_index):
    found = []

    def start(seconds):
        words = [sys.executable, "-c", SCRIPT, str(small_index), str(seconds)]
        found.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return found[-1], found[-1].stdout.readline().strip()

    yield start
    for process in found:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_request_at_work_end(started, red, number):
    process, address = started(1.0)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
    waiting = httpx.Client()
    assert waiting.get(f"{address}/health").status_code == 200  # a connection that only waits holds nothing up
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{address}/api/search", content=red, timeout=60))
    )
    asking.start()
    assert process.stdout.readline() == "at work\n"
    process.send_signal(number)
    said, wrong = process.communicate()
    asking.join()
    waiting.close()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["hits"]) == 12
    assert (process.returncode, said, wrong) == (0, "the end\n", "")


def test_answers_do_not_wait_for_an_acknowledgement():
    with listen(ServeSettings(port=0)) as opened:
        assert opened.proto == socket.IPPROTO_TCP  # by which asyncio knows that it may switch Nagle's rule off


def test_a_taken_port_is_one_sentence():
    with listen(ServeSettings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Mistake, match=rf"port {port} of 127\.0\.0\.1 is taken; choose another, such as --port"):
            listen(ServeSettings(port=port))


@pytest.mark.parametrize("host", ["no.such.host.invalid", "300.1.1.1", "x" * 300, "203.0.113.7"])
def test_a_host_that_is_not_here_is_one_sentence(host, monkeypatch):
    if not host.startswith("203"):
        monkeypatch.setattr(socket, "getaddrinfo", nobody)
    with pytest.raises(Mistake, match=r"is no address of this machine|cannot be listened at"):
        listen(ServeSettings(host=host, port=0))


def nobody(*_, **__):
    raise socket.gaierror("unknown")


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("0.0.0.0", "127.0.0.1")]
)
def test_the_address_can_be_opened(host, shown):
    with listen(ServeSettings(host=host, port=0)) as opened:
        found = urlsplit(address_of(opened))
        assert found.hostname in (shown, "127.0.0.1", "::1")
        assert found.port == opened.getsockname()[1]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.0.0.9", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_known(host, loopback):
    settings = ServeSettings(host=host)
    assert settings.loopback == loopback
    assert "localhost" in settings.host_names


@pytest.mark.parametrize(
    "wrong", [{"port": -1}, {"port": 70000}, {"max_upload_mb": 0}, {"max_pixels": 0}, {"at_once": 0}, {"waiting": -1}]
)
def test_settings_out_of_range_are_one_sentence(wrong):
    name = next(iter(wrong)).replace("_", "-")
    with pytest.raises(Mistake, match=f"--{name} is .*; give"):
        ServeSettings(**wrong)


def test_threads_at_work_share_the_cores():
    before = torch.get_num_threads()
    share_cores(cores())
    assert torch.get_num_threads() == 1
    share_cores(1)
    assert torch.get_num_threads() == cores()
    torch.set_num_threads(before)
    assert running.LAST_SECONDS <= 10
