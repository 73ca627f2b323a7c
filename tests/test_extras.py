"""The wheel with torch and numpy alone; each extra in an environment that has it and no other; what is said without.

`make test` makes two environments. One has the library alone, and there every loss, miner, batch and measure is used
(`library_trial.py`). The other has the extra `app`, and there is seen which files import, and how commands refuse.
`make extras` does what each extra is for, in a fresh environment each, which takes minutes. The packages are links into
uv's cache, where `make setup` has put them, and take no room.
"""

import ast
import functools
import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from extra_features import COMMANDS
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from postgres_server import postgres_address, postgres_server, postgres_table  # noqa: F401

ROOT = Path(__file__).parent.parent
FEATURES = Path(__file__).parent / "extra_features.py"
TRIAL = Path(__file__).parent / "library_trial.py"
UV = Path(sys.executable).parent / "uv"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"all"})  # which is others together
COMES_WITH = {"huggingface_hub": "timm", "markupsafe": "jinja2", "pydantic": "fastapi", "starlette": "fastapi"}
FOR_CHECKERS = {"jaxtyping"}  # names of shapes, which users need not have
FOR_COMMANDS = {
    "accelerate",
    "cyclopts",
    "filelock",
    "openpyxl",
    "PIL",
    "rich",
    "safetensors",
    "scipy",
    "timm",
    "torchvision",
}
pytestmark = pytest.mark.skipif(not UV.exists(), reason="uv is not beside this Python; `make setup` puts it there")


def clean() -> dict[str, str]:
    """Return our environment variables without those that would lead into another environment."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return ours | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def uv(*words: object) -> None:
    """Install without a network, or with one if the cache lacks something."""
    words = (UV, *words)
    if subprocess.run([*words, "--offline"], capture_output=True).returncode:
        done = subprocess.run(words, capture_output=True, text=True)
        assert not done.returncode, done.stderr


def features(environment: Path, what: str, folder: Path, **more: str) -> str:
    words = [environment / "bin" / "python", FEATURES, environment, what, folder]
    done = subprocess.run(words, env=clean() | more, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    made = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return next(made.iterdir())


@functools.cache
def required_by(wheel: Path, extra: str) -> dict[str, str]:
    """Return the packages that the wheel asks for, and those that they ask for, with the versions installed here."""
    with zipfile.ZipFile(wheel) as opened:
        name = next(name for name in opened.namelist() if name.endswith("/METADATA"))
        own = HeaderParser().parsestr(opened.read(name).decode()).get_all("Requires-Dist", [])
    found, seen, todo = {}, set(), [(Requirement(line), {"", extra}) for line in own]
    while todo:
        asked, of = todo.pop()
        if asked.marker is not None and not any(asked.marker.evaluate({"extra": one}) for one in of):
            continue
        name, parts = canonicalize_name(asked.name), frozenset(asked.extras)
        if (name, parts) not in seen:
            seen.add((name, parts))
            found[name] = importlib.metadata.version(name)
            todo += [(Requirement(line), {"", *parts}) for line in importlib.metadata.requires(name) or []]
    return found


def pinned(packages: dict[str, str]) -> list[str]:
    return [f"{name}=={version}" for name, version in sorted(packages.items())]


def environment(wheel: Path, extra: str, place: Path) -> Path:
    """Make an environment with what the wheel asks for, always and for an extra."""
    uv("venv", "--python", sys.executable, place)
    install = ("pip", "install", "--python", place, "--link-mode", "hardlink")
    uv(*install, "--no-deps", wheel, *pinned(required_by(wheel, extra)))
    uv("pip", "check", "--python", place)
    return place


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """An environment with the library alone."""
    return environment(wheel, "", tmp_path_factory.mktemp("bare") / "environment")


@pytest.fixture(scope="module")
def with_app(wheel, tmp_path_factory):
    """An environment with what commands need."""
    return environment(wheel, "app", tmp_path_factory.mktemp("with app") / "environment")


@pytest.fixture(scope="module")
def seen(with_app, tmp_path_factory):
    """What one process saw there."""
    return json.loads(features(with_app, "look", tmp_path_factory.mktemp("empty")).splitlines()[-1])


def test_torch_and_numpy_are_all_that_the_library_asks_for(wheel):
    asked = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert asked == {"torch", "numpy"}
    of_torch = set(required_by(wheel, "")) - asked
    assert not of_torch & ({canonicalize_name(name) for name in FOR_COMMANDS} - {"filelock"})  # which torch has, too


def test_with_torch_and_numpy_alone_every_loss_miner_batch_and_measure_works(bare):
    words = [bare / "bin" / "python", "-W", "error", TRIAL, bare]
    done = subprocess.run(words, env=clean() | {"PYTHONWARNINGS": ""}, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said["tried"]) == 6
    assert {"torch", "numpy"} <= set(said["loaded"])
    assert not FOR_COMMANDS - {"filelock"} & set(said["loaded"])


@pytest.mark.parametrize("words", [("shadowmetric",), ("python", "-m", "shadowmetric", "train", "--data", "digits")])
def test_the_command_without_its_extra_says_what_to_install(bare, tmp_path, words):
    words = (bare / "bin" / words[0], *words[1:])
    done = subprocess.run(words, env=clean(), cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("run `pip install 'shadowmetric[app]'`.\n")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def imports_of(path: Path) -> set[str]:
    """Return the packages that a file imports, wherever it does so."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).split(".")[0])
    return found - set(sys.stdlib_module_names) - {"shadowmetric"}


