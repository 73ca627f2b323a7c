"""Do what docs/first-steps.md says, as a newcomer would, and time it: from a clone to a search of own images.

    python tools/time_first_steps.py --csv benchmarks/records/first-steps.csv

A clone is made in a folder that is removed afterwards, and set up with an empty cache of packages, so that everything
is downloaded; the images are those that examples/product_search.py draws. Then every command of the page is run as
it stands there. About four minutes, most of them the download.
"""

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shadowmetric.runtime.files import write_rows

ROOT = Path(__file__).resolve().parent.parent
PHOTOS = 20  # of each product


def commands(page: str) -> list[str]:
    """Return the lines of a page that are typed after a dollar sign."""
    return [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ")]


def draw(folder: Path) -> None:
    """Draw the images of the page: 12 products."""
    runpy.run_path(str(ROOT / "examples" / "product_search.py"))["draw_folder"](folder, PHOTOS)


def time_command(label: str, command: str, folder: Path, environment: dict[str, str]) -> dict[str, str | float]:
    """Run a command, and return how long it took."""
    start = time.perf_counter()
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    seconds = time.perf_counter() - start
    print(f"{seconds:8.1f} s  {label}", flush=True)
    return {"step": label, "seconds": round(seconds, 2)}


def main() -> None:
    """Time every step."""
    parser = argparse.ArgumentParser(description="Time a newcomer's first steps.")
    parser.add_argument("--csv", type=Path, help="a file for the rows")
    choice = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        clone = Path(directory) / "clone"
        environment = dict(os.environ) | {"UV_CACHE_DIR": str(Path(directory) / "cache")}
        rows = [time_command("`git clone`", f"git clone --quiet '{ROOT}' '{clone}'", Path(directory), environment)]
        for command in commands((ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")):
            label = f"`{' '.join(command.split()[:2])}`"
            if command.startswith("make setup"):
                rows.append(time_command(f"{label}, everything downloaded", command, clone, environment))
                environment["PATH"] = f"{clone / '.venv' / 'bin'}:{environment['PATH']}"  # what activating does
                draw(clone / "photos")
            elif command.startswith(("shadowmetric", "make ")):
                rows.append(time_command(label, command, clone, environment))
    if choice.csv is not None:
        write_rows(choice.csv, rows)


if __name__ == "__main__":
    main()
