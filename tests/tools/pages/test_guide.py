"""The guide says what the records say, in its tables and in its prose."""

import re
from pathlib import Path

from made_records import like_the_paper, made_record

from shadowmetric.app.report.tables import as_markdown
from tools.pages.guide import (
    format_change,
    guide_tables,
    losses_table,
    miners_table,
    over_seeds,
    peers_table,
    photographs_table,
    recipe_table,
    step_table,
)
from tools.pages.results import MARKS, records_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")


def parts_of(page):
    """Return the prose of the page and its tables."""
    begin, end = (mark.format("guide") for mark in MARKS)
    before, _, rest = page.partition(begin)
    tables, _, after = rest.partition(end)
    return re.sub(r"```.*?```", "", before + after, flags=re.DOTALL), tables


def test_every_figure_of_the_prose_stands_in_a_table_or_in_the_log():
    prose, tables = parts_of(PAGE)
    log = (ROOT / "LOG.md").read_text(encoding="utf-8")
    figures = set(re.findall(r"(?<![\w./])\d+\.\d+(?![\w/])", prose))
    assert len(figures) > 20
    for figure in figures:
        known = re.compile(rf"(?<![\d.]){re.escape(figure)}(?!\d)")
        assert known.search(tables) or known.search(log), f"choosing.md says {figure}, and no row does"


def test_each_section_that_is_linked_is_a_table():
    prose, tables = parts_of(PAGE)
    titles = re.findall(r"^### (.*)$", tables, re.MULTILINE)
    assert titles == [table.title for table in guide_tables(ROOT, records_of(ROOT / "paper/records/small"))]
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    linked = set(re.findall(r"\]\(#([^)]*)\)", prose))
    assert linked == anchors


def test_each_piece_of_advice_names_its_table():
    rows = [line for line in parts_of(PAGE)[0].splitlines() if line.startswith("|")][2:]
    assert len(rows) > 8
    assert [row for row in rows if "](#" not in row.split("|")[4]] == []


def test_losses_are_means_over_seeds_of_both_files():
    known = [
        {"name": name, "kind": kind, "seed": str(seed), "recall_at_1": str(value), "map_at_r": "0.5", "accuracy": ""}
        for name, kind, values in (("shadow", "loss", (0.8, 0.9)), ("raw_pixels", "floor", (0.7, 0.7)))
        for seed, value in enumerate(values)
    ]
    new = [dict(row, recall_at_1="0.25") for row in known if row["name"] == "shadow"]
    table = losses_table(known, new)
    assert table.rows == (
        ("Shadow", "85.00 ± 7.07", "50.00", "–", "25.00", "50.00"),
        ("raw pixels", "70.00", "50.00", "–", "–", "–"),
    )
    assert table.kinds == ("loss", "floor")
    assert over_seeds(known, "nobody", "recall_at_1") == "–"


def test_photographs_are_beside_the_untrained_embedder():
    record = made_record("cub200", untrained={"recall_at_1": [0.1, 0.1]}, shadow={"recall_at_1": [0.2, 0.2]})
    shadow, untrained = sorted(photographs_table(record).rows)
    assert shadow == ("Shadow", "20.00", "–", "+10.00 (+10.00 to +10.00)")
    assert untrained == ("untrained", "10.00", "–", "–")


def test_miners_are_the_ways_that_have_a_record():
    record = made_record("fashion_mnist", **like_the_paper(gain=-0.06))
    (row,) = miners_table({"way-free": record}).rows
    assert row[:6] == ("free rows", "3", "44.00 ± 0.10", "50.00 ± 0.10", "–", "–")
    assert (ROOT / "docs" / re.search(r"\((.*)\)", row[6])[1]).exists()


def test_changes_of_a_recipe_are_beside_its_middle():
    rows = [
        ("as it is", 0.5),
        ("learning_rate=0.1 head_learning_rate=0.1", 0.45),
        ("learning_rate=0.1 head_learning_rate=0.2", 0.4),
    ]
    found = [{"change": change, "validation_recall_at_1": str(value)} for change, value in rows]
    table = recipe_table("Title", "recipe-scratch.csv", found, "the data")
    assert table.rows == (
        ("none: the middle", "50.0", "+0.0"),
        ("learning rate 0.1", "45.0", "−5.0"),
        ("learning rate 0.1 head learning rate 0.2", "40.0", "−10.0"),
    )
    assert format_change("miner=batch_hard") == "batch-hard mining"


def test_memory_is_said_in_units_that_people_use():
    step = {
        "contender": "cached",
        "batch": "2048",
        "size": "64",
        "micro_batch": "32",
        "peak_extra_mb": "881.9",
        "images_per_second": "6",
    }
    assert step_table([step]).rows == (("2048", "64", "`cached_backward`, 32 at a time", "0.88 GB", "6.0"),)
    peer = {"contender": "pml", "batch": "4096", "dim": "128", "total_ms": "8336.8", "peak_extra_mb": "3798.9"}
    table = peers_table([peer])
    assert table.rows == (("pytorch-metric-learning", "8,337 ms", "3,799 MB"),)
    assert "4,096 rows of 128" in as_markdown(table)
