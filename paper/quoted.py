"""What the paper states, *quoted*: every figure of its tables, and those that its prose gives (quoted.csv).

Recall, accuracy and macro-F1 are per cent there, as printed. Rows called small_cnn are the paper's "Custom CNN", which
it does not describe.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Quoted:
    """One figure of the paper."""

    table: str
    dataset: str
    loss: str
    figure: str
    value: float
    spread: float | None
    where: str  # in the paper: a label of its source, or the paragraph

    @property
    def words(self) -> str:
        """Return the figure as it is printed there."""
        digits = {"silhouette": 4, "variance": 4, "variance_penalized": 4, "convergence_epoch": 0}.get(self.figure, 2)
        around = "" if self.spread is None else f" ± {self.spread:.2f}"
        return f"{self.value:.{digits}f}{around}"


def find_quoted(
    table: str | None = None, dataset: str | None = None, loss: str | None = None, figure: str | None = None
) -> list[Quoted]:
    """Return the figures of a table, dataset, loss and name; None for any."""
    wanted = {"table": table, "dataset": dataset, "loss": loss, "figure": figure}
    return [one for one in _all() if all(value in (None, getattr(one, name)) for name, value in wanted.items())]


def quoted_value(table: str, dataset: str, loss: str, figure: str) -> float | None:
    """Return one figure; None if the paper does not state it."""
    matches = find_quoted(table, dataset, loss, figure)
    return matches[0].value if matches else None


@cache
def _all() -> tuple[Quoted, ...]:
    text = (files("paper") / "quoted.csv").read_text("utf-8")
    return tuple(
        Quoted(
            **{name: row[name] for name in ("table", "dataset", "loss", "figure", "where")},
            value=float(row["value"]),
            spread=float(row["spread"]) if row["spread"] else None,
        )
        for row in csv.DictReader(text.splitlines())
    )
