"""Whether a server answers while others keep its connections.

    python -m benchmarks.serving.connection_load photos.shadowmx photo.jpg --csv connections.csv

It starts `shadowmetric serve` on a free port of this machine and measures it twice, with the busy connections alone and
with all of them at once:

    idle    connect and send nothing, or half a header; come again as soon as they are closed
    slow    upload a byte every two seconds; come again as well
    busy    post the image, wait for the answer, post again

The share of good answers and the times are those of the busy ones; an error of the connection is no good answer. Log
bytes are what the server wrote to its standard error meanwhile; resident memory is what its own /metrics say then.
`--descriptors 64` is `ulimit -n 64` for the server.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.serving.server_load import resident_mb
from shadowmetric.runtime.files import write_rows

SECONDS = 30.0
SLOW_SECONDS = 2.0
ANSWER_SECONDS = 60.0
HALF = b"GET /health HTTP/1.1\r\n"
HEAD = "POST /api/search?k=12 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"


@dataclass
class Tally:
    """What the busy connections saw, and how often the others were closed."""

    times: list[float] = field(default_factory=list)  # seconds, of good answers
    others: int = 0
    closed: int = 0

    def row(self) -> dict[str, int | float]:
        """Return the figures."""
        asked = len(self.times) + self.others
        times = sorted(self.times)
        return {
            "asked": asked,
            "good_share": len(times) / max(asked, 1),
            "p50_ms": percentile(times, 0.5) * 1e3,
            "p99_ms": percentile(times, 0.99) * 1e3,
            "closed": self.closed,
        }


def percentile(times: list[float], share: float) -> float:
    """Return the time within which a share of sorted times lies."""
    return times[min(int(share * len(times)), len(times) - 1)] if times else float("nan")


async def keep_idle(port: int, sent: bytes, tally: Tally) -> None:
    """Hold a connection that says nothing more, again and again."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(sent)
                await reader.read()
                tally.closed += 1
            finally:
                writer.close()
        await asyncio.sleep(0.05)


async def upload_slowly(port: int, tally: Tally) -> None:
    """Upload a byte now and then, again and again."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(HEAD.format(1_000_000).encode())
                answered = asyncio.ensure_future(reader.read())
                while not answered.done():
                    writer.write(b"x")
                    await asyncio.wait({answered}, timeout=SLOW_SECONDS)
                await answered
                tally.closed += 1
            finally:
                writer.close()
        await asyncio.sleep(0.05)


async def stay_busy(port: int, body: bytes, end: float, tally: Tally) -> None:
    """Post and wait, on one connection for as long as it holds."""
    request = HEAD.format(len(body)).encode() + body
    reader = writer = None
    while time.perf_counter() < end:
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if writer is None or reader is None or writer.is_closing():
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                status, closes = await read_answer(reader)
        except (OSError, EOFError, TimeoutError):
            status, closes = 0, True
        if status == 200:
            tally.times.append(time.perf_counter() - begun)
        else:
            tally.others += 1
            await asyncio.sleep(0.1)
        if closes and writer is not None:
            writer.close()
            reader = writer = None
    if writer is not None:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Return the status of an answer, and whether its connection ends."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = head.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    await reader.readexactly(int(headers.get("content-length", "0")))
    return int(lines[0].split()[1]), headers.get("connection") == "close"


async def load(port: int, body: bytes, idle: int, slow: int, busy: int, seconds: float) -> Tally:
    """Load a server for some seconds."""
    tally = Tally()
    others = [keep_idle(port, HALF if number % 2 else b"", tally) for number in range(idle)]
    others += [upload_slowly(port, tally) for _ in range(slow)]
    tasks = [asyncio.create_task(other) for other in others]
    await asyncio.sleep(2.0 if tasks else 0.0)  # until they are there
    end = time.perf_counter() + seconds
    await asyncio.gather(*(stay_busy(port, body, end, tally) for _ in range(busy)))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tally


@contextlib.contextmanager
def serving(index: Path, log: Path, descriptors: int | None) -> Iterator[int]:
    """Yield the port of a server that runs as long as this does."""
    words = [sys.executable, "-m", "shadowmetric", "serve", str(index), "--port", "0"]
    if descriptors is not None:
        words = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *words]
    with log.open("wb") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("http://127.0.0.1:"):
            raise SystemExit(f"the server did not start: {log.read_text(errors='replace').strip() or line}")
        yield int(line.split()[0].rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.communicate()


def measure(choice: argparse.Namespace) -> list[dict[str, int | float]]:
    """Return a row for the busy ones alone, and one for all at once."""
    rows, body = [], choice.image.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with serving(choice.index, log, choice.descriptors) as port:
            for idle, slow in ((0, 0), (choice.idle, choice.slow)):
                before = log.stat().st_size
                tally = asyncio.run(load(port, body, idle, slow, choice.busy, choice.seconds))
                row: dict[str, int | float] = {"descriptors": choice.descriptors or 0, "idle": idle, "slow": slow}
                row |= {"busy": choice.busy, "seconds": choice.seconds} | tally.row()
                rows.append(row | {"log_bytes": log.stat().st_size - before, "resident_mb": resident_mb(port)})
                print(", ".join(f"{name} {value:,.4g}" for name, value in rows[-1].items()), flush=True)
    return rows


def main() -> None:
    """Measure, print, and write the rows."""
    asked = argparse.ArgumentParser(description="Load a server with connections that keep silent, drip and ask.")
    asked.add_argument("index", type=Path)
    asked.add_argument("image", type=Path)
    asked.add_argument("--idle", type=int, default=500)
    asked.add_argument("--slow", type=int, default=50)
    asked.add_argument("--busy", type=int, default=8)
    asked.add_argument("--seconds", type=float, default=SECONDS)
    asked.add_argument("--descriptors", type=int, help="the most files and connections that the server may open")
    asked.add_argument("--csv", type=Path, help="a file for the rows")
    choice = asked.parse_args()
    rows = measure(choice)
    if choice.csv is not None:
        write_rows(choice.csv, rows)


if __name__ == "__main__":
    main()
