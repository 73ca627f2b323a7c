"""What the template is given: for each group its words, and the figures that its plots draw.

A level says how many images there is room for: those of some losses, so many queries of each kind, with or without
images for the points of the planes.
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
from shadowmetric.app.report.summary import paragraphs, summary, training_noise
from shadowmetric.app.report.words import (
    about_augmented,
    about_confusion,
    about_gallery,
    about_points,
    about_test,
    as_view,
    confusion_table,
    curve_tables,
    differing,
    has_unseen_classes,
    results,
)

SIGNS = ("●", "■", "◆", "▲", "✚", "✖", "★", "⬢")  # as charts.SYMBOLS


SAME_ACCURACY = 0.005  # another machine may round a few images to another class


@dataclass(frozen=True)
class Level:
    """How much is shown of the showcases."""

    losses: int  # whose neighbors are shown, of each group
    queries: int  # of each kind
    sheets: bool  # images of points
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
    view = {
        "id": name,
        "title": group.title,
        "summary": summary(group),
        "paragraphs": [*paragraphs(group), *floor_words(group, showcases)],
        "facts": about_test(group),
        "warnings": [*group.notes, *(find_changed_runs(group, showcases) if level.closer else [])],
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
    pairs = comparable(group, showcases) if level.closer else {}
    if pairs:
        words, closer = closer_view(group, pairs, level)
        view |= words
        figures[f"{name}-closer"] = closer
    return view | {"parts": parts(view)}, figures


def floor_words(group: Group, showcases: Mapping[Path, Showcase]) -> list[str]:
    """Return what was never trained and its Recall@1, beside runs that are no comparison, which has it in its table."""
    beside = [showcases[one.run.folder] for one in group.representatives().values() if one.run.folder in showcases]
    if group.plan is not None or not beside:
        return []
    said = {"raw_pixels": "the raw pixels", "untrained": "the embedder before training"}
    floors = [f"{said[name]} {100 * recall:.2f} %" for name, recall in beside[0].floors.items()]
    return [f"Recall@1 of what was never trained: {', '.join(floors)}."]


def comparable(group: Group, showcases: Mapping[Path, Showcase]) -> dict[str, tuple[Member, Showcase]]:
    """Return the runs with a showcase, by name: those that show the same images as the first."""
    candidates = {
        name: (member, showcases[member.run.folder])
        for name, member in group.representatives().items()
        if member.run.folder in showcases
    }
    first = next((showcase for _, showcase in candidates.values()), None)
    return {name: pair for name, pair in candidates.items() if first is not None and same_points(first, pair[1])}


def find_changed_runs(group: Group, showcases: Mapping[Path, Showcase]) -> list[str]:
    """Return which runs have another accuracy now than when they were scored: their data or weights have changed."""
    sentences = []
    for name, (member, showcase) in comparable(group, showcases).items():
        then, now = (member.scores or {}).get("accuracy"), showcase.confusion.accuracy
        if then is not None and abs(then - now) > SAME_ACCURACY:
            sentences.append(
                f"The weights of {name}, seed {member.seed}, have an accuracy of {100 * now:.2f} % now and had "
                f"{100 * then:.2f} % when they were scored: the images or the weights have changed since."
            )
    return sentences


def same_points(first: Showcase, other: Showcase) -> bool:
    """Return whether two showcases are of the same images."""
    if first.points is None or other.points is None:
        return first.points is other.points and first.classes == other.classes
    return (first.points.numbers, first.points.labels) == (other.points.numbers, other.points.labels)


def closer_view(
    group: Group, pairs: Mapping[str, tuple[Member, Showcase]], level: Level
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the words about neighbors, planes and confusion, and their figures."""
    _, first = next(iter(pairs.values()))
    entries = [
        {"name": name, "seed": member.seed, "queries": queries_of(showcase, level if place < level.losses else None)}
        for place, (name, (member, showcase)) in enumerate(pairs.items())
    ]
    words = {
        "shown": entries,
        "sides": min(2, len(pairs)),
        "tiny": first.sheet is not None and first.sheet.side < 32,
        "images": level.losses > 0 and bool(first.gallery),
        "augmented": first.augmented if level.losses > 0 else None,
        "augmented_caption": about_augmented(next(iter(pairs.values()))[0].settings["augment"]),
        "gallery_caption": about_gallery(
            min(level.queries, len(first.gallery) // len(KINDS)), has_unseen_classes(group)
        ),
        "planes": about_points(first.points, len(first.classes)) if first.points else "",
        "confusion_caption": about_confusion(first.confusion),
        "confusion_tables": [as_view(confusion_table(name, one.confusion)) for name, (_, one) in pairs.items()],
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
        for name, (_, one) in pairs.items()
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
    return {"name": name, "kind": kind, "color": place % SERIES, "symbol": SIGNS[place % len(SIGNS)]}


def about_differences(noise: float | None) -> str:
    """Say what the intervals and the band are."""
    text = "Dots: mean over queries and seeds; bars: 95 % interval over queries. A bar that crosses 0 shows nothing."
    if noise:
        text += f" Gray: ± {100 * noise:.2f} points, the most that shadow and twice shadow lie apart in a seed."
    return text


def parts(view: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what a group has, for the contents."""
    there: Sequence[tuple[str, str, Any]] = (
        ("results", "Results", view["results"]),
        ("curves", "Training curves", view["measures"]),
        ("augmented", "What the network sees", view["shown"] and view["augmented"]),
        ("neighbors", "Retrieval", view["shown"] and view["images"]),
        ("points", "t-SNE", view["shown"] and view["planes"]),
        ("confusion", "Confusion", view["shown"]),
        ("settings", "Settings and replay", True),
    )
    return [{"id": key, "title": title} for key, title, is_there in there if is_there]
