"""Do `make demo` anew and record what came out, for the pages that quote it; then `make results`.

    python -m tools.record_demo            benchmarks/records/demo.json, docs/images/demo.png
    python -m tools.record_demo --of runs/demo --no-image     the record alone, of a demo that is there; it has no times

The record has the figures of every loss and seed, what the command said, and how long it took: by the clock, which a
busy machine stretches, and of the processors, which it hardly does. The image is the report's part with unseen
characters and their neighbors; it needs Debian's chromium. Minutes.
"""

import argparse
import json
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from shadowmetric.app.compare.compare import rows_of
from shadowmetric.app.compare.plan import read_plan
from shadowmetric.app.compare.wording import sentences
from shadowmetric.runtime.files import read_rows, write_text, write_whole
from tools.draw_serve import FLAGS

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "demo.json"
IMAGE = ROOT / "docs" / "images" / "demo.png"
KEPT = ("name", "kind", "seed", "recall_at_1", "map_at_r")
VIEWPORT = {"width": 1240, "height": 900}
EDGE = 14  # pixels of the page around the part that is taken


def main() -> None:
    """Write the record, and the image."""
    parser = argparse.ArgumentParser(description="Record `make demo`.")
    parser.add_argument("--of", type=Path, help="a demo that is there")
    parser.add_argument("--image", action=argparse.BooleanOptionalAction, default=True)
    choice = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = choice.of or Path(directory) / "demo"
        times = {} if choice.of else run_demo(folder)
        write_text(RECORD, json.dumps(record(folder) | times, indent=1, ensure_ascii=False) + "\n")
        if choice.image:
            photograph(folder / "report.html")
    print(f"{RECORD.relative_to(ROOT)} written; now: make results")


def run_demo(folder: Path) -> dict[str, Any]:
    """Run the command; return the seconds it took, set-up not counted."""
    subprocess.run(["make", "--directory", ROOT, "setup"], check=True)
    before, start = processor_seconds(), time.perf_counter()
    subprocess.run(["make", "--directory", ROOT, "demo", f"DEMO={folder}"], check=True)
    return {
        "seconds": round(time.perf_counter() - start),
        "processor_seconds": round(processor_seconds() - before),
    }


def processor_seconds() -> float:
    """Return the time that processes which have ended took of all processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record(folder: Path) -> dict[str, Any]:
    """Return what a demo's folder holds: each loss and seed, and the first sentence."""
    plan = read_plan(folder)
    rows = rows_of(plan)
    return {
        "command": f"shadowmetric compare --epochs {plan.settings.epochs}",
        "said": sentences(plan, rows)[0],
        "differences": {
            row.name: [100 * end for end in (row.beside.low, row.beside.high)] for row in rows if row.beside
        },
        "rows": [{name: row[name] for name in KEPT} for row in read_rows(folder / "compare.csv")],
    }


def photograph(page: Path) -> None:
    """Take the image of the neighbors."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS, timeout=180_000)
        view = browser.new_page(viewport=VIEWPORT)  # type: ignore[arg-type]
        view.set_default_timeout(180_000)
        view.goto(page.resolve().as_uri())
        view.wait_for_selector("html[data-ready=true]")
        view.add_style_tag(content=".chooser { visibility: hidden }")  # it stays at the top while one scrolls
        box = view.locator(".panel[id$=-random]").first.bounding_box()
        assert box is not None
        x, y, width, height = (box["x"] - EDGE, box["y"] - EDGE, box["width"] + 2 * EDGE, box["height"] + 2 * EDGE)
        image = view.screenshot(full_page=True, clip={"x": x, "y": y, "width": width, "height": height})
        browser.close()
    write_whole(IMAGE, lambda place: place.write_bytes(image))


if __name__ == "__main__":
    main()
