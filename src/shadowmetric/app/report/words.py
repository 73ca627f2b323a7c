"""Tables and captions of the page: figures become words here, and nowhere else."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from shadowmetric.app.compare.wording import about_test as describe_images
from shadowmetric.app.compare.wording import by_seed, columns_of, difference, figure
from shadowmetric.app.report.charts import MEASURES, MemoryBar
from shadowmetric.app.report.collect import Group, Member
from shadowmetric.app.report.curves import by_epoch, mean_of
from shadowmetric.app.report.portable import LEFT_OUT, setting
from shadowmetric.app.report.showcase.confusion import Confused
from shadowmetric.app.report.showcase.tsne import Points
from shadowmetric.app.report.tables import Table

MARKS = re.compile(r"`([^`]+)`|(?<![\w*])\*(?=[^\s*])([^*]*[^\s*])\*(?![\w*])")
MOST_EPOCHS = 25  # rows of a table of curves


def as_view(table: Table) -> dict[str, Any]:
    """Return a table as the template takes it; kinds are named where there is more than one."""
    lines = list(zip(table.rows, table.kinds, strict=True))
    marked = len(set(table.kinds) - {""}) > 1
    return {
        "title": table.title,
        "caption": table.caption,
        "headings": table.headings,
        "lines": lines,
        "marked": marked,
    }


def light(words: str) -> Markup:
    """Return words with the Markdown of captions as HTML, `code` and *stress*; everything else is escaped."""
    markup, last = Markup(), 0
    for mark in MARKS.finditer(words):
        tag = "<code>{}</code>" if mark[1] else "<em>{}</em>"
        markup += words[last : mark.start()]
        markup += Markup(tag).format(mark[1] or mark[2])
        last = mark.end()
    return markup + words[last:]


def results(group: Group) -> Table | None:
    """Return what each row reached over its seeds."""
    if not group.rows:
        return None
    paired = group.plan is not None
    reference = group.plan.losses[0] if group.plan else ""
    columns = columns_of(group.rows)
    headings = ("loss", *columns.values(), *((f"Recall@1 − {reference}'s", "over seeds") if paired else ()))
    rows = tuple(
        (
            row.name,
            *(figure(row, name) for name in columns),
            *((difference(row).replace("-", "−"), by_seed(row)) if paired else ()),
        )
        for row in group.rows
    )
    seeds = max(len(row.figures["recall_at_1"]) for row in group.rows)
    spread = f"Mean ± spread over {seeds} seeds" if seeds > 1 else "One seed, so there is no spread"
    caption = f"{spread}, on the test split; shares in per cent, plateau in epochs."
    if paired:
        caption += " The difference is in points, with its 95 % interval over queries, paired; then its spread."
    return Table(f"Results on {group.title}", caption, headings, rows, tuple(row.kind for row in group.rows))


def curve_tables(group: Group) -> list[Table]:
    """Return the means behind the curves, a table for each measure; long trainings at evenly spaced epochs."""
    tables = []
    for measure, (_, title, scale) in MEASURES.items():
        means = {name: mean_of(by_epoch(group, name, measure, scale)) for name in group.names()}
        epochs = space_epochs(sorted({epoch for values in means.values() for epoch in values}))
        if epochs:
            rows = tuple((str(epoch), *(number(values.get(epoch)) for values in means.values())) for epoch in epochs)
            tables.append(Table(f"{title}, mean over seeds", "", ("epoch", *means), rows, ("",) * len(rows)))
    return tables


def space_epochs(epochs: Sequence[int]) -> list[int]:
    """Return at most so many epochs, the first and the last among them."""
    last = len(epochs) - 1
    if last < MOST_EPOCHS:
        return list(epochs)
    return [epochs[round(place * last / (MOST_EPOCHS - 1))] for place in range(MOST_EPOCHS)]


def confusion_table(name: str, confusion: Confused) -> Table:
    """Return the counts of one run."""
    others = ("others",) if confusion.of > len(confusion.classes) else ()
    rows = tuple(
        (true, *(str(count) if count else "·" for count in row))
        for true, row in zip(confusion.classes, confusion.counts, strict=True)
    )
    return Table(name, "", ("true \\ voted", *confusion.classes, *others), rows, ("",) * len(rows))


def memory_table(bars: Sequence[MemoryBar]) -> Table:
    """Return the bytes of each bar."""
    rows = tuple((f"{bar.label}, {bar.series}", f"{bar.bytes:,}") for bar in bars)
    return Table("Bytes", "", ("what", "bytes"), rows, ("",) * len(rows))


def differing(group: Group) -> tuple[list[tuple[str, str]], Table | None]:
    """Return the settings that all runs share, and a table of those that differ; paths by their last part."""
    settings = [member.settings for member in group.members]
    names = dict.fromkeys(name for one in settings for name in one if name != LEFT_OUT)
    values = {name: [format_setting(one.get(name)) for one in settings] for name in names}
    shared = [(name, setting(name, column[0])) for name, column in values.items() if len(set(column)) == 1]
    others = {name: column for name, column in values.items() if len(set(column)) > 1}
    rows = tuple(
        (member.run.folder.name, *(setting(name, column[place]) for name, column in others.items()))
        for place, member in enumerate(group.members)
    )
    table = Table("Settings that differ", "", ("run", *others), rows, ("",) * len(rows))
    return shared, table if others else None


def environment(members: Sequence[Member], origins: Sequence[Mapping[str, Any]] = ()) -> list[tuple[str, str]]:
    """Return what runs and records were made with, each value once; an origin is what was noted of the machine."""
    noted_by: list[dict[str, Any]] = []
    for member in members:
        scores: Mapping[str, Any] = member.scores or {}
        origin = scores.get("origin")
        known = {"version": scores.get("version"), "torch": scores.get("torch")}
        noted_by.append((origin if isinstance(origin, dict) else {}) | known)
    properties: dict[str, dict[str, None]] = {}
    for noted in (*noted_by, *origins):
        for name, value in ({"shadowmetric": noted.get("version")} | {**noted, "version": None}).items():
            if value is not None:
                properties.setdefault(str(name), {})[format_setting(value)] = None
    seconds = sum((member.scores or {}).get("train_seconds") or 0.0 for member in members)
    facts = [(name.replace("_", " "), " and ".join(values)) for name, values in properties.items()]
    if not members:
        return facts
    return [*facts, ("runs", f"{len(members)}"), ("time of training", f"{seconds / 60:,.1f} minutes in all")]


def about_test(group: Group) -> str:
    """Say what the figures were measured on."""
    for member in group.members:
        images = describe_images(member.scores)
        if images:
            setting = (member.scores or {})["setting"]
            how = "each among the others" if setting["protocol"] == "leave-one-out" else "each in a gallery"
            return f"{images}, searched {how}; embeddings of {setting['dim']} numbers, compared by cosine."
    return ""


def about_augmented(kind: str) -> str:
    """Say what is above and what below."""
    return (
        f"Training images as the test sees them, and below each what --augment {kind} made of it once; every epoch "
        "makes something else of it."
    )


def has_unseen_classes(group: Group) -> bool:
    """Return whether training had none of the classes that are searched."""
    return any((member.scores or {}).get("unseen_classes") for member in group.members)


def about_gallery(count: int, unseen: bool = False) -> str:
    """Say how queries were chosen; unseen: of classes that training did not have."""
    whose = ", of a class that training never saw," if unseen else ""
    return (
        f"A test image{whose} and its nearest neighbors by cosine, itself left out. ✓ and a solid frame: its own "
        "class; ✗ and a dashed frame: another, which is named. Below each its similarity. Queries are sorted by MAP@R, "
        f"ties by the place of the first right neighbor, then by lot: {count} drawn at random, which are the same for "
        f"every loss, the {count} worst, and the {count} best."
    )


def about_points(points: Points, classes: int) -> str:
    """Say what the planes show, and what they do not."""
    colors = "" if classes <= 10 else " Colors repeat after ten classes; hover over a point for its class."
    return (
        f"{len(points.numbers):,} of {points.of:,} test images, the same in every plane; "
        f"perplexity {points.perplexity:g}, seed {points.seed}, cosine distance, openTSNE. A cross is an image whose "
        f"nearest neighbor has another class.{colors} t-SNE keeps neighborhoods: the size of a group, the room "
        "between groups and directions mean nothing."
    )


def about_confusion(confusion: Confused) -> str:
    """Say who votes, and which classes are shown."""
    most = (
        ""
        if confusion.of <= len(confusion.classes)
        else (f" Of {confusion.of} classes, each run shows the {len(confusion.classes)} in which it makes most errors.")
    )
    return (
        f"The {confusion.neighbors} nearest {confusion.voters} vote, as in the accuracy of the table. A row is a "
        "true class; "
        f"numbers count images, colors are shares of the row: blue for right, orange for wrong.{most}"
    )


def format_setting(value: Any) -> str:
    """Return a setting in words."""
    return "–" if value is None else "yes" if value is True else "no" if value is False else f"{value}"


def number(value: float | None) -> str:
    """Return a figure with four digits, a dash for nothing."""
    return "–" if value is None else f"{value:.4g}"
