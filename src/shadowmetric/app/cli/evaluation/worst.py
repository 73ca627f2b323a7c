"""What went wrong in an evaluation, as tables: the worst queries and classes, every class, and the confusion."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shadowmetric.app.cli.evaluation.input import Evaluated
from shadowmetric.app.cli.evaluation.words import class_name, figure, figure_name, number, percent, row_name
from shadowmetric.app.cli.screen import fits, new_table, show
from shadowmetric.evaluation import Scores
from shadowmetric.evaluation.classification import ClassReport, ClassRow
from shadowmetric.evaluation.scores import HardClass, HardQuery

MOST_CONFUSIONS = 20  # in a list


def print_worst(console: Console, what: Evaluated, scores: Scores, worst: int) -> None:
    """Print the queries and classes that went worst, none that is perfect."""
    by = scores.hardest_by()
    if by is None:
        return
    called = figure_name(by, scores.setting)
    queries = [query for query in scores.hardest_queries(worst) if query.value < 1]
    if queries:
        width = console.width
        show(console, query_table(what, queries, by, called, voted=scores.vote is not None, width=width))
    tables = []
    classes = [row for row in scores.hardest_classes(worst) if row.value < 1]
    if classes:
        tables.append(class_table(what, classes, by, called))
    lowest = [] if scores.report is None else [row for row in scores.report.worst(worst) if row.f1 < 1]
    if lowest:
        tables.append(report_table("Worst classes by F1", what, lowest))
    if tables:
        show(console, *tables)


def query_table(what: Evaluated, queries: list[HardQuery], by: str, called: str, *, voted: bool, width: int) -> Table:
    """Return queries, with their nearest neighbors if those were looked for."""
    nearest = ("nearest", "its class", "cosine") if voted else ()
    beside = f", and the nearest row{'' if what.gallery is None else ' of the gallery'}" if voted else ""
    table = new_table(f"Worst queries by {called}{beside}", "row", "class", "value", *nearest)
    for row, label, value, near, near_label, similarity in queries:
        cells = (
            [row_name(what.neighbor_name(near), width), class_name(what, near_label), number(similarity)]
            if near >= 0
            else ["–"] * len(nearest)
        )
        table.add_row(row_name(what.row_name(row), width), class_name(what, label), figure(by, value), *cells)
    return table


def class_table(what: Evaluated, classes: list[HardClass], by: str, called: str) -> Table:
    """Return classes with their mean value."""
    table = new_table(f"Worst classes by {called}", "class", "queries", "value")
    for label, queries, value in classes:
        table.add_row(class_name(what, label), f"{queries:,}", figure(by, value))
    return table


def report_table(title: str, what: Evaluated, rows: list[ClassRow]) -> Table:
    """Return classes with their precision, recall and F1."""
    table = new_table(title, "class", "precision", "recall", "F1", "queries", "predicted")
    for row in rows:
        shares = (percent(share) for share in (row.precision, row.recall, row.f1))
        table.add_row(class_name(what, row.label), *shares, f"{row.support:,}", f"{row.predicted:,}")
    return table


def print_confusion(console: Console, what: Evaluated, report: ClassReport) -> None:
    """Print the matrix if it fits the screen, with names or numbers over its columns; else a list."""
    names = [class_name(what, label) for label in report.labels.tolist()]
    if len(names) <= console.width // 2:  # a column takes two characters at least
        for headings in (names, [Text(str(place)) for place in range(1, len(names) + 1)]):
            table = matrix(report, names, headings)
            if fits(console, table):
                show(console, table)
                return
    show(console, confusions(what, report))


def matrix(report: ClassReport, names: list[Text], headings: list[Text]) -> Table:
    """Return the confusion as a matrix: a row for each class, a column for each that was predicted."""
    table = new_table("Confusion: true classes down, predicted across", "class")
    table.padding = 0
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for place, counts in enumerate(report.confusion.dense().tolist()):
        number = "" if headings is names else f"{headings[place]!s:>{len(headings[-1])}} "
        cells = [Text(f"{cell:,}" if cell else "·", "bold" if at == place else "") for at, cell in enumerate(counts)]
        table.add_row(Text.assemble(number, names[place]), *cells)
    return table


def confusions(what: Evaluated, report: ClassReport) -> Table:
    """Return the most frequent confusions."""
    cells = report.confusion
    rows = zip(cells.count.tolist(), cells.true.tolist(), cells.predicted.tolist(), strict=True)
    wrong = sorted((row for row in rows if row[1] != row[2]), key=lambda row: (-row[0], *row[1:]))
    title = f"The {min(MOST_CONFUSIONS, len(wrong))} most frequent of {len(wrong):,} confusions"
    table = new_table(title, "class", "taken for", "queries")
    for queries, true, predicted in wrong[:MOST_CONFUSIONS]:
        table.add_row(class_name(what, true), class_name(what, predicted), f"{queries:,}")
    return table
