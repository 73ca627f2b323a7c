"""From records to one HTML file that needs nothing else: styles, script, plotly, images and numbers inside.

Text from runs and data is escaped by the template; numbers and names for the script stand in JSON in which no tag can
begin. The page's policy allows the scripts that were put in, by their hashes, and no request to anywhere.

A page is never larger than its budget: images are left out step by step, and the page says so.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from shadowmetric.app.report.charts import MemoryBar, memory_bars
from shadowmetric.app.report.collect import Group
from shadowmetric.app.report.showcase.gallery import KINDS
from shadowmetric.app.report.showcase.showcase import Showcase
from shadowmetric.app.report.tables import Table
from shadowmetric.app.report.views import Level, group_view
from shadowmetric.app.report.words import as_view, environment, light, memory_table
from shadowmetric.errors import Mistake

HERE = Path(__file__).parent / "page"
BUDGET = 12_000_000  # bytes
ALL = 10**6
LEFT_OUT = "To stay below the size of a page, "
LEVELS = (
    Level(ALL, ALL, True, True, ""),
    Level(2, ALL, True, True, f"{LEFT_OUT}neighbors are shown for the first two losses only."),
    Level(2, 3, True, True, f"{LEFT_OUT}neighbors are shown for the first two losses, three queries of each kind."),
    Level(2, 3, False, True, f"{LEFT_OUT}few neighbors are shown, and no images of the points of t-SNE."),
    Level(0, 0, False, True, f"{LEFT_OUT}there are no images on it."),
    Level(0, 0, False, False, f"{LEFT_OUT}there are no images, no t-SNE and no confusion on it."),
)
KIND_WORDS = {"loss": "Losses", "control": "Controls: Triplet under other names", "floor": "Floors: not trained"}


def page(
    groups: Sequence[Group],
    showcases: Mapping[Path, Showcase],
    *,
    tables: Sequence[Table] = (),
    memory: Sequence[MemoryBar] = (),
    notes: Sequence[str] = (),
    origins: Sequence[Mapping[str, Any]] = (),
    budget: int = BUDGET,
) -> str:
    """Return the page, with as many images as its budget allows; showcases are by the folder of their run.

    origins: what tables and memory were measured with.
    """
    bars = [*memory, *runs_with_budget(groups)]
    for level in LEVELS:
        document = render_page(groups, showcases, tables, bars, notes, level, origins)
        if len(as_bytes(document)) <= budget:
            return document
    raise Mistake(f"the page is larger than {budget / 1e6:.0f} MB even without images; report fewer runs at once.")


def render_page(
    groups: Sequence[Group],
    showcases: Mapping[Path, Showcase],
    tables: Sequence[Table],
    bars: Sequence[MemoryBar],
    notes: Sequence[str],
    level: Level,
    origins: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the page with the images of one level."""
    style = {name: number for number, name in enumerate(dict.fromkeys(n for group in groups for n in group.names()))}
    views, figures = [], {}
    for number, group in enumerate(groups):
        view, some = group_view(group, number, style, showcases, level)
        views.append(view)
        figures |= some
    if bars:
        figures["memory"] = memory_bars(bars)
    script, plotly = ((HERE / "page.js").read_text(encoding="utf-8"), get_plotlyjs().replace("\r\n", "\n"))
    template = environment_of_templates().get_template("page.html.jinja")
    return template.render(
        title=title(groups) if groups else title_of_tables(tables),
        groups=views,
        notes=[*notes, *([level.words] if level.words and showcases else [])],
        tables=[as_view(table) for table in tables],
        memory=as_view(memory_table(bars)) if bars else None,
        environment=environment([member for group in groups for member in group.members], origins),
        kinds=KIND_WORDS,
        gallery_kinds=KINDS,
        policy=policy(script, plotly),
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        plotly=Markup(plotly),
        figures=Markup(as_json(figures)),
    )


def as_bytes(document: str) -> bytes:
    """Return a page in UTF-8; a byte of a file's name that is none becomes its number, such as \\udcff."""
    return document.encode("utf-8", "backslashreplace")


def environment_of_templates() -> jinja2.Environment:
    """Return what renders the templates: everything escaped, nothing undefined let through."""
    renderer = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    renderer.filters["light"] = light
    return renderer


def as_json(payload: Any) -> str:
    """Return JSON that can stand in a script element: no tag, no entity, nothing beyond ASCII."""
    text = json.dumps(payload, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def policy(*scripts: str) -> str:
    """Return the policy of the page: these scripts, images inside it, and no request."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {rest}"


def title(groups: Sequence[Group]) -> str:
    """Say what the page is about."""
    if len(groups) > 1:
        names = ", ".join(group.title for group in groups[:4])
        return f"{names} and {len(groups) - 4} more" if len(groups) > 4 else names
    group = groups[0]
    losses = len({member.name for member in group.of_kind("loss")})
    seeds = len({member.seed for member in group.members})
    if len(group.members) == 1:
        return f"{group.members[0].name} on {group.title}"
    return f"{losses} losses on {group.title}" + (f", {seeds} seeds" if seeds > 1 else "")


def title_of_tables(tables: Sequence[Table]) -> str:
    """Say what a page without runs is about."""
    if not tables:
        return "Memory"
    more = len(tables) - 1
    return tables[0].title + (f" and {more} more table{'s' if more > 1 else ''}" if more else "")


def runs_with_budget(groups: Sequence[Group]) -> list[MemoryBar]:
    """Return what runs with a memory budget noted."""
    words = {"budget": "budget", "predicted": "predicted", "peak": "measured peak"}
    bars = []
    for group in groups:
        for member in group.members:
            noted = (member.scores or {}).get("memory_bytes") or {}
            label = f"{group.title}: {member.run.folder.name}"
            bars += [MemoryBar(words[key], label, int(noted[key])) for key in words if noted.get(key)]
    return bars
