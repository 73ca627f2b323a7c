"""Under load: some at work, some waiting, the others refused at once; slow uploads dropped; memory flat."""

import contextlib
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from shadowmetric.app.serving.server.settings import ServeSettings


class Slow:
    """A model that waits until it is let go."""

    def __init__(self, model):
        self.model, self.about = model, model.about
        self.go, self.begun = threading.Event(), threading.Semaphore(0)

    def embed(self, squares):
        if squares.any():  # not the black square that warms it
            self.begun.release()
            self.go.wait()
        return self.model.embed(squares)


@contextlib.contextmanager
def slow_server(made, index, at_once, waiting):
    model = Slow(made.Pixels())
    app = made.Asked(index, ServeSettings(at_once=at_once, waiting=waiting), model).app
    with made.listening(app) as address, ThreadPoolExecutor(16) as threads:
        try:
            yield app, model, address, threads
        finally:
            model.go.set()


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def test_beyond_the_line_is_503_at_once_while_health_answers(made, small_index, red):
    with slow_server(made, small_index, at_once=2, waiting=3) as (app, model, address, threads):

        def post():
            return httpx.post(f"{address}/api/search", content=red, timeout=60)

        served = [threads.submit(post) for _ in range(5)]
        until(lambda: app.state.service.searches.inside == 5)
        model.begun.acquire()
        model.begun.acquire()
        assert not model.begun.acquire(blocking=False), "a third is at work"
        for _ in range(3):
            refused = post()
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            assert refused.headers.get("Connection") != "close", "its body was read"
            assert "5 requests are at work or waiting" in refused.json()["detail"]
            assert httpx.get(f"{address}/health", timeout=60).json() == {"status": "ok"}
            assert "shadowmetric_requests_in_flight 6.0" in httpx.get(f"{address}/metrics", timeout=60).text
            assert httpx.get(f"{address}/api/index", timeout=60).status_code == 200
        model.go.set()
        assert [answer.result().status_code for answer in served] == [200] * 5
        assert post().status_code == 200
        assert app.state.service.searches.inside == 0


def test_a_large_upload_that_is_refused_sees_why(made, small_index):
    with slow_server(made, small_index, at_once=1, waiting=0) as (_, model, address, threads):
        body = made.as_bytes(made.image_of((9, 9, 9)))
        held = threads.submit(httpx.post, f"{address}/api/search", content=body, timeout=60)
        model.begun.acquire()
        assert httpx.post(f"{address}/api/search", content=bytes(8_000_000), timeout=60).status_code == 503
        model.go.set()
        assert held.result().status_code == 200
        assert httpx.post(f"{address}/api/search", content=bytes(30_000_000), timeout=60).status_code == 413


@pytest.fixture
def impatient(made, small_index):
    settings = ServeSettings(seconds=1.0, idle_seconds=0.3, at_once=1, waiting=0)
    app = made.Asked(small_index, settings).app
    with made.listening(app) as address:
        yield app, urlsplit(address)


def half_a_post(place, length=1000):
    opened = socket.create_connection((place.hostname, place.port))
    opened.settimeout(30)
    opened.sendall(f"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + b"x")
    return opened


def test_an_upload_that_does_not_arrive_is_dropped(impatient, red):
    app, place = impatient
    with half_a_post(place) as opened:
        answer = b"".join(iter(lambda: opened.recv(4096), b""))  # to the end: the server closes
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"did not arrive in time" in answer
    assert app.state.service.searches.inside == 0


def test_an_upload_that_drips_is_dropped_too(impatient):
    _, place = impatient
    with half_a_post(place) as opened, contextlib.suppress(ConnectionError):
        opened.setblocking(False)
        answer = b""
        while not answer:
            with contextlib.suppress(BlockingIOError):
                answer = opened.recv(4096)
            if not answer:
                opened.send(b"x")
                time.sleep(0.05)
    assert answer.startswith(b"HTTP/1.1 408")


def test_somebody_who_goes_away_gives_back_the_place(impatient, red, caplog):
    app, place = impatient
    half_a_post(place).close()
    until(lambda: app.state.service.searches.inside == 0)
    assert httpx.post(f"{place.geturl()}/api/search", content=red, timeout=60).status_code == 200
    assert "Traceback" not in caplog.text


def test_somebody_who_asks_before_sending_is_told_at_once(impatient):
    _, place = impatient
    with socket.create_connection((place.hostname, place.port)) as opened:
        opened.settimeout(30)
        opened.sendall(
            b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\nExpect: 100-continue\r\n\r\n"
        )
        answer = b"".join(iter(lambda: opened.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 413")


def test_memory_stays_flat_over_hundreds_of_requests(asked, made):
    body = made.as_bytes(made.image_of((9, 99, 199), size=(600, 400)), "JPEG")

    def some(count):
        for _ in range(count):
            found = asked.search(body).json()["hits"]
            asked.client.get(f"/api/images/{found[0]['key']}")
            asked.search(b"words")

    some(50)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(150)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40_000, f"{grown} kB more; one decoded image has 720"
