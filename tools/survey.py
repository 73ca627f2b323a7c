"""What this repository is made of, in figures: for any checkout of it, old or new.

    python -m tools.survey [--suite] [CHECKOUT...]

    files, lines        of what the wheel holds: src/shadowmetric/**/*.py
    rooms               packages right below it, and below app
    largest folder      that holds most .py files, besides __init__.py
    base dependencies   that pyproject.toml asks for without an extra; the packages that come with them beyond torch and
                        its own, and their megabytes, as they are installed where this runs
    files that name     a loss: programs, tests and pages that say its name, the changelog and the log left out: what is
    a loss              touched to enter one, and a little more
    files touched       modules of shadowmetric that are imported by a step of ShadowLoss, by a training on digits, and
                        by a search in an index of digits, each in a process of its own
    suite               with --suite: what pytest says of all tests, as `make test` runs them: minutes

A checkout is measured as it lies there: its src/ goes before everything on the path, and nothing of it is installed.
Where layouts differ, the place of a module is looked up. Half a minute a checkout.
"""

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
COUNTED = """
import json, sys
names = sorted(name for name, module in sys.modules.items() if name.split(".")[0] == "shadowmetric" and module)
print("TOUCHED " + json.dumps(names))
"""
STEP = """
import torch
import shadowmetric as sm
embeddings = torch.randn(40, 8, requires_grad=True)
sm.ShadowLoss(margin=0.2)(embeddings, torch.arange(40) // 5).backward()
"""
COMMAND = """
import importlib, sys
for name in ("shadowmetric.app.cli", "shadowmetric.cli"):
    try:
        main = importlib.import_module(name).main
        break
    except ModuleNotFoundError:
        pass
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
"""
NAMED_LOSSES = ("ArcFaceLoss", "CosFaceLoss")  # one of before and after a table of losses drives the tests
QUICK = ("--device", "cpu", "--epochs", "1", "--batches", "3", "--batch", "32", "--dim", "8")


def survey(checkout: Path, *, suite: bool = False) -> dict[str, str]:
    """Return the figures of a checkout in words; suite: those of its tests too."""
    package = checkout / "src" / "shadowmetric"
    files = sorted(package.rglob("*.py"))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    folders = Counter(path.parent for path in files if path.name != "__init__.py")
    largest, most = max(folders.items(), key=lambda one: one[1])
    base, packages, megabytes = dependencies(checkout)
    figures = {
        "commit": commit_of(checkout),
        "files in the wheel": f"{len(files):,}",
        "lines in the wheel": f"{lines:,}",
        "rooms": rooms(package),
        "largest flat folder": f"{largest.relative_to(package)}/ with {most} files",
        "base dependencies": f"{len(base)}: {', '.join(base)}",
        "packages beyond torch and its own": f"{packages}, {megabytes:.0f} MB installed",
    }
    figures |= {f"files that name {loss}": f"{files_that_name(loss, checkout)}" for loss in NAMED_LOSSES}
    return figures | count_touched(checkout) | ({"suite": time_suite(checkout)} if suite else {})


def time_suite(checkout: Path, processes: str = "auto") -> str:
    """Run all tests; return pytest's last line: how many passed and failed, and the seconds."""
    words = [sys.executable, "-m", "pytest", "--numprocesses", processes, "--dist", "loadscope"]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    said = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True).stdout
    return said.strip().splitlines()[-1]


def commit_of(checkout: Path) -> str:
    """Return the commit that is checked out."""
    words = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def rooms(package: Path) -> str:
    """Return how many packages there are right below, and below the program's."""
    below = {place: packages_in(place) for place in (package, package / "app")}
    words = f"{len(below[package])}: {', '.join(below[package])}"
    program = below[package / "app"]
    return words + (f"; {len(program)} in app: {', '.join(program)}" if program else "")


def packages_in(folder: Path) -> list[str]:
    """Return the packages right below a folder."""
    return sorted(path.parent.name for path in folder.glob("*/__init__.py"))


def dependencies(checkout: Path) -> tuple[list[str], int, float]:
    """Return what the base asks for; how many packages that brings beyond torch and its own, and their megabytes."""
    lines = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    base = [Requirement(line).name for line in lines]
    beyond = closure(base) - closure(["torch"])
    return base, len(beyond), sum(map(installed_bytes, beyond)) / 1e6


def closure(names: list[str]) -> set[str]:
    """Return packages and all that they ask for, as far as it is installed here."""
    packages: set[str] = set()
    todo = [(name, frozenset[str]()) for name in names]
    seen = set()
    while todo:
        name, extras = todo.pop()
        name = canonicalize_name(name)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            asked = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        packages.add(name)
        for one in map(Requirement, asked):
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                todo.append((one.name, frozenset(one.extras)))
    return packages


def installed_bytes(name: str) -> int:
    """Return the bytes of the files of an installed package."""
    places = (Path(str(file.locate())) for file in importlib.metadata.files(name) or [])
    return sum(place.stat().st_size for place in places if place.is_file())


def files_that_name(loss: str, checkout: Path) -> int:
    """Return how many files say the name of a loss, as a class or as a word of commands."""
    word = re.sub(r"(?<!^)(?=[A-Z])", "_", loss.removesuffix("Loss")).lower()
    said = re.compile(rf"\b({loss}|{word}(_loss)?)\b")
    folders = [checkout / name for name in ("src", "tests", "docs", "benchmarks", "examples", "tools")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md")]
    return sum(bool(said.search(path.read_text(encoding="utf-8"))) for path in files)


def count_touched(checkout: Path) -> dict[str, str]:
    """Return how many modules of ours three things import, each in a process of its own."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_digits(folder / "images")
        train = ("train", "--data", "digits", *QUICK, "--out", "run")
        counts = {"a step of ShadowLoss": names_of(checkout, STEP, folder)}
        counts["train"] = names_of(checkout, COMMAND, folder, *train)
        names_of(checkout, COMMAND, folder, "index", "run", "images", "--out", "digits.shadowmx")
        search = ("search", "digits.shadowmx", "images/3/0.png")
        counts["search"] = names_of(checkout, COMMAND, folder, *search)
    return {f"files touched by {what}": f"{len(names)}" for what, names in counts.items()}


def names_of(checkout: Path, code: str, folder: Path, *words: str) -> list[str]:
    """Return the modules of ours that a program imports."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code + COUNTED, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words) or 'a step'} failed in {checkout}:\n{done.stderr[-2000:]}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("TOUCHED "))
    return json.loads(line.removeprefix("TOUCHED "))


def write_digits(folder: Path) -> None:
    """Write a few images of two classes."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    for label in ("3", "7"):
        (folder / label).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 255, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")


def table(surveys: list[dict[str, str]]) -> str:
    """Return a row a figure and a column a checkout, in Markdown."""
    names = list(dict.fromkeys(name for figures in surveys for name in figures))
    commits = [figures["commit"] for figures in surveys]
    lines = [f"| | {' | '.join(commits)} |", "|---" * (len(surveys) + 1) + "|"]
    rows = (f"| {name} | {' | '.join(figures.get(name, '–') for figures in surveys)} |" for name in names[1:])
    return "\n".join([*lines, *rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.survey", description="What this repository is made of.")
    parser.add_argument("--suite", action="store_true", help="run the tests of each, too: minutes")
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT], help="folders of clones (default: this one)")
    asked = parser.parse_args()
    print(table([survey(place.resolve(), suite=asked.suite) for place in asked.checkouts]))
