"""An evaluation as JSON: figures by the names of `Scores`, classes by the names of the files, null for no value."""

from typing import Any

from shadowmetric.app.cli.evaluation.input import Evaluated
from shadowmetric.evaluation import Interval, Scores
from shadowmetric.runtime.files import without_nan


def as_json(
    what: Evaluated, scores: Scores, intervals: dict[str, Interval], worst: int, classes: bool, confusion: bool
) -> dict[str, Any]:
    """Return everything that the tables show, in plain Python."""
    document: dict[str, Any] = {
        "embeddings": str(what.file),
        "gallery": what.gallery_file and str(what.gallery_file),
        "note": what.note or None,
        "class_names": what.class_names,
        **scores.as_dict(),
        "intervals": {name: vars(interval) for name, interval in intervals.items()},
        "hardest_by": scores.hardest_by(),
        "hardest_queries": [hard_query(what, query._asdict()) for query in scores.hardest_queries(worst)],
        "hardest_classes": [name_class(what, row._asdict()) for row in scores.hardest_classes(worst)],
    }
    if scores.report is not None:
        document["lowest_f1"] = [name_class(what, row._asdict()) for row in scores.report.worst(worst)]
        if classes:
            document["classes"] = [name_class(what, row._asdict()) for row in scores.report.rows()]
        if confusion:
            cells = scores.report.confusion
            columns = (cells.true.tolist(), cells.predicted.tolist(), cells.count.tolist())
            document["confusion"] = [
                {"true": what.name(true), "predicted": what.name(predicted), "queries": count}
                for true, predicted, count in zip(*columns, strict=True)
            ]
    return without_nan(document)


def name_class(what: Evaluated, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its class by name."""
    return row | {"label": what.name(row["label"])}


def hard_query(what: Evaluated, query: dict[str, Any]) -> dict[str, Any]:
    """Return a query with its classes by name; nulls for a neighbor that is not known."""
    nearest = {"nearest": None, "nearest_label": None, "similarity": None}
    if query["nearest"] >= 0:
        nearest = {"nearest_label": what.name(query["nearest_label"])}
        if what.row_names:
            nearest["nearest_name"] = what.neighbor_name(query["nearest"])
    names = {"name": what.row_name(query["row"])} if what.row_names else {}
    return name_class(what, query) | nearest | names
