"""Tables beside prose say what their rows say: ranges over files, ratios within a file, means over seeds."""

from pathlib import Path

import pytest

from shadowmetric.app.report.tables import as_markdown
from tools.pages.integration_tables import sentences_table, towers_table, trainers_table
from tools.pages.measured_tables import (
    beside_table,
    evaluation_table,
    format_memory,
    format_range,
    format_time,
    make_measured_tables,
)
from tools.pages.serving_tables import connections_table, load_table, parity_table

ROOT = Path(__file__).parents[3]


def step(contender, milliseconds, megabytes, *, batch=4096, dim=128, ratio=3.5, reason=""):
    told = {"contender": contender, "batch": str(batch), "dim": str(dim), "reason": reason}
    figures = {"total_ms": milliseconds, "peak_extra_mb": megabytes, "ratio_to_product": ratio}
    return told | {name: "" if value is None else str(value) for name, value in figures.items()}


def test_sizes_of_two_files_are_a_range_and_ratios_are_of_one_file():
    first = [step("ours", 50, 18.8), step("pml", 4000, 3800), step("st", 2500, 1200)]
    second = [
        step("ours", 100, 20.4, ratio=3.91),
        step("pml", 9000, 3801),
        step("pml", None, None, batch=8192, reason="skipped: needs about 15.0 GB, more"),
    ]
    rows = {row[:2]: row[2:] for row in beside_table([first, second]).rows}
    ours, pml, st, printed, product = rows["4,096", "128"]
    assert ours == "50 to 100 ms, 19 to 20 MB"
    assert pml == "4.0 to 9.0 s, 3.8 GB (80 to 90×)"  # 9000 / 50 would be of two runs
    assert st == "2.5 s, 1.2 GB (50×)"
    assert (printed, product) == ("", "3.50 to 3.91×")
    assert rows["8,192", "128"][1] == "skipped: needs about 15.0 GB"


@pytest.mark.parametrize(("value", "words"), [(4.62, "4.6 ms"), (57.9, "58 ms"), (999.0, "999 ms"), (8336.8, "8.3 s")])
def test_times_have_two_or_three_digits(value, words):
    assert format_time(value) == words


def test_ranges_that_read_alike_are_one_value():
    assert format_range([20.4, 19.9], format_memory) == "20 MB"
    assert format_range([], format_memory) == ""
    assert format_range([900.0, 2400.0], format_time) == "900 ms to 2.4 s"
    assert format_memory(1246.7) == "1.2 GB"


def test_the_largest_difference_of_a_figure_is_found():
    figures = dict.fromkeys(("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r"), "0.5")
    ours = {
        "rows": "200000",
        "dim": "128",
        "classes": "10",
        "total_s": "100",
        "peak_extra_mb": "246",
        "silhouette": "",
        "extrapolated": "False",
        "queries": "",
    } | figures
    peers = ours | {"total_s": "400", "extrapolated": "True", "queries": "2000", "recall_at_2": "0.500005"}
    (row,) = evaluation_table([ours, peers]).rows
    assert row == (
        "200,000 × 128, 10 (no silhouette)",
        "100 s, 246 MB",
        "400 s, extrapolated from 2,000 queries",
        "0.25×",
        "5e-06",
    )


def test_trainings_are_means_over_seeds_below_the_untrained_embedder():
    def rows(trainer, loss, *after):
        told = {"trainer": trainer, "loss": loss, "steps": "60", "recall_at_1_before": "0.5", "map_at_r_before": "0.25"}
        return [
            told | {"seed": str(seed), "recall_at_1": str(one), "map_at_r": "0.75"} for seed, one in enumerate(after)
        ]

    found = trainers_table(
        rows("a plain loop", "Shadow", 0.9, 0.92) + rows("Lightning", "Shadow", 0.8, 0.84), "Lightning"
    )
    assert found.rows == (
        ("untrained", "50.00", "25.00"),
        ("Shadow", "82.00 ± 2.83", "75.00"),
        ("Shadow in a plain loop", "91.00 ± 1.41", "75.00"),
    )
    assert "60 steps of 60 digits, 2 seeds" in found.caption


def test_seeds_and_towers_are_told_apart():
    rows = [
        {"loss": "one", "seed": str(seed), "recall_at_1": "0.9875", "map_at_r": str(0.7 + seed / 100)}
        for seed in range(2)
    ]
    assert sentences_table(rows).rows == (("one", "98.8", "70.0, 71.0"),)
    towers = [
        {"loss": loss, "seed": "0", "figure": "name → image, seen, Recall@5", "before": "0.05", "after": str(after)}
        for loss, after in (("shadow", 0.5), ("triplet", 0.25), ("multi_similarity", 0.75))
    ]
    assert towers_table(towers).rows == (("name → image, seen, Recall@5", "5", "5.00", "50.00", "25.00", "75.00"),)


def test_what_serving_costs():
    told = {
        "connections": "8",
        "answers_per_second": "120.4",
        "refused_per_second": "0",
        "p50_ms": "66.1",
        "p99_ms": "90.2",
    }
    (row,) = load_table([told | {"resident_before_mb": "690.2", "resident_after_mb": "690.8"}]).rows
    assert row == ("8", "120", "0", "66 ms", "90 ms", "690 → 691 MB")
    told = {"descriptors": "64", "idle": "500", "slow": "50", "busy": "8", "asked": "1615", "good_share": "0.9988"}
    told |= {"p50_ms": "99.5", "p99_ms": "309.8", "log_bytes": "1085", "resident_mb": "735.8"}
    (row,) = connections_table([told]).rows
    assert row == ("64", "500", "50", "8", "99.9 % of 1,615", "100 ms", "310 ms", "1,085", "736 MB")
    model = {
        "model": "int8",
        "recall_at_1": 0.2795,
        "largest_cosine_error": 0.061,
        "bytes": 4.1e6,
        "images_per_second": 1055.4,
    }
    model |= {"milliseconds": {"1": 1.31, "2": 0.98}, "resident_bytes": 79e6}
    (row,) = parity_table({"models": [model], "images": 5924}).rows
    assert row == ("ONNX, int8", "27.95 %", "0.06", "4.1", "1.3", "1.0", "1,055", "79")


def test_every_table_names_its_rows_and_their_command():
    for page, tables in make_measured_tables(ROOT).items():
        for name, table in tables.items():
            assert "/records/" in table.caption, f"{page}: {name}"
            assert "`" in table.caption, f"{page}: {name}"
            assert as_markdown(table).startswith("| ")
