"""How many searches a server answers, measured by wrk: `python -m benchmarks.serving.server_load IMAGE`.

    shadowmetric serve photos.shadowmx &
    python -m benchmarks.serving.server_load photo.jpg --connections 1 8 --csv load.csv

Every connection posts the image again as soon as it is answered. Resident memory is what the server's own /metrics
say, before and after. It needs Debian's package wrk, and asks a server on this machine alone.
"""

import argparse
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from shadowmetric.runtime.files import write_rows

SECONDS = 30
SCRIPT = """
local file = io.open("{image}", "rb")
wrk.method, wrk.body = "POST", file:read("*a")
wrk.headers["Content-Type"] = "application/octet-stream"
"""
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


def resident_mb(port: int) -> float:
    """Return the resident memory that a server says it has."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        match = re.search(r"^process_resident_memory_bytes (\S+)$", answer.read().decode(), re.MULTILINE)
    if match is None:
        raise SystemExit(f"the server on port {port} does not say its resident memory; is it shadowmetric serve?")
    return float(match[1]) / 1e6


def figures(report: str) -> dict[str, float]:
    """Return what wrk's report says: answers and refusals a second, and times in milliseconds."""

    def time_of(share: int) -> float:
        value, unit = re.search(rf"^\s+{share}%\s+([\d.]+)(us|ms|s|m)\s*$", report, re.MULTILINE).groups()  # pyright: ignore
        return float(value) * UNITS[unit]

    requests, seconds = re.search(r"(\d+) requests in ([\d.]+)s", report).groups()  # pyright: ignore
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", report)
    others = int(refused[1]) if refused else 0
    return {
        "answers_per_second": (int(requests) - others) / float(seconds),
        "refused_per_second": others / float(seconds),
        "p50_ms": time_of(50),
        "p99_ms": time_of(99),
    }


def load_server(image: Path, port: int, connections: int, neighbors: int, seconds: int) -> dict[str, float]:
    """Load a server for some seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT.format(image=image.resolve()))
        script.flush()
        address = f"http://127.0.0.1:{port}/api/search?k={neighbors}"
        words = ["wrk", f"-t{min(2, connections)}", f"-c{connections}", f"-d{seconds}s", "--latency"]
        before = resident_mb(port)
        done = subprocess.run([*words, "-s", script.name, address], capture_output=True, text=True, check=True)
    after = {"resident_before_mb": before, "resident_after_mb": resident_mb(port)}
    return {"connections": connections} | figures(done.stdout) | after


def main() -> None:
    """Measure, print, and write the rows."""
    parser = argparse.ArgumentParser(description="Load a server on this machine.")
    parser.add_argument("image", type=Path)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--neighbors", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--csv", type=Path, help="a file for the rows")
    choice = parser.parse_args()
    rows = []
    for connections in choice.connections:
        rows.append(load_server(choice.image, choice.port, connections, choice.neighbors, choice.seconds))
        print(", ".join(f"{name} {value:.1f}" for name, value in rows[-1].items()), flush=True)
    if choice.csv is not None:
        write_rows(choice.csv, rows)


if __name__ == "__main__":
    main()
