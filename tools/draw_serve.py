"""Take the image of docs/serving.md: the page of `shadowmetric serve`, after a photo was dropped on it.

    python tools/draw_serve.py                                   docs/images/serve.png, of drawn products
    python tools/draw_serve.py --index birds.shadowmx --photo bird.jpg --out birds.png

Without an index one is made: examples/product_search.py's folder is drawn, trained on and indexed, which takes half a
minute. It needs Debian's chromium.
"""

import argparse
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
COMMAND = [sys.executable, "-m", "shadowmetric"]


def make_index(folder: Path) -> tuple[Path, Path]:
    """Return an index of drawn products, and a photo to ask for."""
    runpy.run_path(str(ROOT / "examples" / "product_search.py"))["draw_folder"](folder / "photos", 20)
    for words in ("train --data folder:photos --out run", "index run photos --out products.shadowmx"):
        subprocess.run([*COMMAND, *words.split()], cwd=folder, check=True, capture_output=True)
    return folder / "products.shadowmx", folder / "photos" / "blue sail" / "03.png"


def shoot(index: Path, photo: Path, out: Path, width: int, dark: bool) -> None:
    """Serve an index, drop a photo on the page, and take its image."""
    from playwright.sync_api import sync_playwright

    served = subprocess.Popen([*COMMAND, "serve", str(index), "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout is not None
        address = next(match[0] for line in served.stdout if (match := re.search(r"http://[\w.]+:\d+", line)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": width, "height": 860}, color_scheme="dark" if dark else "light")
            page.goto(address)
            page.set_input_files("#choose", str(photo))
            page.wait_for_selector("#page[data-busy=false]", state="attached")
            page.locator(".hit").first.wait_for()
            page.wait_for_load_state("networkidle")  # thumbnails
            page.screenshot(path=str(out))
            browser.close()
    finally:
        served.terminate()
        served.wait()


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description="Take an image of the page of shadowmetric serve.")
    parser.add_argument("--index", type=Path)
    parser.add_argument("--photo", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "serve.png")
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--dark", action="store_true")
    choice = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index, photo = (choice.index, choice.photo) if choice.index else make_index(Path(folder))
        shoot(index, photo, choice.out, choice.width, choice.dark)
    print(f"The image is {choice.out}")


if __name__ == "__main__":
    main()
