"""The words of an evaluation: what figures are called, what they are in a few words, and how numbers are written."""

import math

from rich.text import Text

from shadowmetric.app.cli.evaluation.input import Evaluated
from shadowmetric.app.cli.screen import plain
from shadowmetric.evaluation.scores import Setting

NAMES = {
    "r_precision": "R-precision",
    "map_at_r": "MAP@R",
    "reciprocal_rank": "MRR",
    "silhouette": "Silhouette",
    "accuracy": "Accuracy",
    "macro_f1": "Macro-F1",
    "nmi": "NMI",
    "ami": "AMI",
}
WORDS = {  # 32 characters at most, or they are folded in 80 columns
    "r_precision": "relevant share of the first R",
    "map_at_r": "R-precision, early ranks first",
    "reciprocal_rank": "mean 1 / rank of first relevant",
    "silhouette": "own class or the next, -1 to 1",
    "accuracy": "class right by neighbors' vote",
    "macro_f1": "mean F1, each class weighs alike",
    "nmi": "k-means clusters against classes",
    "ami": "NMI beyond what chance gives",
}
KINDS = {"recall": "Recall", "precision": "Precision", "ir_recall": "IR recall"}
OF_FIGURES = 68  # columns of the worst queries that are not names of rows
SHORTEST_ROW, LONGEST_ROW = 12, 60  # characters of such a name
LONGEST_NAME = 20  # characters of a class name
HEAD = 12  # of them before the gap


def figure_name(name: str, setting: Setting) -> str:
    """Return what people call a figure, with the settings that change it."""
    kind, _, k = name.rpartition("_at_")
    if k.isdecimal():
        return f"{KINDS[kind]}@{k}"
    if name in ("accuracy", "macro_f1"):
        return f"{NAMES[name]}, k = {setting.neighbors}"
    if name == "silhouette" and setting.silhouette_distance != "euclidean":
        return f"{NAMES[name]}, {setting.silhouette_distance}"
    return NAMES[name]


def figure_words(name: str) -> str:
    """Return what a figure is, in a few words."""
    kind, _, k = name.rpartition("_at_")
    if not k.isdecimal():
        return WORDS[name]
    if kind == "precision":
        return f"relevant share of the first {k}"
    if kind == "ir_recall":
        return f"of all relevant, in the first {k}"
    return "the nearest item is relevant" if k == "1" else f"a relevant item in the first {k}"


def figure(name: str, value: float) -> str:
    """Return a figure as people read it: per cent, but for silhouette."""
    return number(value) if name == "silhouette" else percent(value)


def span(name: str, low: float, high: float) -> str:
    """Return the two ends of an interval, in the unit of the figure."""
    ends = (low, high) if name == "silhouette" else (100 * low, 100 * high)
    digits = 3 if name == "silhouette" else 2
    return "–" if math.isnan(low) else " to ".join(f"{end:.{digits}f}" for end in ends)


def percent(value: float) -> str:
    """Return a share in per cent, and a dash for none."""
    return "–" if math.isnan(value) else f"{100 * value:.2f} %"


def number(value: float) -> str:
    """Return a number with three places, and a dash for none."""
    return "–" if math.isnan(value) else f"{value:.3f}"


def count(items: int, singular: str, plural: str) -> str:
    """Return a number of things, in words that fit it."""
    return f"{items:,} {singular if items == 1 else plural}"


def row_name(name: object, width: int) -> Text:
    """Return the name of a row for a table of this width: the end of a long path, which tells files apart."""
    name, longest = plain(name), min(max((width - OF_FIGURES) // 2, SHORTEST_ROW), LONGEST_ROW)
    return Text(name if len(name) <= longest else "…" + name[1 - longest :], no_wrap=True, overflow="ellipsis")


def class_name(what: Evaluated, label: int) -> Text:
    """Return a class as the files name it, shortened, without markup and characters that move the cursor."""
    name = plain(what.name(label))
    if len(name) > LONGEST_NAME:
        name = f"{name[:HEAD]}…{name[HEAD + 1 - LONGEST_NAME :]}"  # names of one family often differ at the end
    return Text(name, no_wrap=True, overflow="ellipsis")
