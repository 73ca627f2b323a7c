"""What is drawn of a showcase: the plane of its points, and which class is taken for which."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from shadowmetric.app.report.charts import as_plain, layout, short
from shadowmetric.app.report.showcase.confusion import Confused
from shadowmetric.app.report.showcase.tsne import Points


def plane(points: Points, classes: Sequence[str]) -> dict[str, Any]:
    """Return the plane of one run; the page gives points their colors, by class, and the wrong ones a cross."""
    axis = {"visible": False, "showgrid": False}
    few = len(set(points.labels)) <= 20
    names = [label_at(points, label, classes[label]) for label in sorted(set(points.labels))] if few else []
    shape = layout(440, xaxis=axis, yaxis={**axis, "scaleanchor": "x"}, annotations=names)
    shape.update(margin={"l": 4, "r": 4, "t": 4, "b": 4}, hovermode="closest")
    trace = go.Scatter(x=points.x, y=points.y, mode="markers", hoverinfo="none", marker={"size": 6, "opacity": 0.85})
    return as_plain(go.Figure([trace], shape)) | {"right": [int(right) for right in points.right]}


def label_at(points: Points, label: int, name: str) -> dict[str, Any]:
    """Return a class's name at the median of its points."""
    mine = [place for place, candidate in enumerate(points.labels) if candidate == label]
    x, y = (sorted(values[place] for place in mine)[len(mine) // 2] for values in (points.x, points.y))
    look = {"showarrow": False, "bgcolor": "var(--veil)", "borderpad": 1, "font": {"size": 13, "color": "var(--ink)"}}
    return {"x": x, "y": y, "text": f"<b>{short(name, 14)}</b>", **look}


def heatmap(confusion: Confused) -> dict[str, Any]:
    """Return the confusion: what is right on the diagonal in one color, mistakes in another, as shares of a row."""
    size = len(confusion.classes)
    names = [short(name, 16) for name in confusion.classes]
    columns = [*names, "<i>others</i>"] if confusion.of > size else names
    sums = [max(1, sum(row)) for row in confusion.counts]
    text = [[str(count) if count else "" for count in row] for row in confusion.counts]
    traces = []
    for right in (True, False):
        shares = [
            [count / sums[i] if count and (i == j) == right else None for j, count in enumerate(row)]
            for i, row in enumerate(confusion.counts)
        ]
        hover = [
            [f"{names[i]} voted {columns[j]}: {count} of {sums[i]}" for j, count in enumerate(row)]
            for i, row in enumerate(confusion.counts)
        ]
        top = {"zmin": 0, "zmax": 1 if right else max(0.1, *(s for row in shares for s in row if s), 0.1)}
        traces.append(
            go.Heatmap(
                z=shares,
                text=text,
                texttemplate="%{text}",
                customdata=hover,
                hovertemplate="%{customdata}<extra></extra>",
                textfont={"color": "var(--ink)"},
                showscale=False,
                xgap=1,
                ygap=1,
                meta={"scale": "right" if right else "wrong"},
                **top,
            )
        )
    ticks = {"tickmode": "array", "showgrid": False, "tickfont": {"size": 11}}
    x = {**ticks, "tickvals": list(range(len(columns))), "ticktext": columns, "title": {"text": "voted class"}}
    y = {**ticks, "tickvals": list(range(size)), "ticktext": names, "title": {"text": "true class"}}
    tall = max(320, 26 * size + 120)
    return as_plain(go.Figure(traces, layout(tall, xaxis=x, yaxis={**y, "autorange": "reversed"})))
