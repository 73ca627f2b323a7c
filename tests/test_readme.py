"""What the README says is run: its Python blocks, in order, and the demo that it names."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_s_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    exec("\n".join(blocks), {})


def test_the_demo_runs_and_shows_the_control_beside_shadow():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "first_loss.py"], capture_output=True, text=True, check=True
    )
    shadow, control = (re.findall(r"0\.\d{3}", line) for line in done.stdout.splitlines()[1:3])
    assert len(shadow) == len(control) == 4
    assert float(shadow[-1]) > float(shadow[0]) + 0.1  # it has learnt
    assert float(control[-1]) > float(control[0]) + 0.1
