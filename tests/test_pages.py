"""What README, documentation and docstrings say is run: Python in order, commands as far as their options, links.

All Python blocks of a page run in one namespace, in an empty folder; warnings are errors. What can't run here says so
where it stands (```python title="not run: the reason"), and is counted. Commands are parsed, not run.
"""

import ast
import doctest
import importlib.util
import json
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
import tomllib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from cyclopts.exceptions import MissingArgumentError
from markdown.extensions.toc import slugify
from PIL import Image

import benchmarks.command
import paper.command
from shadowmetric.app.cli import command_line, main
from shadowmetric.app.cli.config import without_config

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
CODE = [
    *(ROOT / "src").rglob("*.py"),
    *ROOT.glob("examples/*.py"),
    *(path for folder in ("paper", "benchmarks", "tools") for path in (ROOT / folder).rglob("*.py")),
]
SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in CODE)
NOT_RUN = {"docs/tensorflow-addons.md": 1}  # page or file: blocks
FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
READ = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads, "text": str}
ELSEWHERE = (".", "pip", "uv", "git", "cd", "curl", "wrk")  # commands that are not ours
BESIDE = {"benchmarks": benchmarks.command.command_line, "paper": paper.command.command_line}  # in a clone
OURS = ("shadowmetric", "python", "make", "pip")  # that the running text may name


class Block(NamedTuple):
    """A fenced block."""

    kind: str
    title: str
    text: str
    line: int  # of its first line, from 0

    @property
    def runs(self) -> bool:
        return self.kind == "python" and not self.title.startswith("not run: ")


def blocks_of(text: str) -> list[Block]:
    found, fence, lines = [], None, []
    for number, line in enumerate(text.splitlines()):
        match = FENCE.match(line)
        if fence is None and match:
            fence, lines = (match, number + 1), []
        elif fence is not None and match and match[2] == fence[0][2] and not match[3]:
            kind, _, rest = fence[0][3].partition(" ")
            title = re.search(r'title="([^"]*)"', rest)
            indent = len(fence[0][1])
            found.append(Block(kind, title[1] if title else "", "\n".join(one[indent:] for one in lines), fence[1]))
            fence = None
        elif fence is not None:
            lines.append(line)
    assert fence is None, f"the fence of line {fence[1]} is never closed"
    return found


def prose_of(text: str) -> str:
    """Return a page without its fenced blocks."""
    inside = {
        number for block in blocks_of(text) for number in range(block.line, block.line + block.text.count("\n") + 1)
    }
    return "\n".join("" if number in inside else line for number, line in enumerate(text.splitlines()))


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def run(blocks: list[Block], where: str, given: dict[str, Any] | None = None) -> None:
    names = {"__name__": "__main__"} | (given or {})
    for block in blocks:
        exec(compile("\n" * block.line + block.text, where, "exec"), names)


def docstrings_of(file: str) -> list[str]:
    tree = ast.parse(read(file))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return [text for text in found if text]


def a_run_and_photos() -> dict[str, Any]:
    """Train runs/birds on photos for a moment."""
    from shadowmetric.app.training.loop import train
    from shadowmetric.app.training.runs.settings import TrainSettings

    runpy.run_path(str(ROOT / "examples" / "product_search.py"))["draw_folder"](Path("photos"), 8)
    train(TrainSettings(data="folder:photos", epochs=1), Path("runs/birds"))
    for name, photo in (("photo.jpg", "red bowl/00.png"), ("other.jpg", "red bowl/01.png")):
        Image.open(Path("photos") / photo).save(name)
    return {}


def a_text_model() -> dict[str, Any]:
    """Return the names that the page on sentence-transformers makes before its own line, and that line's imports."""
    names: dict[str, Any] = {}
    page = [block for block in blocks_of(read("docs/sentence-transformers.md")) if block.runs]
    first = next(number for number, block in enumerate(page) if "SentenceLoss(" in block.text)
    for block in page[: first + 1]:
        exec(block.text, names)
    names["SentenceTransformerTrainer"] = partial(names["SentenceTransformerTrainer"], args=names["arguments"])
    return names


