"""The figures of docs/memory.md are those of the code. The calculator itself is asked in test_make_site.py."""

import json
from pathlib import Path

import pytest
import torch

from shadowmetric.mining.classes import positive_pairs
from tools.pages.memory_page import SCRATCHES, files, format_bytes, formulas, loss_of, page, sizes_of

ROOT = Path(__file__).parents[3]


def test_the_files_are_what_the_code_says():
    for path, text in files(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old; run `make docs`"


def test_the_script_holds_every_formula_as_json():
    text = files(ROOT)[ROOT / "docs" / "assets" / "memory-formulas.js"]
    head, _, found = text.partition("window.MEMORY_FORMULAS = ")
    assert head.startswith("// Made by")
    assert json.loads(found.rstrip().removesuffix(";")) == json.loads(json.dumps(formulas()))


@pytest.mark.parametrize(("rows", "per_class"), [(20, 5), (23, 5), (7, 10), (9, 1)])
def test_pairs_are_those_of_such_a_batch(rows, per_class):
    labels = torch.arange(rows) // per_class
    assert sizes_of(loss_of("shadow"), rows, 8, per_class).positives == positive_pairs(labels)


def test_what_depends_on_the_scratch_is_written_for_each():
    phase = formulas()["losses"]["multi_similarity"]["miners"]["-"]["float32"]["phases"][0]
    assert phase["scratch"] == [size * 2**20 for size in SCRATCHES]
    assert phase["number"] == 8.0


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="no marks"):
        page("# A page")


@pytest.mark.parametrize(
    ("count", "words"),
    [(999, "999 bytes"), (1000, "1 kB"), (999_600, "1 MB"), (67_108_864, "67.1 MB"), (134e6, "134 MB")],
)
def test_bytes_are_said_in_three_digits(count, words):
    assert format_bytes(int(count)) == words
