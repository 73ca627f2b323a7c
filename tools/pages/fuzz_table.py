"""The table of the fuzz run: a row a format, and all of them together. Memory: the rows."""

from shadowmetric.app.report.tables import Table, plain_table

COUNTS = ("cases", "sentences", "same answers", "as a plain reader", "others")


def fuzz_table(rows: list[dict[str, str]]) -> Table:
    """Return what came of damaged files."""
    cells = [(row["format"], *(f"{int(row[name]):,}" for name in COUNTS)) for row in rows]
    totals = [sum(int(row[name]) for row in rows) for name in COUNTS]
    caption = (
        f"*measured*: `python -m benchmarks fuzz --cases {rows[0]['cases']} --slow-cases {rows[-1]['cases']} "
        f"--seed {rows[0]['seed']}`, format by format. Rows: [fuzz.csv](../benchmarks/records/fuzz.csv)."
    )
    return plain_table(caption, ("format", *COUNTS), [*cells, ("all", *(f"{total:,}" for total in totals))])