TAKEN_FOR_GRANTED = {
    "src/shadowmetric/integrations/sentence_transformers.py": a_text_model,
    "src/shadowmetric/app/serving/__init__.py": a_run_and_photos,
}
WITH_EXAMPLES = [file for file in SOURCES if any("```" in text or ">>>" in text for text in docstrings_of(file))]


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.runs for block in blocks_of(read(page)))])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run([block for block in blocks_of(read(page)) if block.runs], page)


@pytest.mark.parametrize("file", WITH_EXAMPLES)
def test_the_examples_of_docstrings_run(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = TAKEN_FOR_GRANTED.get(file, dict)()
    for text in docstrings_of(file):
        run([block for block in blocks_of(text) if block.runs], file, names)
        parsed = doctest.DocTestParser().get_doctest(text, {}, file, file, 0)
        assert doctest.DocTestRunner().run(parsed).failed == 0


def looks_like_code(text: str) -> bool:
    """Return whether a block is Python that makes or calls something: a formula is not."""
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(text))))
    except SyntaxError:
        return False
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    made = any(isinstance(call.func, ast.Attribute) or re.match("[A-Z]", ast.unparse(call.func)) for call in calls)
    return (
        made
        or any(call.keywords for call in calls)
        or any(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)
    )


def test_code_in_a_docstring_or_on_a_page_is_marked_as_code():
    for file in [*SOURCES, *PAGES]:
        for text in [read(file)] if file in PAGES else docstrings_of(file):
            for block in re.findall(r"(?:^ {4,}.*\n?)+", prose_of(text), re.MULTILINE):
                assert not looks_like_code(block), (
                    f"{file}: write ```python above and ``` below, so that it runs:\n{block}"
                )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("    loss = sm.ShadowLoss(0.2)", True),
        ("    module = MetricModule(embedder)", True),
        ("    import torch", True),
        ("    y = weight (x - mean) / sqrt(variance + eps) + bias", False),
        ("    loss = mean over rows of d", False),
    ],
)
def test_formulas_are_told_from_code(text, code):
    assert looks_like_code(text) == code


def test_only_these_blocks_do_not_run():
    left_out = {}
    for place in [*PAGES, *WITH_EXAMPLES]:
        found = [
            block for text in texts_of(place) for block in blocks_of(text) if block.kind == "python" and not block.runs
        ]
        left_out |= {place: len(found)} if found else {}
    assert left_out == NOT_RUN


def texts_of(place: str) -> list[str]:
    """Return a page, or the docstrings of a file."""
    return docstrings_of(place) if place.endswith(".py") else [read(place)]


@pytest.mark.parametrize("page", [*PAGES, *WITH_EXAMPLES])
def test_every_block_is_of_a_kind_that_is_read(page):
    for block in [block for text in texts_of(page) for block in blocks_of(text)]:
        assert block.kind in ("python", "console", *READ), f"{page}, line {block.line}: a fence of kind {block.kind!r}"
        if block.kind in READ:
            READ[block.kind](block.text)


@pytest.fixture(scope="module")
def app():
    return command_line()


def commands_of(text: str) -> list[str]:
    """Return the commands of console blocks, continued lines joined."""
    blocks = [block.text.replace("\\\n", " ") for block in blocks_of(text) if block.kind == "console"]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def inline_commands_of(text: str) -> list[str]:
    """Return the commands in the running text, but for those that leave words out."""
    found = re.findall(rf"(?<!`)`((?:{'|'.join(OURS)}) [^`\n]+)`", prose_of(text))
    return [command for command in found if not re.search(r"…| / |\||\.\.\.", command)]


def check_command(command: str, app) -> None:
    words = shlex.split(command, comments=True)
    while "=" in words[0]:  # VARIABLE=value before the command
        words.pop(0)
    program, rest = words[0].removeprefix(".venv/bin/"), words[1:]
    if program in ("torchrun", "accelerate"):
        assert "-m" in rest, f"{command}: starts no module"
        program, rest = "python", rest[rest.index("-m") :]
    if program == "python" and rest[:2] == ["-m", "shadowmetric"]:
        program, rest = "shadowmetric", rest[2:]
    if program == "shadowmetric":
        app.parse_args(without_config(rest)[0], exit_on_error=False, print_error=False)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE)
        assert set(word for word in rest if "=" not in word) <= set(targets), f"{command}: no such target"
    elif program == "python" and rest[:2] in [["-m", name] for name in BESIDE]:
        BESIDE[rest[1]]().parse_args(without_config(rest[2:])[0], exit_on_error=False, print_error=False)
    elif program == "python" and rest[0] == "-m":
        assert rest[1] == "device" or importlib.util.find_spec(rest[1]), f"{command}: no such module"
    elif program == "python" and rest[0] != "-c":
        assert (ROOT / rest[0]).is_file(), f"{command}: no such file"
    elif program in ("pip", "uv"):
        extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
        named = re.findall(r"(?:shadowmetric|\.)\[([\w,-]+)\]", command)
        assert {extra for names in named for extra in names.split(",")} <= set(extras), f"{command}: no such extra"
    else:
        assert program in (*ELSEWHERE, "python"), f"{command}: what is {program}?"


