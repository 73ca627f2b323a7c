"""The table of small embedders: means over seeds, the best of the trained in bold, no row for what was not measured."""

from tools.pages.from_scratch_table import from_scratch_table


def row(bed, contender, seed, recall, nearest=""):
    return {
        "round": "final",
        "bed": bed,
        "contender": contender,
        "seed": str(seed),
        "seconds": "5.0",
        "recall_at_1": str(recall),
        "map_at_r": "0.1",
        "nearest": nearest,
    }


def test_means_spreads_and_the_best():
    rows = [row("cifar10", "ours", seed, recall, "0.5") for seed, recall in enumerate((0.40, 0.42, 0.44))]
    rows += [row("cifar10", "cross_entropy", 0, 0.41, "0.6"), row("cifar10", "raw_pixels", 0, 0.9, "0.2")]
    rows += [row("glyphs", "ours", 0, 0.3), row("glyphs", "triplet", 0, 0.5)]
    rows += [row("cifar10", "ours", 0, 0.99) | {"round": "losses"}]
    table = from_scratch_table(rows)
    by_name = {cells[0]: cells[1:] for cells in table.rows}
    assert by_name["CIFAR-10, Recall@1"] == ("**42.0 ± 2.0**", "41.0", "", "", "90.0")
    assert by_name["CIFAR-10, nearest training image"] == ("50.0", "**60.0**", "", "", "20.0")
    assert by_name["Glyphs, Recall@1"] == ("30.0", "", "**50.0**", "", "")
    assert "Glyphs, nearest training image" not in by_name
    assert "--seconds 5 --seeds 3" in table.caption
