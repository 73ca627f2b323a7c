"""The one rule of the house: an import may only point to the left."""

import ast
import sys
from pathlib import Path

import pytest

import shadowmetric

HOUSE = Path(shadowmetric.__file__).parent
ORDER = [
    {"device"},
    {"types", "mistakes"},
    {"checks"},
    {"ops"},
    {"mining"},
    {"losses"},
    {"batches", "data", "models", "evaluation"},
    {"integrations"},
    {"training"},
    {"bench", "experiments", "serving"},
    {"report"},
    {"cli"},
]
PLACE = {room: place for place, rooms in enumerate(ORDER) for room in rooms}
ALLOWED_EVERYWHERE = {"__version__"}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "misc", "base", "manager"}
FILES = sorted(HOUSE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level and room_of(path) == "device":  # its files are copied to devices that have nothing else
                assert node.level == 1, f"{path}: reaches out of the device room"
                continue
            assert node.level == 0, f"{path}: write imports from the top, not relative ones"
            names = [node.module or ""]
            if node.module == "shadowmetric":
                names = [f"shadowmetric.{alias.name}" for alias in node.names if alias.name not in ALLOWED_EVERYWHERE]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("shadowmetric.")}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_an_import_points_to_the_left(path):
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert room in PLACE, f"{room} is no room of the house; add it to the order in this test and to CONTRIBUTING.md"
    for other in imported_rooms(path) - {room}:
        assert PLACE[other] < PLACE[room], f"{path.name} in {room} imports from {other}, which is not to its left"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_files_are_named_for_what_they_hold_and_say_so_first(path):
    assert path.stem not in FORBIDDEN_NAMES
    assert ast.get_docstring(ast.parse(path.read_text()))


ON_A_DEVICE = set(sys.stdlib_module_names) | {"numpy", "onnxruntime", "PIL"}


@pytest.mark.parametrize("path", sorted((HOUSE / "device").glob("*.py")), ids=lambda path: path.name)
def test_the_device_room_imports_what_a_small_device_has(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        assert {name.split(".")[0] for name in names} <= ON_A_DEVICE


LIBRARIES = ("pytorch_metric_learning", "sentence_transformers", "lightning", "transformers")
ALSO = {"bench"}  # measures the peers


def code_lines(path: Path) -> int:
    """Return how many lines of a file are code: not empty, no comment, no docstring."""
    text = path.read_text()
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = [node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, kinds) and ast.get_docstring(node)]
    said = {line for node in first for line in range(node.lineno, node.end_lineno + 1)}
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and number not in said for number, line in lines)


@pytest.mark.parametrize("path", sorted((HOUSE / "integrations").glob("*.py")), ids=lambda path: path.name)
def test_an_integration_is_short(path):
    assert code_lines(path) <= 80


def test_a_library_that_is_integrated_is_imported_by_its_integration_alone():
    for path in FILES:
        if room_of(path) in {"integrations", *ALSO}:
            continue
        nodes = ast.walk(ast.parse(path.read_text()))
        names = [
            name
            for node in nodes
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        ]
        assert not {name.split(".")[0] for name in names} & set(LIBRARIES), path