@pytest.mark.parametrize("page", [*PAGES, *WITH_EXAMPLES])
def test_commands_exist_with_their_options(page, app):
    for command in [command for text in texts_of(page) for command in commands_of(text)]:
        check_command(command, app)
    for command in [command for text in texts_of(page) for command in inline_commands_of(text)]:
        with suppress(MissingArgumentError):  # a command that is only mentioned
            check_command(command, app)


def test_the_commands_of_the_first_steps_run_and_say_what_the_page_says(tmp_path, monkeypatch, capsys):
    """The whole page, on the images that it names."""
    steps = runpy.run_path(str(ROOT / "tools" / "time_first_steps.py"))
    page = read("docs/first-steps.md")
    monkeypatch.chdir(tmp_path)
    steps["draw"](Path("photos"))
    said = ""
    for command in steps["commands"](page):
        program, *words = shlex.split(command)
        if program == "shadowmetric":
            with suppress(SystemExit):
                main(words)
            said += capsys.readouterr().out
    certain = re.findall(
        r"^(\d+ images: .*| *1\.000 .*|All \d+ images.*|No .*|Nothing is wrong.*)$", page, re.MULTILINE
    )
    assert len(certain) >= 5  # scores depend on the number of threads
    for line in certain:
        assert " ".join(line.split()) in " ".join(said.split())
    assert len(list(Path().glob("*.shadowmx"))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "shadowmetric train --epoch 3",
        "shadowmetric trian",
        "python -m benchmarks losses --epoch 3",
        "python -m paper memory --no-such",
        "shadowmetric train --epochs many",
        "torchrun --nproc-per-node 2 -m shadowmetric train --no-such",
        "make coffee",
        "python examples/nothing.py",
        "python -m shadowmetric_nothing",
        "pip install 'shadowmetric[nothing]'",
        "frobnicate",
    ],
)
def test_a_wrong_command_is_noticed(wrong, app):
    with pytest.raises(Exception, match=r"nothing|epoch|trian|no-such|frobnicate|coffee|many"):
        check_command(wrong, app)


def links_of(text: str) -> list[str]:
    bare = re.sub(r"(`+).+?\1", "", prose_of(text))
    return re.findall(r"\]\(([^)\s]+)\)", bare) + re.findall(r'(?:src|href)="([^"]+)"', bare)


def anchors_of(text: str) -> set[str]:
    bare = prose_of(text)
    titles = re.findall(r"^#+ +(.*?)\s*#*$", bare, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "") for title in titles]
    return {slugify(title, "-") for title in plain} | set(re.findall(r'id="([^"]+)"', bare))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in links_of(read(page)):
        address, _, anchor = link.partition("#")
        if ":" in address:
            continue
        target = (ROOT / page).parent / address if address else ROOT / page
        assert target.exists(), f"{page} links to {link}"
        if anchor and target.suffix == ".md":
            there = anchors_of(target.read_text(encoding="utf-8"))
            assert anchor in there, f"{page} links to {link}, and there are {sorted(there)}"


def test_pages_open_with_a_title():
    for page in PAGES:
        assert re.match(r"# \S", read(page)), page


def test_the_example_runs_and_shows_the_control_beside_shadow():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "first_loss.py"], capture_output=True, text=True, check=True
    )
    shadow, control = (re.findall(r"0\.\d{3}", line) for line in done.stdout.splitlines()[1:3])
    assert len(shadow) == len(control) == 4
    assert float(shadow[-1]) > float(shadow[0]) + 0.1  # it has learned
    assert float(control[-1]) > float(control[0]) + 0.1
