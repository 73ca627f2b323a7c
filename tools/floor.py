"""The library's own tests with the lowest torch and numpy that pyproject.toml allows: `make floor`.

    python tools/floor.py PLACE

makes a new environment at PLACE and ends with the exit code of pytest. It holds torch and numpy at their lower bounds,
what the tests import in the versions of this environment, and this project without its other dependencies: what is for
commands is not tried. Nor are shapes checked, since users do not do so and the compiler of old torch can't see through
the checker. The first time it downloads some gigabytes, which uv keeps in its cache; afterwards PLACE holds links.
"""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).parent / "uv"
AT_THE_FLOOR = ("torch", "numpy")
AS_HERE = ("hypothesis", "pytest", "pytest-xdist", "scikit-learn")
TESTS = ("ops", "mining", "losses", "batches", "evaluation")
OPTIONS = ("-o", "addopts=-q --import-mode=importlib", "-p", "no:cacheprovider", "--numprocesses", "auto")


def lowest() -> list[str]:
    """Return torch and numpy in the lowest versions that the project asks for."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    specifiers = {requirement.name: requirement.specifier for requirement in map(Requirement, lines)}
    bounds = {name: [one.version for one in specifiers[name] if one.operator == ">="] for name in AT_THE_FLOOR}
    return [f"{name}=={version}" for name, (version,) in bounds.items()]


def install(place: Path) -> None:
    """Make the environment anew."""
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, place], check=True)
    into = [UV, "pip", "install", "--quiet", "--python", place / "bin" / "python"]
    as_here = [f"{name}=={importlib.metadata.version(name)}" for name in AS_HERE]
    subprocess.run([*into, *lowest(), *as_here], check=True)
    subprocess.run([*into, "--no-deps", "--editable", ROOT], check=True)


def test(place: Path) -> int:
    """Run the library's tests there, and return pytest's exit code."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    folders = [Path("tests") / name for name in TESTS]
    words = [place / "bin" / "python", "-m", "pytest", *OPTIONS, "--dist", "loadscope", *folders]
    return subprocess.run(words, cwd=ROOT, env=ours).returncode


if __name__ == "__main__":
    PLACE = Path(sys.argv[1]).absolute()
    print("with", *lowest(), flush=True)
    install(PLACE)
    sys.exit(test(PLACE))
