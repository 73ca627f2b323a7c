"""Every loss in a compiled graph: one graph, eager's values and gradients, and no second one for other labels."""

import json
import subprocess
import sys
from pathlib import Path

import compiled_mined
import compiled_rows
import pytest

PROGRAMS = {"mined": compiled_mined, "rows": compiled_rows}
ERRORS: dict[str, dict[str, str]] = {}


def errors_of(program: str) -> dict[str, str]:
    """Return the errors of all cases, from one process in which no function is wrapped by a type checker."""
    if program not in ERRORS:
        command = [sys.executable, "-W", "ignore", str(Path(PROGRAMS[program].__file__))]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        ERRORS[program] = json.loads(ran.stdout)
    return ERRORS[program]


@pytest.mark.parametrize("case", compiled_mined.CASES)
def test_a_compiled_loss_of_triplets_is_the_loss(case):
    assert case not in errors_of("mined"), errors_of("mined")[case]


@pytest.mark.parametrize("case", compiled_rows.CASES)
def test_a_compiled_loss_of_rows_is_the_loss(case):
    assert case not in errors_of("rows"), errors_of("rows")[case]
