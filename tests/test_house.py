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
from functools import cache
from pathlib import Path

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


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return the modules that a file imports, wherever it does so, by their whole names or beginning with a dot."""
    return tuple(walk_imports(tree_of(path)))


def walk_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
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


def why_not_to_the_left(path: Path) -> str | None:
    """Return what is wrong with the imports of a file, if anything."""
    room, names = room_of(path.relative_to(HOUSE).parts), imports_of(path)
    others = {room_of(tuple(name.split(".")[1:])) for name in names if name.startswith("shadowmetric.")} - {room}
    if set(BESIDE) & packages_of(path):
        return "what is beside the library is not in the wheel"
    if room in ("__init__", "__main__", "app.__init__"):
        return None
    if room == "runtime":  # its files are copied to devices that have nothing else
        return "reaches out of its room" if any(name.startswith(("..", "shadowmetric")) for name in names) else None
    if room not in PLACE:
        return f"{room} is no room of the house; add it to the order in this test and to CONTRIBUTING.md"
    if any(name.startswith(".") for name in names):
        return "write imports from the top, not relative ones"
    right = sorted(other for other in others if PLACE[other] >= PLACE[room])
    return f"{room} imports from {', '.join(right)}, which is not to its left" if right else None


def test_an_import_points_to_the_left():
    reasons = {name_of(path): why_not_to_the_left(path) for path in FILES}
    assert {name: reason for name, reason in reasons.items() if reason} == {}


def test_files_are_named_for_what_they_hold_and_say_so_first():
    files = [*FILES, *BESIDE_FILES]
    assert [name_of(path) for path in files if path.stem in FORBIDDEN_NAMES] == []
    assert [name_of(path) for path in files if not ast.get_docstring(tree_of(path))] == []


LIBRARY_FILES = [path for path in FILES if room_of(path.relative_to(HOUSE).parts) in LIBRARY]
TORCH_AND_NUMPY = {"torch", "numpy", "shadowmetric"} | set(sys.stdlib_module_names)
FOR_CHECKERS = {"types.py": {"jaxtyping"}, "ops/triton_ops.py": {"triton"}}  # names of shapes; a part of torch on Linux
ON_A_DEVICE = {"numpy", "onnxruntime", "PIL"} | set(sys.stdlib_module_names)


def test_the_library_needs_torch_and_numpy_alone():
    more = {name_of(path): packages_of(path) - TORCH_AND_NUMPY for path in LIBRARY_FILES}
    assert {name: packages for name, packages in more.items() if packages - FOR_CHECKERS.get(name, set())} == {}


def test_the_runtime_imports_what_a_small_device_has():
    more = {path.name: packages_of(path) - ON_A_DEVICE for path in (HOUSE / "runtime").glob("*.py")}
    assert more
    assert {name: packages for name, packages in more.items() if packages} == {}


def test_no_folder_of_the_program_holds_more_files_than_one_can_look_through():
    program = [path for path in FILES if path.is_relative_to(HOUSE / "app")]
    counts = Counter(path.parent for path in program if path.name != "__init__.py")
    assert {name_of(folder): count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_no_folder_is_named_as_a_function_of_its_package():
    """A folder below a package becomes an attribute of it, and would take the place of a function of that name."""
    for path in FILES:
        if path.name == "__init__.py":
            functions = {node.name for node in tree_of(path).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            beside = {one.stem for one in path.parent.iterdir() if one.is_dir() or one.suffix == ".py"}
            assert not functions & beside, name_of(path)


LIBRARIES = {"pytorch_metric_learning", "sentence_transformers", "lightning", "transformers"}
ALSO = ("app/doctor/devices/contenders.py",)  # times a step beside the peer's


def test_an_integration_is_short():
    counts = {path.name: code_lines(path) for path in (HOUSE / "integrations").glob("*.py")}
    assert counts
    assert {name: count for name, count in counts.items() if count > 100} == {}


def code_lines(path: Path) -> int:
    """Return how many lines of a file are code: not empty, no comment, no docstring."""
    text = path.read_text()
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = [node.body[0] for node in ast.walk(tree_of(path)) if isinstance(node, kinds) and ast.get_docstring(node)]
    said = {line for node in first for line in range(node.lineno, node.end_lineno + 1)}
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and number not in said for number, line in lines)


def test_a_library_that_is_integrated_is_imported_by_its_integration_alone():
    for path in FILES:
        if room_of(path.relative_to(HOUSE).parts) != "integrations" and name_of(path) not in ALSO:
            assert not packages_of(path) & LIBRARIES, path
