"""What a bundle costs a small machine, in an environment that was really installed.

    shadowmetric export runs/photos --bundle device --gallery photos
    python -m benchmarks.serving.device_cost device photo.jpg --csv device.csv

A new environment gets what the bundle's requirements.txt asks for (onnxruntime, numpy, pillow and what they need) and
nothing else; uv installs it if it is beside this Python, else pip. Measured are its size on disk, and of a whole
`python -m device search` the median time of five calls, after one that warms the disk's memory, and the largest
resident memory of any.

It needs the network, or a cache of the packages, and half a gigabyte on disk for a minute.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shadowmetric.app.serving.exporting.bundle import REQUIREMENTS
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.runtime.bundle import INDEX, MODEL
from shadowmetric.runtime.files import write_rows

CALLS = 5
PACKAGES = ("onnxruntime", "numpy", "pillow")
VERSIONS = """
import importlib.metadata, importlib.util, json, platform, sys
found = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in sys.argv[1:]}
print(json.dumps(found | {"torch": importlib.util.find_spec("torch") is not None}))
"""
# a process counts the memory of the one that started it, until it runs its own program: so a small one starts it
ONE_CALL = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
seconds, peak = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([ended.returncode, ended.stderr[-300:], seconds, peak * (1 if sys.platform == "darwin" else 1024)]))
"""


def device_cost(bundle: Path, image: Path) -> dict[str, Any]:
    """Install an environment, and return what a search in it costs, with the versions that were installed."""
    check_bundle(bundle)
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        python = make_environment(environment, bundle / REQUIREMENTS)
        packages = versions(python)
        if packages.pop("torch"):
            raise Stopped("the environment has torch, which nothing in it asks for; this is a defect: report it.")
        return packages | measure_search(python, bundle, image) | {"environment_mb": size_mb(environment)}


def check_bundle(bundle: Path) -> None:
    """Refuse a folder that is no bundle."""
    missing = [name for name in (MODEL, INDEX, REQUIREMENTS) if not (bundle / name).is_file()]
    if missing:
        raise Mistake(
            f"{bundle} is no bundle: there is no {missing[0]} in it; write one by `shadowmetric export RUN --bundle`."
        )


def make_environment(environment: Path, requirements: Path) -> Path:
    """Make an environment with what a file asks for, compiled as pip does; return its Python."""
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    for words in install_words(environment, python, requirements):
        ended = subprocess.run(words, capture_output=True, text=True, check=False, env=plain_environment())
        if ended.returncode:
            raise Stopped(f"`{Path(words[0]).name} {words[1]}` failed: {' '.join(ended.stderr.split())[-300:]}")
    return python


def install_words(environment: Path, python: Path, requirements: Path) -> list[list[str]]:
    """Return the commands that make an environment; neither leaves an installer in it."""
    uv = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    to, options = str(python), ["-r", str(requirements.resolve())]
    if uv.exists():
        return [
            [str(uv), "venv", "--python", sys.executable, str(environment)],
            [str(uv), "pip", "install", "--compile-bytecode", "--python", to, *options],
        ]
    return [
        [sys.executable, "-m", "venv", "--without-pip", str(environment)],
        [sys.executable, "-m", "pip", "--python", to, "install", *options],
    ]


def plain_environment() -> dict[str, str]:
    """Return the variables of this process without Python's, which would show other packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def versions(python: Path) -> dict[str, Any]:
    """Return the versions that a Python has, and whether torch is there."""
    words = [str(python), "-c", VERSIONS, *PACKAGES]
    output = subprocess.run(words, capture_output=True, text=True, check=True, env=plain_environment()).stdout
    return json.loads(output)


def measure_search(python: Path, bundle: Path, image: Path, calls: int = CALLS) -> dict[str, float]:
    """Return the median time and the largest memory of whole searches in a bundle, after one that is not counted."""
    words = [str(python), "-m", "device", "search", str(image.resolve())]
    runs = [one_call(words, bundle) for _ in range(calls + 1)][1:]
    return {
        "search_seconds": round(statistics.median(seconds for seconds, _ in runs), 3),
        "peak_resident_mb": round(max(peak for _, peak in runs) / 1e6, 1),
        "bundle_mb": size_mb(bundle),
    }


def one_call(words: Sequence[str], folder: Path) -> tuple[float, int]:
    """Return the seconds and the largest resident bytes of a command, run in a folder."""
    starter = [sys.executable, "-I", "-S", "-c", ONE_CALL, *words]
    process = subprocess.run(starter, cwd=folder, capture_output=True, text=True, check=True, env=plain_environment())
    code, error, seconds, peak = json.loads(process.stdout)
    if code:
        raise Stopped(f"a search in {folder} failed: {' '.join(error.split())}")
    return seconds, peak


def size_mb(folder: Path) -> float:
    """Return the size of a folder's files on disk; links count for nothing."""
    return round(sum(on_disk(file.lstat()) for file in folder.rglob("*") if not file.is_symlink()) / 1e6, 1)


def on_disk(status: os.stat_result) -> int:
    """Return the bytes that a file takes on disk, or that it has where nobody knows."""
    return getattr(status, "st_blocks", -(-status.st_size // 512)) * 512


def main() -> None:
    """Measure, print, and write the row."""
    parser = argparse.ArgumentParser(description="Measure what a bundle costs a machine without torch.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("image", type=Path)
    parser.add_argument("--csv", type=Path, help="a file for the row")
    choice = parser.parse_args()
    try:
        row = device_cost(choice.bundle, choice.image)
    except (Mistake, Stopped) as error:
        sys.exit(str(error))
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    if choice.csv is not None:
        write_rows(choice.csv, [row])


if __name__ == "__main__":
    main()
