"""The figures of the page, as plotly draws them. Nothing is computed but means over seeds.

Colors are names of the style sheet, `var(--series-0)`, which the page resolves: so plots follow light and dark, and
a loss has one color everywhere. Plotly reads a little HTML in texts, so that every name goes through `plain`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from shadowmetric.app.report.collect import Group

SERIES = 8  # colors of losses
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
CLEAR = "rgba(0,0,0,0)"
MEASURES = {
    "recall_at_1": ("Recall@1", "Validation Recall@1, %", 100),
    "loss": ("Loss", "Training loss, in its own unit", 1),
    "silhouette": ("Silhouette", "Validation silhouette", 1),
    "active": ("Active share", "Triplets or pairs that still teach, %", 100),
    "gradient": ("Gradient", "Mean length of a row's gradient", 1),
    "anchor_gradient": ("Anchor gradient", "Mean length of a triplet's gradient to its anchor", 1),
}
Style = Mapping[str, int]  # the number of a loss's color and symbol, by name


@dataclass(frozen=True)
class MemoryBar:
    """Bytes that something took: one bar. Bars of one series have one color."""

    series: str  # such as "Shadow loss"
    label: str  # such as "batch 4,096"
    bytes: int


def plain(words: str) -> str:
    """Return words in which plotly finds no HTML."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(words: str, most: int = 22) -> str:
    """Return words that fit beside an axis, for plotly."""
    return plain(words if len(words) <= most else words[: most - 1] + "…")


def color(style: Style, name: str) -> str:
    """Return the color of a loss, by its name in the style sheet."""
    return f"var(--series-{style[name] % SERIES})"


def as_plain(figure: go.Figure) -> dict[str, Any]:
    """Return a figure as the page's JSON holds it."""
    return json.loads(str(figure.to_json()))


def layout(height: int, **more: Any) -> go.Layout:
    """Return what all figures share."""
    base_layout = go.Layout(
        template=go.layout.Template(),
        height=height,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"family": FONT, "size": 13, "color": "var(--ink)"},
        hoverlabel={"bgcolor": "var(--card)", "bordercolor": "var(--edge)", "font": {"color": "var(--ink)"}},
        margin={"l": 56, "r": 16, "t": 16, "b": 48},
        showlegend=False,
        dragmode=False,
    )
    axis = {"gridcolor": "var(--grid)", "zeroline": False, "automargin": True, "linecolor": "var(--grid)"}
    axis["title"] = {"standoff": 12, "font": {"size": 13, "color": "var(--quiet)"}}
    axis["tickfont"] = {"size": 12}
    return base_layout.update(xaxis=axis, yaxis=axis).update(**more)


def differences(group: Group, style: Style, noise: float | None) -> dict[str, Any] | None:
    """Return each row's Recall@1 less the reference's with its interval over queries, and the noise of training."""
    rows = [row for row in group.rows if row.beside is not None and row.beside.queries]
    if not rows:
        return None
    tests = [row.beside for row in rows if row.beside is not None]
    values = [round(100 * test.difference, 4) for test in tests]
    up, down = ([round(100 * abs(end - test.difference), 4) for test, end in zip(tests, ends, strict=True)] for ends in
                ([test.high for test in tests], [test.low for test in tests]))  # fmt: skip
    colors = [color(style, row.name) if row.name in style else "var(--quiet)" for row in rows]
    places = list(range(len(rows)))
    traces = []
    for place, row in enumerate(rows):
        traces.append(
            go.Scatter(
                x=[values[place]],
                y=[place],
                mode="markers",
                marker={
                    "color": colors[place],
                    "size": 10,
                    "symbol": SYMBOLS[style.get(row.name, 0) % len(SYMBOLS)] if row.kind != "floor" else "line-ns-open",
                },
                error_x={
                    "array": [up[place]],
                    "arrayminus": [down[place]],
                    "color": colors[place],
                    "thickness": 2,
                    "width": 5,
                },
                hovertemplate=f"{plain(row.name)}: %{{x:+.2f}} points<extra></extra>",
            )
        )
    lines_ = [{"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "var(--edge)"}}]
    if noise:
        band = {"type": "rect", "x0": -100 * noise, "x1": 100 * noise, "yref": "paper", "y0": 0, "y1": 1}
        lines_.append({**band, "fillcolor": "var(--band)", "line": {"width": 0}, "layer": "below"})
    names = {"tickvals": places, "ticktext": [short(row.name) for row in rows], "range": [len(rows) - 0.4, -0.6]}
    title = {"text": f"Recall@1 less {plain(group.plan.losses[0] if group.plan else '')}'s, points"}
    shape = layout(90 + 34 * len(rows), shapes=lines_, yaxis={**names, "showgrid": False}, xaxis={"title": title})
    return as_plain(go.Figure(traces, shape))


def memory_bars(bars: Sequence[MemoryBar]) -> dict[str, Any]:
    """Return the bars, a color for each series."""
    series = list(dict.fromkeys(bar.series for bar in bars))
    labels = list(dict.fromkeys(bar.label for bar in bars))
    unit, size = ("GB", 1e9) if max(bar.bytes for bar in bars) >= 2e9 else ("MB", 1e6)
    traces = [
        go.Bar(
            orientation="h",
            y=[labels.index(bar.label) for bar in bars if bar.series == name],
            x=[round(bar.bytes / size, 6) for bar in bars if bar.series == name],
            name=plain(name),
            marker={"color": f"var(--series-{number % SERIES})"},
            hovertemplate=f"{plain(name)}: %{{x:,.4~g}} {unit}<extra></extra>",
        )
        for number, name in enumerate(series)
    ]
    names = {"tickvals": list(range(len(labels))), "ticktext": [short(label, 30) for label in labels]}
    shape = layout(
        110 + 26 * len(bars),
        xaxis={"title": {"text": f"{unit} ({size:,.0f} bytes)"}, "rangemode": "tozero", "tickformat": ","},
        yaxis={**names, "autorange": "reversed", "showgrid": False},
        showlegend=len(series) > 1,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        bargap=0.35,
    )
    return as_plain(go.Figure(traces, shape))
