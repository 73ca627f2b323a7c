"""How an evaluation looks: what was measured, the figures, verification, and how rows fill their space."""

from rich.console import Console

from shadowmetric.app.cli.evaluation.input import Evaluated
from shadowmetric.app.cli.evaluation.words import count, figure, figure_name, figure_words, number, percent, span
from shadowmetric.app.cli.screen import new_table, say, show
from shadowmetric.evaluation import Interval, Scores
from shadowmetric.evaluation.collapse import Collapse
from shadowmetric.evaluation.retrieval import RETRIEVAL
from shadowmetric.evaluation.verification import Verification

VISIBLE = 5e-5  # an error that changes the digits shown
LOW_RANK = 0.1  # of the rank that rows could have
HIGH_COSINE = 0.9  # of two rows, in the mean
MANY_DEAD = 0.5  # of the dimensions


def print_title(console: Console, what: Evaluated, scores: Scores) -> None:
    """Print what was measured, and what is not in the figures."""
    setting = scores.setting
    rows = f"{count(setting.of_queries, 'row', 'rows')} × {setting.dim:,}, {count(what.classes(), 'class', 'classes')}"
    against = "each query against all other rows (leave-one-out)"
    if what.gallery is not None:
        inside = "its own gallery" if what.gallery_file == what.file else f"the gallery {what.gallery_file}"
        against = f"against {inside} of {count(setting.gallery, 'row', 'rows')}"
    say(console, f"{what.file}: {rows}, {against}", "bold")
    if what.note:
        say(console, what.note)
    if setting.queries < setting.of_queries:
        queries = count(setting.queries, "query", "queries")
        say(console, f"A sample of {queries}, seed {setting.seed}; k-means and spread are of all rows.")
    if has_retrieval(scores):
        say_lone(console, setting.lone_queries, setting.queries)


def say_lone(console: Console, lone: int, queries: int) -> None:
    """Print how many queries retrieval has no figures of, if any."""
    if lone == queries:
        say(console, "No query has a relevant item, so retrieval has no figures; each class needs two rows.")
    elif lone:
        are = "is" if lone == 1 else "are"
        say(console, f"{count(lone, 'query has', 'queries have')} no relevant item and {are} in no retrieval figure.")


def has_retrieval(scores: Scores) -> bool:
    """Return whether retrieval was measured."""
    return any(name.startswith(RETRIEVAL) for name in scores.figures())


def print_figures(console: Console, scores: Scores, intervals: dict[str, Interval]) -> None:
    """Print the figures, with intervals where they were made."""
    figures = scores.figures()
    if not figures:
        return
    table = new_table(None, "figure", "value", *(["95 % interval"] if intervals else []), "what it is")
    for name, value in figures.items():
        between = [interval_words(name, intervals)] if intervals else []
        table.add_row(figure_name(name, scores.setting), figure(name, value), *between, figure_words(name))
    show(console, table)
    notes = ["Relevant: of the query's class; R: how many such items there are."] if has_retrieval(scores) else []
    notes += ["Intervals are over queries, not over training seeds."] if intervals else []
    if notes:
        say(console, " ".join(notes), "dim")


def interval_words(name: str, intervals: dict[str, Interval]) -> str:
    """Return an interval; of macro-F1 only where classes are large enough for it to hold the figure."""
    interval = intervals.get(name)
    if interval is None:
        return ""
    outside = interval.mean < interval.low or interval.mean > interval.high
    return "classes too small" if name == "macro_f1" and outside else span(name, interval.low, interval.high)


def print_verification(console: Console, verification: Verification) -> None:
    """Print how well a threshold on the cosine tells pairs of one class from others."""
    title = f"Verification: genuine pairs {verification.genuine_pairs:,}, impostors {verification.impostor_pairs:,}"
    table = new_table(title, "figure", "value", "threshold", "what it is")
    close = f", give or take {percent(verification.roc_auc_error)}" if verification.roc_auc_error >= VISIBLE else ""
    table.add_row("AUC", percent(verification.roc_auc), "", f"a genuine pair is closer than an impostor{close}")
    error = (percent(verification.equal_error_rate), number(verification.equal_error_threshold))
    table.add_row("EER", *error, "false accepts and false rejects alike")
    for rate, share in verification.true_accepts.items():
        words = f"genuine accepted, 1 impostor in {1 / rate:,.0f}"
        if rate * verification.impostor_pairs < 1:
            words = f"not measurable: needs {1 / rate:,.0f} impostors"
        table.add_row(f"TAR@FAR {100 * rate:g} %", percent(share), number(verification.thresholds[rate]), words)
    show(console, table)


def print_collapse(console: Console, collapse: Collapse, rows: int, classes: int) -> None:
    """Print how rows fill their space, with a word of warning where they hardly do."""
    dim = len(collapse.variance)
    table = new_table("How rows fill their space", "figure", "value", "what it is")
    table.add_row("Effective rank", f"{collapse.effective_rank:.1f} of {dim:,}", "directions that are in use")
    table.add_row("Dead dimensions", f"{collapse.dead_share * dim:,.0f} of {dim:,}", "the same in every row")
    table.add_row("Mean variance", f"{collapse.mean_variance:.2g}", f"of a dimension; at most {1 / dim:.2g}")
    table.add_row("Mean cosine", number(collapse.mean_cosine), "of two rows; 0 if they spread evenly")
    show(console, table)
    verdict = collapse_verdict(collapse, rows, classes)
    if verdict:
        say(console, verdict, "yellow")


def collapse_verdict(collapse: Collapse, rows: int, classes: int) -> str:
    """Return what looks collapsed, if anything. A few classes need few directions, one less than there are classes."""
    dim = len(collapse.variance)
    most = min(dim, rows - 1)
    if collapse.mean_cosine > HIGH_COSINE:
        return (
            f"Looks collapsed: the mean cosine of two rows is {collapse.mean_cosine:.2f}; "
            "look at the learning rate, the last layer's bias, and whether the loss stays at its margin."
        )
    if collapse.effective_rank < LOW_RANK * most and collapse.effective_rank < (classes - 1) / 2:
        return (
            f"Looks collapsed: rows use {collapse.effective_rank:.1f} of {most:,} directions for {classes:,} classes; "
            "look at the learning rate, the miner, and the narrowest layer."
        )
    if collapse.dead_share >= MANY_DEAD and rows > 1:
        return (
            f"Looks collapsed: {collapse.dead_share * dim:,.0f} of {dim:,} dimensions are the same in every row; "
            "look for a ReLU after the last layer, or use fewer dimensions."
        )
    return ""