def test_every_package_that_is_imported_is_asked_for():
    asked = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    for lines in PROJECT["optional-dependencies"].values():
        asked |= {canonicalize_name(Requirement(line).name) for line in lines} - {"shadowmetric"}
    packages = importlib.metadata.packages_distributions()
    imported = set().union(*(imports_of(path) for path in (ROOT / "src").rglob("*.py"))) - FOR_CHECKERS
    assert len(imported) > 20
    for name in imported:
        assert canonicalize_name(packages[COMES_WITH.get(name, name)][0]) in asked, name


def test_public_names_load_torch_and_nothing_that_is_for_commands(seen):
    assert "torch" not in seen["imported"]  # which takes seconds, in which a command must hear Ctrl-C
    assert "torch" in seen["loaded"]
    assert not FOR_COMMANDS & set(seen["loaded"])


@pytest.mark.parametrize("extra", sorted(COMMANDS))
def test_without_an_extra_its_command_names_it_in_a_sentence(seen, extra):
    code, said = seen["refusals"][extra]
    assert code == 2
    assert said.count("\n") == 1
    assert f"shadowmetric[{extra}]" in said


def test_files_that_do_not_import_there_miss_a_package_of_an_extra(seen):
    packages, missing = importlib.metadata.packages_distributions(), seen["missing"]
    of_extras = {
        canonicalize_name(Requirement(line).name)
        for extra, lines in PROJECT["optional-dependencies"].items()
        for line in lines
        if extra not in ("peers", "all")  # a benchmark says of a peer that it is not installed
    }
    for lacked in set(missing.values()):
        assert canonicalize_name(packages[COMES_WITH.get(lacked, lacked)][0]) in of_extras, missing
    for name in ("lightning", "pytorch_metric_learning", "sentence_transformers", "transformers"):
        assert missing[f"shadowmetric.integrations.{name}"] == name  # the error names the package, and so the extra
    rooms = ("integrations", "app.report", "app.serving", "app.data")
    assert all(name.removeprefix("shadowmetric.").startswith(rooms) for name in missing), missing


@pytest.fixture(scope="module")
def worked_in(with_app, tmp_path_factory):
    """A folder with a run, images and their index, which commands alone made."""
    folder = tmp_path_factory.mktemp("worked in")
    features(with_app, "app", folder)
    return folder


@pytest.mark.extras
def test_the_app_alone_trains_evaluates_indexes_searches_and_verifies(worked_in):
    assert (worked_in / "images.shadowmx").exists()


@pytest.mark.extras
@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if extra != "app"])
def test_an_extra_alone_does_what_it_is_for(extra, wheel, worked_in, tmp_path, request):
    place, versions = tmp_path / "environment", tmp_path / "versions.txt"
    here = {found.name: found.version for found in importlib.metadata.distributions()}
    versions.write_text("\n".join(pinned({name: of for name, of in here.items() if name != "shadowmetric"})))
    uv("venv", "--python", sys.executable, place)
    install = ("pip", "install", "--python", place, "--link-mode", "hardlink", "--constraint", versions)
    uv(*install, f"shadowmetric[{extra}] @ {wheel.as_uri()}")
    more = {"POSTGRES_ADDRESS": request.getfixturevalue("postgres_table")} if extra == "postgres" else {}
    features(place, extra, worked_in, **more)
