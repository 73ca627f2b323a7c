"""The table of a comparison, and what it says in words."""

from rich.console import Console

from shadowmetric.app.cli.screen import new_table, say, screen, show
from shadowmetric.app.compare.compare import Row
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.compare.wording import by_seed, columns_of, difference, figure, sentences

LEAST_WIDTH = {"silhouette": 110, "accuracy": 120, "convergence_epoch": 136}  # characters, to show a column


def print_comparison(plan: Plan, rows: list[Row], failures: dict[str, str]) -> None:
    """Print the table, what follows from it, and where the runs are."""
    console = screen()
    reference = plan.losses[0]
    titles = columns_of(rows)
    columns = [name for name in titles if console.width >= LEAST_WIDTH.get(name, 0)]
    table = new_table(title(plan), "figure", *(titles[name] for name in columns), f"Recall@1 − {reference}'s", "seeds")
    table.columns[0].header = "loss"
    before = None
    for row in rows:
        if before not in (None, row.kind):
            table.add_section()
        before = row.kind
        table.add_row(row.name, *(figure(row, name) for name in columns), difference(row), by_seed(row))
    show(console, table)
    console.print()
    for sentence in sentences(plan, rows):
        say(console, sentence)
    for name, reason in failures.items():
        say(console, f"{name} failed: {reason}", "red")
    finish(console, plan)


def title(plan: Plan) -> str:
    """Say what was compared."""
    how = ", first half of the classes against the second" if plan.settings.split == "classes" else ""
    return f"{plan.settings.data}{how}: test split, mean ± spread of {plan.seeds} seeds"


def finish(console: Console, plan: Plan) -> None:
    """Say where everything is."""
    say(console, f"Every run and seed: {plan.out / 'compare.csv'}; the runs are folders beside it.")
