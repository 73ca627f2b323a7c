"""The socket, the addresses, and the end: by a signal, with a request at work, in a process of its own."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
import torch

from shadowmetric.app.serving.server import running
from shadowmetric.app.serving.server.running import address_of, listen, share_cores
from shadowmetric.app.serving.server.settings import ServeSettings, cores
from shadowmetric.errors import Mistake

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.server import running
from shadowmetric.app.serving.server.app import make_app
from shadowmetric.app.serving.server.running import address_of, listen, serve
from shadowmetric.app.serving.server.settings import ServeSettings

class Slow:
    def __init__(self, about):
        self.about = about
    def embed(self, squares):
        if squares.any():  # not the black square that warms it
            print("at work", flush=True)
            sys.stdin.readline()  # until it is let go
        return np.eye(1, self.about.dim, dtype=np.float32)

gallery = FileGallery(Path(sys.argv[1]))
listening = listen(ServeSettings(port=0))
running.LAST_SECONDS = float(sys.argv[2])
app = make_app(gallery, Slow(gallery.about), ServeSettings(at_once=1, waiting=8))
serve(app, listening, lambda: print(address_of(listening), flush=True))
print("the end", flush=True)
"""


@pytest.fixture
def started(small_index):
    found = []

    def start(last=60.0):
        words, pipe = [sys.executable, "-c", SCRIPT, str(small_index), str(last)], subprocess.PIPE
        found.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return found[-1], found[-1].stdout.readline().strip()

    yield start
    for process in found:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_request_at_work_end(started, red, number):
    process, address = started()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
    waiting = httpx.Client(timeout=60)
    assert waiting.get(f"{address}/health").status_code == 200  # a connection that only waits holds nothing up
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{address}/api/search", content=red, timeout=60))
    )
    asking.start()
    assert process.stdout.readline() == "at work\n"
    process.send_signal(number)
    while listens(address):
        time.sleep(0.01)
    assert answers == []
    said, wrong = process.communicate()  # closes what the work waits for
    asking.join()
    waiting.close()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["hits"]) == 12
    assert (process.returncode, said, wrong) == (0, "the end\n", "")


def listens(address):
    """Return whether a server takes connections."""
    place = urlsplit(address)
    try:
        socket.create_connection((place.hostname, place.port)).close()
    except OSError:
        return False
    return True


def stopping(answer):
    """Return whether an answer is the refusal of a server that stops."""
    told = answer.json() == {"detail": "The server is stopping; try again in a second."}
    return told and (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_a_signal_refuses_those_that_wait_at_once_and_finishes_what_is_at_work(started, red):
    process, address = started()
    with ThreadPoolExecutor(6) as threads:

        def post():
            return httpx.post(f"{address}/api/search", content=red, timeout=60)

        first = threads.submit(post)
        assert process.stdout.readline() == "at work\n"
        others = [threads.submit(post) for _ in range(4)]
        while f"{5 + 1}.0" not in counted(address, "requests_in_flight"):  # the one that counts is one of them
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert all(stopping(answer.result()) for answer in others)
        assert not first.done()
        ended = process.communicate()  # closes what the work waits for
    assert first.result().status_code == 200
    assert (*ended, process.returncode) == ("the end\n", "", 0)


def counted(address, name):
    lines = httpx.get(f"{address}/metrics", timeout=60).text.splitlines()
    return next(line for line in lines if line.startswith(f"shadowmetric_{name} "))


def test_a_signal_refuses_an_upload_that_drips(started):
    process, address = started()
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port)) as dripping:
        dripping.sendall(b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
        while "2.0" not in counted(address, "requests_in_flight"):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        answer = b""
        while b"stopping" not in answer:
            with contextlib.suppress(TimeoutError):
                dripping.settimeout(1.0)
                answer += dripping.recv(4096)
                dripping.sendall(b"x")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in head.lower()
    assert json.loads(body) == {"detail": "The server is stopping; try again in a second."}
    assert (*process.communicate(), process.returncode) == ("the end\n", "", 0)


def test_work_that_outlasts_the_last_seconds_is_told_so_without_a_traceback(started, red):
    process, address = started(last=0.3)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(httpx.post, f"{address}/api/search", content=red, timeout=60)
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGTERM)
        assert stopping(asked.result())
    said, wrong = process.communicate()
    assert (process.returncode, said) == (0, "the end\n")
    assert "Traceback" not in wrong


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


@pytest.mark.parametrize("host", ["Localhost", "127.1", "2130706433"])
def test_odd_names_of_loopback_are_judged_by_the_address_that_is_bound(host):
    with listen(ServeSettings(host=host, port=0)) as opened:
        settings = ServeSettings(host=host, bound=opened.getsockname()[0])
    assert settings.loopback
    assert host.lower() in settings.host_names
    assert ServeSettings(host="x", bound="::ffff:127.0.0.1").loopback


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.0.0.9", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_known(host, loopback):
    with listen(ServeSettings(host=host, port=0)) as opened:
        assert ServeSettings(host=host, bound=opened.getsockname()[0]).loopback == loopback
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
