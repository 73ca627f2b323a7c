"""The one rule of the house: an import may only point to the left.

    {types | checks | errors | progress} <- ops <- mining <- losses <- {batches | evaluation} <- integrations <- app
    inside app: {data | models} <- training <- {compare | serving | doctor} <- report <- cli

Runtime imports nothing of ours, and everybody may import it. What is beside the library in a clone (paper, benchmarks,
tools) imports it, and is imported by nothing in it.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import shadowmetric

HOUSE = Path(shadowmetric.__file__).parent
CLONE = Path(__file__).parent.parent
ORDER = [
    {"runtime"},
    {"types", "errors", "progress"},
    {"checks"},
    {"ops"},
    {"mining"},
    {"losses"},
    {"batches", "evaluation"},
    {"integrations"},
    {"app.data", "app.models"},
    {"app.training"},
    {"app.compare", "app.serving", "app.doctor"},
    {"app.report"},
    {"app.cli"},
]
PLACE = {room: place for place, rooms in enumerate(ORDER) for room in rooms}
LIBRARY = ("types", "errors", "progress", "checks", "ops", "mining", "losses", "batches", "evaluation")
BESIDE = ("paper", "benchmarks", "tools")  # in a clone, not in the wheel
MOST_FILES = 16  # of a folder, besides its __init__.py
ALLOWED_EVERYWHERE = {"__version__"}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "misc", "base", "manager"}
FILES = sorted(HOUSE.rglob("*.py"))
BESIDE_FILES = sorted(path for folder in BESIDE for path in (CLONE / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(HOUSE if path.is_relative_to(HOUSE) else CLONE))


def room_of(parts: tuple[str, ...]) -> str:
    """Return the room of a path or a module below shadowmetric."""
    names = [part.removesuffix(".py") for part in parts]
    return ".".join(names[:2]) if names[0] == "app" and len(names) > 1 else names[0]


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever it does so, by their whole names or beginning with a dot."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom) and node.module in ("shadowmetric", "shadowmetric.app"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in ALLOWED_EVERYWHERE)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def packages_of(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path) if not name.startswith(".")}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_an_import_points_to_the_left(path):
    room = room_of(path.relative_to(HOUSE).parts)
    names = list(imports_of(path))
    assert not set(BESIDE) & packages_of(path), "what is beside the library is not in the wheel"
    if room in ("__init__", "__main__", "app.__init__"):
        return
    assert room in PLACE, f"{room} is no room of the house; add it to the order in this test and to CONTRIBUTING.md"
    if room == "runtime":  # its files are copied to devices that have nothing else
        assert not [name for name in names if name.startswith(("..", "shadowmetric"))], "reaches out of its room"
        return
    assert not [name for name in names if name.startswith(".")], "write imports from the top, not relative ones"
    others = {room_of(tuple(name.split(".")[1:])) for name in names if name.startswith("shadowmetric.")}
    for other in others - {room}:
        assert PLACE[other] < PLACE[room], f"{room} imports from {other}, which is not to its left"


@pytest.mark.parametrize("path", [*FILES, *BESIDE_FILES], ids=name_of)
def test_files_are_named_for_what_they_hold_and_say_so_first(path):
    assert path.stem not in FORBIDDEN_NAMES
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


LIBRARY_FILES = [path for path in FILES if room_of(path.relative_to(HOUSE).parts) in LIBRARY]
TORCH_AND_NUMPY = {"torch", "numpy", "shadowmetric"}
FOR_CHECKERS = {"types.py": {"jaxtyping"}, "ops/triton_ops.py": {"triton"}}  # names of shapes; a part of torch on Linux


@pytest.mark.parametrize("path", LIBRARY_FILES, ids=name_of)
def test_the_library_needs_torch_and_numpy_alone(path):
    allowed = TORCH_AND_NUMPY | set(sys.stdlib_module_names) | FOR_CHECKERS.get(name_of(path), set())
    assert packages_of(path) <= allowed


ON_A_DEVICE = set(sys.stdlib_module_names) | {"numpy", "onnxruntime", "PIL"}


@pytest.mark.parametrize("path", sorted((HOUSE / "runtime").glob("*.py")), ids=name_of)
def test_the_runtime_imports_what_a_small_device_has(path):
    assert packages_of(path) <= ON_A_DEVICE


def test_no_folder_of_the_program_holds_more_files_than_one_can_look_through():
    program = [path for path in FILES if path.is_relative_to(HOUSE / "app")]
    counts = Counter(path.parent for path in program if path.name != "__init__.py")
    assert {name_of(folder): count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_no_folder_is_named_as_a_function_of_its_package():
    """A folder below a package becomes an attribute of it, and would take the place of a function of that name."""
    for path in FILES:
        if path.name == "__init__.py":
            nodes = ast.parse(path.read_text(encoding="utf-8")).body
            functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            beside = {one.stem for one in path.parent.iterdir() if one.is_dir() or one.suffix == ".py"}
            assert not functions & beside, name_of(path)


LIBRARIES = {"pytorch_metric_learning", "sentence_transformers", "lightning", "transformers"}
ALSO = ("app/doctor/devices/contenders.py",)  # times a step beside the peer's


@pytest.mark.parametrize("path", sorted((HOUSE / "integrations").glob("*.py")), ids=name_of)
def test_an_integration_is_short(path):
    assert code_lines(path) <= 100


def code_lines(path: Path) -> int:
    """Return how many lines of a file are code: not empty, no comment, no docstring."""
    text = path.read_text()
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = [node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, kinds) and ast.get_docstring(node)]
    said = {line for node in first for line in range(node.lineno, node.end_lineno + 1)}
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and number not in said for number, line in lines)


def test_a_library_that_is_integrated_is_imported_by_its_integration_alone():
    for path in FILES:
        if room_of(path.relative_to(HOUSE).parts) != "integrations" and name_of(path) not in ALSO:
            assert not packages_of(path) & LIBRARIES, path
