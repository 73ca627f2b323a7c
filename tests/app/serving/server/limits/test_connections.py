"""Connections that keep silent, drip or do not read: none of them keeps anybody out, or fills the log."""

import contextlib
import json
import re
import resource
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import httpx
import pytest

from shadowmetric.app.serving.server.limits import connections
from shadowmetric.app.serving.server.limits.connections import most_connections
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.errors import Mistake

SCRIPT = """
import sys
from pathlib import Path
from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.server.app import make_app
from shadowmetric.app.serving.server.running import address_of, listen, serve
from shadowmetric.app.serving.server.settings import ServeSettings

class Model:
    def __init__(self, about):
        self.about = about
    def embed(self, squares):
        return squares.reshape(len(squares), -1)[:, : self.about.dim].astype("float32") + 1

gallery = FileGallery(Path(sys.argv[1]))
listening = listen(ServeSettings(port=0))
app = make_app(gallery, Model(gallery.about), ServeSettings(at_once=1, header_seconds=3600.0))
serve(app, listening, lambda: print(address_of(listening), flush=True))
"""
HEADER = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\n"


@contextlib.contextmanager
def server(made, index, **settings):
    app = made.Asked(index, ServeSettings(**settings)).app
    with made.listening(app) as address, contextlib.ExitStack() as stack:
        place = urlsplit(address)

        def connect(sent=b"", buffer=None):
            opened = stack.enter_context(socket.socket())
            if buffer is not None:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            opened.settimeout(120)
            opened.connect((place.hostname, place.port))
            opened.sendall(sent)
            return opened

        yield app, address, connect


def rest(opened):
    """Return what comes until the server closes."""
    parts = []
    with contextlib.suppress(ConnectionError):
        parts.extend(iter(lambda: opened.recv(65536), b""))
    return b"".join(parts)


def answer(opened):
    """Return an answer whose body is JSON without another in it."""
    said = b""
    while not said.endswith(b"}"):
        part = opened.recv(65536)
        assert part, said
        said += part
    return said


def drip(opened):
    """Send a byte now and then until the server closes; return what it says."""
    opened.settimeout(0.02)
    said = b""
    with contextlib.suppress(ConnectionError):
        while True:
            with contextlib.suppress(TimeoutError):
                part = opened.recv(65536)
                said += part
                if not part:
                    break
            opened.send(b"x")
    return said


@pytest.fixture(scope="module")
def hasty(made, small_index):
    with server(made, small_index, header_seconds=0.3) as found:
        yield found


def test_a_connection_that_sends_nothing_is_closed(hasty):
    assert rest(hasty[2]()) == b""


