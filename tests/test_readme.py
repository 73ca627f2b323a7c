"""What the README and the documentation say is run: their Python blocks, in order, and the example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("page", "least"), [("README.md", 2), ("docs/evaluation.md", 1), ("docs/training.md", 1), ("docs/serving.md", 1)]
)
def test_the_code_of_a_page_runs(page, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert len(blocks) >= least
    exec("\n".join(blocks), {})


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=str
)
def test_links_between_files_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / link).exists(), f"{page} links to {link}"


def test_the_example_runs_and_shows_the_control_beside_shadow():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "first_loss.py"], capture_output=True, text=True, check=True
    )
    shadow, control = (re.findall(r"0\.\d{3}", line) for line in done.stdout.splitlines()[1:3])
    assert len(shadow) == len(control) == 4
    assert float(shadow[-1]) > float(shadow[0]) + 0.1  # it has learnt
    assert float(control[-1]) > float(control[0]) + 0.1
