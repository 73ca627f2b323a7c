"""`shadowmetric evaluate`: every measure of a run, or of embeddings that any tool has written."""

import json
import sys
from pathlib import Path

from cyclopts import App

from shadowmetric.app.cli.evaluation.input import Evaluated, what_to_evaluate
from shadowmetric.app.cli.evaluation.settings import EvaluateSettings, File, check, check_out, spelt, write
from shadowmetric.errors import Mistake
from shadowmetric.evaluation import Interval, Scores
from shadowmetric.evaluation import evaluate as scores_of
from shadowmetric.progress import Bar

EXAMPLES = """\
Examples:

    shadowmetric evaluate runs/glyphs-shadow-0
    shadowmetric evaluate runs/glyphs-shadow-0 --against train --measures accuracy --confusion

and after numpy.save("e.npy", embeddings) and numpy.save("l.npy", labels):

    shadowmetric evaluate e.npy l.npy
    shadowmetric evaluate e.npy l.npy --measures recall_at map_at_r --queries 5000
    shadowmetric evaluate query.npz --gallery gallery.npz --json > scores.json
"""


app = App(
    name="evaluate", usage="Usage: shadowmetric evaluate RUN | EMBEDDINGS [LABELS] [OPTIONS]", help_epilogue=EXAMPLES
)


@app.default
def evaluate(embeddings: File = None, labels: File = None, /, *, settings: EvaluateSettings | None = None) -> None:
    """Measure how well embeddings retrieve, classify, cluster and verify.

    Rows are compared by cosine, each with all others or with a gallery. A .npy file is read a block at a time and
    may be larger than memory.

    Parameters
    ----------
    embeddings
        The folder of a run; or .npy of (rows, dim) floats; or .npz with `embeddings` and `labels` (and `gallery`,
        `gallery_labels`).
    labels
        .npy of one integer or string a row; not needed beside a .npz that has them.
    """
    settings = settings or EvaluateSettings()
    of_run = embeddings is not None and embeddings.is_dir()
    check(settings, of_run)
    if embeddings is None:
        raise Mistake(
            "no run or embeddings were named; give a run's folder or a file before the options, such as embeddings.npy."
        )
    try:
        what = load_embeddings(embeddings, labels, settings, of_run)
        if settings.out is not None:
            check_out(settings.out)
        scores = measure_scores(what, settings)
        intervals = intervals_of(scores, settings.seed) if settings.interval else {}
        show(what, scores, intervals, settings)
    except KeyboardInterrupt:
        print("Stopped before the end; nothing was written.", file=sys.stderr)
        sys.exit(130)


def load_embeddings(embeddings: Path, labels: Path | None, settings: EvaluateSettings, of_run: bool) -> Evaluated:
    """Return the embeddings of a run, or of the files that were named."""
    if not of_run:
        return what_to_evaluate(embeddings, labels, settings.gallery, settings.gallery_labels)
    if labels is not None:
        raise Mistake(f"a run has its own labels; leave {str(labels)!r} out.")
    from shadowmetric.app.cli.evaluation.run import run_to_evaluate

    return run_to_evaluate(embeddings, settings)


def measure_scores(what: Evaluated, settings: EvaluateSettings) -> Scores:
    """Return the scores, or say in which file there are rows that have none."""
    try:
        return scores_of(
            what.query.rows,
            what.query.labels,
            gallery=None if what.gallery is None else what.gallery.rows,
            gallery_labels=None if what.gallery is None else what.gallery.labels,
            measures=spelt(settings.measures),
            recall_at=settings.recall_at,
            precision_at=settings.precision_at,
            neighbors=settings.neighbors,
            silhouette_distance=settings.silhouette_distance,
            queries=settings.queries,
            seed=settings.seed,
            scratch_bytes=settings.scratch_mb * 2**20,
        )
    except ValueError as error:
        for name, file in (("embeddings", what.file), ("gallery", what.gallery_file)):
            if str(error).startswith(f"{name} has"):
                raise Mistake(f"{file}: {error}") from None
        raise


def intervals_of(scores: Scores, seed: int) -> dict[str, Interval]:
    """Return the bootstrap interval of each figure that has a value for each query."""
    names = [name for name in scores.figures() if name in scores.per_query or name == "macro_f1"]
    intervals = {}
    with Bar() as bar:
        for done, name in enumerate(names):
            bar("intervals", done / len(names))
            intervals[name] = scores.interval(name, seed=seed)
    return intervals


def show(what: Evaluated, scores: Scores, intervals: dict[str, Interval], settings: EvaluateSettings) -> None:
    """Print tables or JSON; write JSON to a file if one is named."""
    from shadowmetric.app.cli.evaluation.json_output import as_json
    from shadowmetric.app.cli.screen import say, screen

    document = as_json(what, scores, intervals, settings.worst, settings.classes, settings.confusion)
    text = json.dumps(document, indent=2, allow_nan=False)
    if settings.json:
        screen().out(text, highlight=False)
    else:
        print_tables(what, scores, intervals, settings)
    if settings.out is not None:
        write(settings.out, text + "\n")
        if not settings.json:
            say(screen(), f"The JSON is {settings.out.resolve()}")


def print_tables(what: Evaluated, scores: Scores, intervals: dict[str, Interval], settings: EvaluateSettings) -> None:
    """Print everything, the figures first."""
    from shadowmetric.app.cli.evaluation.table import print_collapse, print_figures, print_title, print_verification
    from shadowmetric.app.cli.evaluation.worst import print_confusion, print_worst, report_table
    from shadowmetric.app.cli.screen import screen, show

    console = screen()
    print_title(console, what, scores)
    print_figures(console, scores, intervals)
    if scores.verification is not None:
        print_verification(console, scores.verification)
    if scores.collapse is not None:
        print_collapse(console, scores.collapse, len(what.query.rows), what.classes())
    print_worst(console, what, scores, settings.worst)
    if scores.report is not None and settings.classes:
        show(console, report_table("Every class", what, scores.report.rows()))
    if scores.report is not None and settings.confusion:
        print_confusion(console, what, scores.report)