@pytest.mark.parametrize("sent", [b"G", b"GET /health HTTP/1.1\r\n", HEADER + b"X: "])
def test_half_a_header_is_told_that_it_is_late(hasty, sent):
    head, _, body = rest(hasty[2](sent)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"Connection: close" in head
    assert json.loads(body) == {"detail": "The header of the request did not arrive in time; try again."}


def test_a_header_that_drips_is_late_too(hasty):
    assert drip(hasty[2](HEADER + b"X: ")).startswith(b"HTTP/1.1 408")


def test_a_second_request_has_no_more_time_than_the_first(hasty):
    opened = hasty[2](b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer(opened).startswith(b"HTTP/1.1 200")
    opened.sendall(b"GET /he")
    assert b"HTTP/1.1 408" in rest(opened)


@pytest.mark.parametrize("path", ["/nowhere", "/health", "/api/index"])
def test_a_body_that_nobody_wants_cannot_keep_a_connection(hasty, path):
    said = drip(hasty[2](f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n".encode()))
    assert said.startswith(b"HTTP/1.1 40")


def test_an_answer_that_nobody_reads_is_thrown_away(made, small_index):
    with server(made, small_index, seconds=0.3) as (_, address, connect):
        asking = b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        opened = connect(buffer=4096)
        opened.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                opened.send(asking * 100)
        while 'connections_closed_total{why="late"} 1.0' not in httpx.get(f"{address}/metrics", timeout=120).text:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                opened.send(asking * 100)


@pytest.mark.parametrize("sent", [b"", b"GET /he", HEADER + b"Content-Length: 1000\r\n\r\nx"])
def test_any_number_of_silent_ones_keeps_nobody_out(made, small_index, red, sent):
    limits = {"connections": 4, "header_seconds": 3600.0, "idle_seconds": 3600.0}
    with server(made, small_index, **limits) as (_, address, connect):
        silent = [connect(sent) for _ in range(40)]
        for _ in range(3):
            assert httpx.get(f"{address}/health", timeout=120).status_code == 200
            assert httpx.post(f"{address}/api/search", content=red, timeout=120).status_code == 200
        assert rest(silent[0]) == b""
        text = httpx.get(f"{address}/metrics", timeout=120).text
        assert float(re.search(r'connections_closed_total\{why="room"\} (\S+)', text)[1]) >= 36
        assert float(re.search(r"^shadowmetric_connections (\S+)", text, re.MULTILINE)[1]) <= 4


def test_while_all_are_being_answered_the_next_waits(made, small_index, monkeypatch):
    monkeypatch.setattr(connections.Connection, "protected_until", None)
    with server(made, small_index, connections=2) as (_, _, connect):
        asking = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        kept = [connect(asking), connect(asking)]
        assert all(answer(one).startswith(b"HTTP/1.1 200") for one in kept)
        waits = connect(asking)
        waits.settimeout(0.2)
        with pytest.raises(TimeoutError):
            waits.recv(65536)
        kept[0].close()
        waits.settimeout(120)
        assert answer(waits).startswith(b"HTTP/1.1 200")


def test_who_has_just_come_or_just_asked_is_not_closed_for_others(made, small_index, monkeypatch):
    monkeypatch.setattr(connections, "FIRST_SECONDS", 3600.0)
    monkeypatch.setattr(connections, "NEXT_SECONDS", 3600.0)
    limits = {"connections": 3, "header_seconds": 3600.0, "idle_seconds": 3600.0}
    with server(made, small_index, **limits) as (app, _, connect):
        asking = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        fresh, asked, uploading = connect(), connect(asking), connect(HEADER + b"Content-Length: 1000\r\n\r\nx")
        assert answer(asked).startswith(b"HTTP/1.1 200")
        others = [connect() for _ in range(10)]
        for one in (fresh, asked):
            one.sendall(asking)
            assert answer(one).startswith(b"HTTP/1.1 200")
        uploading.sendall(b"x" * 999)
        assert answer(uploading).startswith(b"HTTP/1.1 422")
        assert app.state.service.metrics.closed.labels("room")._value.get() == 0
        del others


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x00\xa5", b"BREW\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100_000])
def test_what_is_no_http_is_refused_in_one_sentence(hasty, sent):
    head, _, body = rest(hasty[2](sent + b"\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(body) == {"detail": "This is no HTTP request; the connection is closed."}


def test_with_few_descriptors_the_server_answers_and_its_log_stays_short(small_index):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(small_index)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    )
    try:
        place = urlsplit(process.stdout.readline().strip())
        with contextlib.ExitStack() as stack:

            def connect():
                return stack.enter_context(socket.create_connection((place.hostname, place.port), timeout=120))

            for _ in range(60):
                connect()
            for _ in range(5):
                assert httpx.get(f"{place.geturl()}/health", timeout=120).status_code == 200
            for _ in range(50):
                stack.enter_context(socket.create_connection((place.hostname, place.port), timeout=120)).send(
                    b"\0\r\n\r\n"
                )
            assert httpx.get(f"{place.geturl()}/health", timeout=120).status_code == 200
    finally:
        process.terminate()
        _, log = process.communicate()
    assert process.returncode == 0
    assert "silent ones are closed for new ones" in log
    assert "Traceback" not in log
    assert len(log) < 2000, log


def test_the_limit_is_below_that_of_descriptors(monkeypatch):
    monkeypatch.setattr(connections, "free_descriptors", lambda: 60)
    assert most_connections(ServeSettings(at_once=2)) == 60 - 16 - 8
    assert most_connections(ServeSettings(at_once=2, connections=5)) == 5
    with pytest.raises(Mistake, match=r"60 more files and connections may be open here, and 416 are for files; raise"):
        most_connections(ServeSettings(at_once=100))
    monkeypatch.setattr(connections, "free_descriptors", lambda: None)
    assert most_connections(ServeSettings()) == 1000
