"""Losses over whole rows and over centres in compiled graphs: one graph, eager's values, no recompilation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compiled_rows import CASES


@pytest.fixture(scope="module")
def errors():
    """Return the errors of all cases, from one process in which no function is wrapped by a type checker."""
    program = Path(__file__).parent.parent / "compiled_rows.py"
    ran = subprocess.run([sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.xdist_group("compiled_rows")
@pytest.mark.parametrize("case", CASES)
def test_a_compiled_loss_is_the_loss(case, errors):
    assert case not in errors, errors[case]
