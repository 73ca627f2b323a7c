"""Curves over epochs: for each measure and loss the mean over seeds, and thin lines of the seeds."""

import math
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from shadowmetric.app.report.charts import MEASURES, SYMBOLS, Style, as_plain, color, layout, plain
from shadowmetric.app.report.collect import Group


def curves(group: Group, style: Style) -> dict[str, Any]:
    """Return all curves: for each measure and loss the mean over seeds, and thin lines of the seeds."""
    traces, layouts = [], {}
    for measure, (_, title, scale) in MEASURES.items():
        content = [trace for name in group.names() for trace in lines(group, name, measure, scale, style)]
        if content:
            step = max(1, math.ceil(max(len(member.journal) for member in group.members) / 10))
            axis = {"title": {"text": "Epoch"}, "tick0": 0, "dtick": step, "showgrid": False}
            layouts[measure] = as_plain(go.Figure(layout=layout(400, xaxis=axis, yaxis={"title": {"text": title}})))
        traces += content
    return {
        "data": as_plain(go.Figure(traces))["data"],
        "layouts": {measure: content["layout"] for measure, content in layouts.items()},
    }


def lines(group: Group, name: str, measure: str, scale: int, style: Style) -> list[go.Scatter]:
    """Return the curve of a loss, the mean over its seeds last."""
    seeds = by_epoch(group, name, measure, scale)
    if not any(seeds.values()):
        return []
    kind = next(member.kind for member in group.members if member.name == name)
    look = {"color": color(style, name), "dash": "dash" if kind == "control" else "solid"}
    traces = []
    for seed, values in seeds.items() if len(seeds) > 1 else ():
        meta = {"measure": measure, "name": name, "role": "seed", "seed": seed}
        x, y = list(values), list(values.values())
        line = {**look, "width": 1}
        traces.append(go.Scatter(x=x, y=y, mode="lines", line=line, opacity=0.35, hoverinfo="skip", meta=meta))
    mean = mean_of(seeds)
    dots = {"symbol": SYMBOLS[style[name] % len(SYMBOLS)], "size": 7 if len(mean) <= 40 else 1}
    traces.append(
        go.Scatter(
            x=list(mean),
            y=list(mean.values()),
            mode="lines+markers",
            line={**look, "width": 2.5},
            marker={**dots, "color": look["color"]},
            name=plain(name),
            hovertemplate=f"{plain(name)}: %{{y:.4~g}}<extra></extra>",
            meta={"measure": measure, "name": name, "role": "mean"},
        )
    )
    return traces


def by_epoch(group: Group, name: str, measure: str, scale: int) -> dict[int, dict[int, float]]:
    """Return the values of a measure by seed and epoch; epochs without one are left out."""
    return {
        member.seed: {
            int(line["epoch"]): float(f"{scale * line[measure]:.6g}")
            for line in member.journal
            if line.get(measure) is not None
        }
        for member in group.members
        if member.name == name
    }


def mean_of(seeds: Mapping[int, Mapping[int, float]]) -> dict[int, float]:
    """Return the mean over the seeds that have reached an epoch."""
    epochs = sorted({epoch for values in seeds.values() for epoch in values})
    return {
        epoch: math.fsum(samples) / len(samples)
        for epoch in epochs
        if (samples := [values[epoch] for values in seeds.values() if epoch in values])
    }
