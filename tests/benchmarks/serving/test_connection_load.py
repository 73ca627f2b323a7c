"""The program that loads a server with silent, slow and busy connections, against servers that it judges right."""

import argparse
import asyncio
import contextlib
import math
import socket
import threading

from benchmarks.serving import connection_load
from benchmarks.serving.connection_load import Tally, load, percentile


@contextlib.contextmanager
def answering(status, closes_silent):
    """Yield the port of a server that answers every POST, and closes what sends no whole header."""

    async def answer(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            patience = 1.0 if closes_silent else None  # until the first request; a busy connection sends it at once
            while True:
                async with asyncio.timeout(patience):
                    head = await reader.readuntil(b"\r\n\r\n")
                patience = None
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        writer.close()

    ready, done = threading.Event(), None

    async def run():
        nonlocal done
        done, loop = asyncio.Event(), asyncio.get_running_loop()
        server = await asyncio.start_server(answer, sock=listening)
        stop.append(lambda: loop.call_soon_threadsafe(done.set))
        ready.set()
        await done.wait()
        server.close()

    listening, stop = socket.create_server(("127.0.0.1", 0)), []
    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait()
    try:
        yield listening.getsockname()[1]
    finally:
        stop[0]()
        thread.join()


def test_good_answers_others_and_closed_connections_are_counted():
    with answering(200, closes_silent=True) as port:
        tally = asyncio.run(load(port, b"body", idle=4, slow=2, busy=2, seconds=0.5))
    assert tally.times
    assert tally.others == 0
    assert tally.closed > 0
    with answering(503, closes_silent=False) as port:
        tally = asyncio.run(load(port, b"body", idle=0, slow=0, busy=1, seconds=0.3))
    assert tally.times == []
    assert tally.others > 0
    assert tally.row()["good_share"] == 0


def test_a_server_that_is_not_there_gives_no_good_answer():
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    tally = asyncio.run(load(port, b"body", idle=1, slow=1, busy=1, seconds=0.3))
    assert (tally.times, tally.closed) == ([], 0)
    assert tally.others > 0


def test_shares_and_percentiles():
    row = Tally([0.3, 0.1, 0.2, 0.4], 1, 7).row()
    assert (row["asked"], row["good_share"], row["closed"]) == (5, 0.8, 7)
    assert math.isclose(row["p50_ms"], 300)
    assert math.isclose(row["p99_ms"], 400)
    assert math.isnan(percentile([], 0.5))


def test_the_server_is_measured_alone_and_with_all(tmp_path, monkeypatch):
    calls = []

    @contextlib.contextmanager
    def started(index, log, descriptors):
        log.write_bytes(b"at the start")
        calls.append((index, descriptors, log))
        yield 1

    async def loaded(port, body, idle, slow, busy, seconds):
        calls[0][2].write_bytes(b"at the start" + b"x" * (10 + idle))
        return Tally([0.1], 0, idle)

    monkeypatch.setattr(connection_load, "serving", started)
    monkeypatch.setattr(connection_load, "load", loaded)
    monkeypatch.setattr(connection_load, "resident_mb", lambda port: 700.0)
    (tmp_path / "photo").write_bytes(b"photo")
    choice = {"index": "i", "image": tmp_path / "photo", "idle": 500, "slow": 50, "busy": 8, "seconds": 1.0}
    rows = connection_load.measure(argparse.Namespace(**choice, descriptors=64))
    assert [(row["idle"], row["slow"], row["log_bytes"], row["closed"]) for row in rows] == [
        (0, 0, 10, 0),
        (500, 50, 500, 500),
    ]
    assert calls[0][:2] == ("i", 64)
