"""Build the documentation site, offline: docs/*.md, and whatever they link to in the repository.

    make docs        (python tools/make_site.py [OUT], site/ if it is not said)

Zensical builds what lies in one folder, and pages link to code, tests and results outside of docs/. So the pages are
first copied into a folder of their own, with every linked file as a page below files/ (large ones and data as they
are), and links are rewritten to lead there. Files that those pages link to follow, until there are no more.

What comes out fetches nothing from elsewhere and opens from a folder too, search included. Some seconds.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".csv": "text", ".cff": "yaml", ".js": "javascript"}
MOST_SHOWN = 60_000  # bytes of a file that becomes a page; what is larger is copied as it is
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
SHIM = re.compile(r"https://[\w.]+/iframe-worker/shim")  # what zensical's search asks for when a page is a local file


def outside_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Return each line, and whether it is prose: not a line of a fenced block."""
    fence = ""
    for line in text.splitlines(keepends=True):
        match = FENCE.match(line)
        if not fence and match:
            fence = match[1]
            yield line, False
        else:
            yield line, not fence
            if fence and line.strip() == fence:
                fence = ""


class Assembly:
    """The folder that zensical builds: pages as they are linked from one another."""

    def __init__(self, folder: Path):
        self.docs = folder / "docs"
        self.placed: dict[Path, str] = {}  # file of the repository -> its page, below docs/
        self.waiting: list[Path] = []
        for name in ("images", "assets"):
            shutil.copytree(DOCS / name, self.docs / name)
        (folder / "tools").mkdir()
        shutil.copyfile(ROOT / "tools" / "listed_parameters.py", folder / "tools" / "listed_parameters.py")
        for page in sorted(DOCS.glob("*.md")):
            self.placed[page] = page.name
            self.waiting.append(page)
        while self.waiting:
            self.write(self.waiting.pop())

    def place_of(self, file: Path) -> str:
        """Return where a file of the repository is on the site, and see to it that it gets there."""
        if file not in self.placed:
            path = file.relative_to(ROOT).as_posix()
            if file.is_dir():
                self.placed[file] = f"files/{path}/index.md"
            elif file.suffix == ".md":
                self.placed[file] = f"files/{path}"
            elif is_page(file):
                self.placed[file] = f"files/{path}.md"
            else:
                self.placed[file] = f"files/{path}"
            self.waiting.append(file)
        return self.placed[file]

    def write(self, file: Path) -> None:
        """Write the page of a file."""
        place = self.docs / self.placed[file]
        place.parent.mkdir(parents=True, exist_ok=True)
        path = file.relative_to(ROOT).as_posix()
        if file.is_dir():
            names = (f"- [`{one.name}`]({one.name})" for one in list_entries(file))
            text = "".join([page_head(path), f"# {path}\n\n", "\n".join(names), "\n"])
            place.write_text(self.linked(text, file, here=file), encoding="utf-8")
        elif file.suffix == ".md":
            text = self.linked(file.read_text(encoding="utf-8"), file, here=file.parent)
            place.write_text(text if file.parent == DOCS else page_head(path) + text, encoding="utf-8")
        elif is_page(file):
            code = file.read_text(encoding="utf-8").rstrip()
            language = LANGUAGES.get(file.suffix, "text")
            text = f"{page_head(path)}# {file.name}\n\n`{path}`\n\n~~~~~~{language}\n{code}\n~~~~~~\n"
            place.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(file, place)

    def linked(self, text: str, file: Path, here: Path) -> str:
        """Return a page's text with its links leading to places on the site."""
        start = os.path.dirname(self.placed[file])

        def moved(match: re.Match[str]) -> str:
            opening, address, anchor, closing = match[1], match[2], match[3] or "", match[4]
            target = Path(os.path.normpath(here / address))
            if ":" in address or not target.exists() or not target.is_relative_to(ROOT):
                return match[0]
            if target.is_relative_to(DOCS) and target.is_file() and target.suffix not in (".md", ".py"):
                place = target.relative_to(DOCS).as_posix()  # images, which are there already
            else:
                place = self.place_of(target)
            return f"{opening}{os.path.relpath(place, start or '.')}{anchor}{closing}"

        return "".join(LINK.sub(moved, line) if prose else line for line, prose in outside_fences(text))


def is_page(file: Path) -> bool:
    """Return whether a file is shown as a page, with its code in colors."""
    known = file.suffix in LANGUAGES or file.name in ("Makefile", "LICENSE")
    return known and file.stat().st_size <= MOST_SHOWN


def list_entries(folder: Path) -> list[Path]:
    """Return what a folder's page names."""
    return sorted(one for one in folder.iterdir() if one.name[0] not in "._" or one.name == "__init__.py")


def page_head(path: str) -> str:
    """Return the head of a page that is a file of the repository: found by links, not by searching."""
    return f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n"


def build(out: Path) -> None:
    """Build the site into a folder, which is replaced."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        Assembly(folder)
        (folder / "src").symlink_to(ROOT / "src")
        shutil.copyfile(ROOT / "zensical.toml", folder / "zensical.toml")
        command = [sys.executable, "-m", "zensical", "build"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode or not (folder / "site" / "index.html").exists():
            raise SystemExit(f"zensical did not build the site:\n{done.stdout}{done.stderr}")
        for page in (folder / "site").rglob("*.html"):
            shim = os.path.relpath(folder / "site" / "assets" / "worker.js", page.parent)
            page.write_text(SHIM.sub(shim, page.read_text(encoding="utf-8")), encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "site", out)


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    build(place)
    print(f"The site is {place.resolve() / 'index.html'}")
