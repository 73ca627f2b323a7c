"""What the template is given: for each group its words, and the figures that its plots draw.

A level says how many pictures there is room for: those of some losses, so many queries of each kind, with or without
pictures for the points of the planes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shadowmetric.app.compare.wording import findings
from shadowmetric.app.report.charts import MEASURES, SERIES, Style, differences
from shadowmetric.app.report.collect import Group, Member
from shadowmetric.app.report.curves import curves
from shadowmetric.app.report.planes import heatmap, plane
from shadowmetric.app.report.portable import sentence
from shadowmetric.app.report.showcase.gallery import KINDS
from shadowmetric.app.report.showcase.showcase import Showcase
from shadowmetric.app.report.summary import summary, training_noise
from shadowmetric.app.report.words import (
    about_confusion,
    about_gallery,
    about_points,
    about_test,
    as_view,
    confusion_table,
    curve_tables,
    differing,
    results,
)

SIGNS = ("●", "■", "◆", "▲", "✚", "✖", "★", "⬢")  # as charts.SYMBOLS


SAME_ACCURACY = 0.005  # another machine may round a few pictures to another class


@dataclass(frozen=True)
class Level:
    """How much is shown of the showcases."""

    losses: int  # whose neighbours are shown, of each group
    queries: int  # of each kind
    sheets: bool  # pictures of points
    closer: bool  # anything at all
    words: str  # what was left out


def group_view(
    group: Group, number: int, style: Style, showcases: Mapping[Path, Showcase], level: Level
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the words of a group, and its figures by name."""
    name = f"g{number}"
    noise = training_noise(group)
    drawn = curves(group, style)
    forest = differences(group, style, noise)
    shared, others = differing(group)
    table = results(group)
    found = {
        "id": name,
        "title": group.title,
        "summary": summary(group),
        "facts": about_test(group),
        "warnings": [*group.notes, *(changed(group, showcases) if level.closer else [])],
        "results": table and as_view(table),
        "differences": forest and about_differences(noise),
        "sentences": [sentence(one, group.members) for one in findings(group.plan, group.rows)] if group.plan else [],
        "measures": [(key, MEASURES[key][0]) for key in drawn["layouts"]],
        "legend": [legend_entry(group, one, style) for one in group.names()],
        "curve_tables": [as_view(one) for one in curve_tables(group)],
        "shared": shared,
        "differing": others and as_view(others),
        "replays": [(member.run.folder.name, member.replay) for member in group.members if member.replay],
        "shown": [],
    }
    figures: dict[str, Any] = {f"{name}-curves": drawn}
    figures |= {} if forest is None else {f"{name}-differences": forest}
    shown = comparable(group, showcases) if level.closer else {}
    if shown:
        words, closer = closer_view(group, shown, level)
        found |= words
        figures[f"{name}-closer"] = closer
    return found | {"parts": parts(found)}, figures


def comparable(group: Group, showcases: Mapping[Path, Showcase]) -> dict[str, tuple[Member, Showcase]]:
    """Return the runs with a showcase, by name: those that show the same pictures as the first."""
    found = {
        name: (member, showcases[member.run.folder])
        for name, member in group.shown().items()
        if member.run.folder in showcases
    }
    first = next((showcase for _, showcase in found.values()), None)
    return {name: pair for name, pair in found.items() if first is not None and same_points(first, pair[1])}


def changed(group: Group, showcases: Mapping[Path, Showcase]) -> list[str]:
    """Return which runs have another accuracy now than when they were scored: their data or weights have changed."""
    found = []
    for name, (member, showcase) in comparable(group, showcases).items():
        then, now = (member.scores or {}).get("accuracy"), showcase.confusion.accuracy
        if then is not None and abs(then - now) > SAME_ACCURACY:
            found.append(
                f"The weights of {name}, seed {member.seed}, have an accuracy of {100 * now:.2f} % now and had "
                f"{100 * then:.2f} % when they were scored: the pictures or the weights have changed since."
            )
    return found


def same_points(first: Showcase, other: Showcase) -> bool:
    """Return whether two showcases are of the same pictures."""
    if first.points is None or other.points is None:
        return first.points is other.points and first.classes == other.classes
    return (first.points.numbers, first.points.labels) == (other.points.numbers, other.points.labels)


def closer_view(
    group: Group, shown: Mapping[str, tuple[Member, Showcase]], level: Level
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the words about neighbours, planes and confusion, and their figures."""
    _, first = next(iter(shown.values()))
    entries = [
        {"name": name, "seed": member.seed, "queries": queries_of(showcase, level if place < level.losses else None)}
        for place, (name, (member, showcase)) in enumerate(shown.items())
    ]
    words = {
        "shown": entries,
        "sides": min(2, len(shown)),
        "tiny": first.sheet is not None and first.sheet.side < 32,
        "pictures": level.losses > 0 and bool(first.gallery),
        "gallery_caption": about_gallery(min(level.queries, len(first.gallery) // len(KINDS))),
        "planes": about_points(first.points, len(first.classes)) if first.points else "",
        "confusion_caption": about_confusion(first.confusion),
        "confusion_tables": [as_view(confusion_table(name, one.confusion)) for name, (_, one) in shown.items()],
    }
    points = None
    if first.points is not None:
        sheet = asdict(first.sheet) if first.sheet and level.sheets else None
        points = {"labels": first.points.labels, "numbers": first.points.numbers, "sheet": sheet}
        points["classes"] = list(first.classes)
    runs = {
        name: {
            "plane": plane(one.points, one.classes) if one.points else None,
            "confusion": heatmap(one.confusion),
        }
        for name, (_, one) in shown.items()
    }
    return words, {"points": points, "runs": runs}


def queries_of(showcase: Showcase, level: Level | None) -> dict[str, list[Any]]:
    """Return the queries of each kind that there is room for."""
    most = 0 if level is None else level.queries
    named = [replace(query, name=sentence(query.name)) for query in showcase.gallery]
    return {kind: [query for query in named if query.kind == kind][:most] for kind in KINDS}


def legend_entry(group: Group, name: str, style: Style) -> dict[str, Any]:
    """Return how a loss looks in the curves."""
    kind = next(member.kind for member in group.members if member.name == name)
    place = style[name]
    return {"name": name, "kind": kind, "colour": place % SERIES, "symbol": SIGNS[place % len(SIGNS)]}


def about_differences(noise: float | None) -> str:
    """Say what the intervals and the band are."""
    found = "Dots: mean over queries and seeds; bars: 95 % interval over queries. A bar that crosses 0 shows nothing."
    if noise:
        found += f" Grey: ± {100 * noise:.2f} points, the most that shadow and twice shadow lie apart in a seed."
    return found


def parts(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what a group has, for the contents."""
    there: Sequence[tuple[str, str, Any]] = (
        ("results", "Results", found["results"]),
        ("curves", "Training curves", found["measures"]),
        ("neighbours", "Retrieval", found["shown"] and found["pictures"]),
        ("points", "t-SNE", found["shown"] and found["planes"]),
        ("confusion", "Confusion", found["shown"]),
        ("settings", "Settings and replay", True),
    )
    return [{"id": key, "title": title} for key, title, is_there in there if is_there]
