"""What `make dist` makes: the same bytes everywhere, all that is needed and no more, one version in every place."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from email.parser import HeaderParser
from pathlib import Path

import pytest
import yaml

import shadowmetric
from shadowmetric.app.cli import main

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
NOT_SOURCE = shutil.ignore_patterns(".*_cache", ".git", ".hypothesis", ".venv", "__pycache__")
MADE_HERE = {"dist", "runs", "site"}  # folders at the top of a checkout
NAME = f"shadowmetric-{shadowmetric.__version__}"
NOT_IN_THE_SDIST = {".ci/run"}  # what starts these tests


def build(project: Path, *kinds: str) -> dict[str, Path]:
    """Build in a project without a network; return the files by their ends."""
    words = [sys.executable, "-m", "hatchling", "build", *(word for kind in kinds for word in ("-t", kind))]
    known = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(words, cwd=project, env=known, check=True, capture_output=True)
    return {path.suffix: path for path in (project / "dist").iterdir()}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project, so that nobody changes it meanwhile."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        return set(NOT_SOURCE(folder, names)) | (MADE_HERE & set(names) if Path(folder) == ROOT else set())

    return shutil.copytree(ROOT, tmp_path_factory.mktemp("a") / "project", ignore=left_out)


@pytest.fixture(scope="module")
def built(project):
    return build(project)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_another_checkout_gives_the_same_bytes_whatever_lies_in_it(built, project, tmp_path):
    other = tmp_path / "a checkout elsewhere"
    shutil.copytree(project, other, ignore=shutil.ignore_patterns("dist"), copy_function=shutil.copy)  # dated now
    for path in other.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
    for stray in ("runs/mine/weights.safetensors", "photos/cat.jpg", "photos.shadowmx", "src/shadowmetric/a.pyc"):
        (other / stray).parent.mkdir(parents=True, exist_ok=True)
        (other / stray).write_bytes(b"private")
    again = build(other)
    assert {kind: digest(path) for kind, path in again.items()} == {kind: digest(path) for kind, path in built.items()}


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built[".gz"]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    assert digest(build(tmp_path / NAME, "wheel")[".whl"]) == digest(built[".whl"])


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(built, project):
    assert built[".whl"].name == f"{NAME}-py3-none-any.whl"  # no compiler, any machine
    source = project / "src"
    package = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    with zipfile.ZipFile(built[".whl"]) as wheel:
        assert set(wheel.namelist()) == package | {f"{NAME}.dist-info/{name}" for name in about}
    for needed in (
        "app/data/datasets/digits.npz",
        "app/data/datasets/glyphs.npz",
        "app/report/page/page.html.jinja",
        "py.typed",
    ):
        assert f"shadowmetric/{needed}" in package


def test_the_sdist_holds_all_that_git_knows(built):
    with tarfile.open(built[".gz"]) as sdist:
        inside = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}
    assert {"LICENSE", "CITATION.cff", "PKG-INFO", "Makefile", "tests/reference.py", "docs/training.md"} <= inside
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    here = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    assert here - inside == NOT_IN_THE_SDIST


def test_the_metadata_say_what_an_index_shows(built):
    with zipfile.ZipFile(built[".whl"]) as wheel:
        metadata = HeaderParser().parsestr(wheel.read(f"{NAME}.dist-info/METADATA").decode())
        commands = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode()
    assert metadata["Name"] == "shadowmetric"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert "shadowmetric = shadowmetric.app.cli:main" in commands


def test_there_is_one_version(built, capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"{shadowmetric.__version__}\n"
    assert PROJECT["version"] == CITATION["version"] == shadowmetric.__version__
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest is not None
    assert latest[1] == shadowmetric.__version__


def test_the_changelog_has_sections_and_says_each_thing_once():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    bullets = [line for line in lines if line.startswith("- ")]
    assert sorted(line for line, count in Counter(bullets).items() if count > 1) == []
    assert lines[lines.index("## 0.1.0 (unreleased)") + 2].startswith("### ")


def test_the_citation_names_the_software_and_the_paper():
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "license", "version"} <= set(CITATION)
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["keywords"] == PROJECT["keywords"]
    [holder] = re.findall(r"Copyright \(c\) \d{4} (.*)", (ROOT / "LICENSE").read_text())
    assert CITATION["authors"] == [{"name": holder}]
    [paper] = CITATION["references"]
    assert paper["url"].endswith("/2311.14012")
    assert [author["family-names"] for author in paper["authors"]] == ["Khan", "Hasan", "Anjum", "Mohammed"]
    assert all(set(author) == {"family-names", "given-names"} for author in paper["authors"])
    assert {"type", "title", "authors"} <= set(paper)  # what the format asks of a reference
