"""The paper's first figure from real numbers: one triplet in the plane, before and after one step of each loss.

    python -m paper geometry

Three rows in the plane, `ROWS`; the gradient is autograd's, of `TripletLoss` and of `ShadowLoss` of this one triplet,
margin 0.2; a step is row − RATE × gradient, RATE = 0.15 for both. Twice: on rows of free length, and on the same rows
at length 1, where both losses work on unit rows (as in the paper's experiments) and rows are unit again after a step.
With u = a/|a|, σ = sign(|a| − u·x) and x⊥ = x − (u·x) u the gradients are

                Shadow, free rows                    Triplet, free rows    Shadow, unit rows (Triplet: twice that)
    positive    −σ u                                 2 (p − a)             −(a − (a·p) p)
    negative    +σ u                                 2 (a − n)             +(a − (a·n) n)
    anchor      σp (u − p⊥/|a|) − σn (u − n⊥/|a|)    2 (n − p)             n⊥ − p⊥

What the paper says below its figure, and what was found:

    Triplet measures "the angular distance"     It measures squared distance. On unit rows that is 2 (1 − cos), and
                                                Shadow's gap 1 − cos: the angle is what both measure there.
    (b) after Triplet "the positive is nearer   Yes: squared distances 1.700 to 0.250 and 0.943 to 2.993.
    and the negative farther"
    (b) "all embeddings stay in their           Yes, with Shadow as with Triplet: each gradient is a sum of multiples
    original plane"                             of a, p and n, so it cannot leave their plane.
    (c), (d) the positive's projection is       Yes: gaps 0.845 to 0.571 and 0.471 to 0.769. In one plane they always
    drawn closer, the negative's pushed away    are: projections on the anchor lie on its axis.

On free rows Shadow moves p and n along u alone, both by RATE: their distance from the anchor's axis as it was stays
0.993 and 0.849, and it is the anchor that turns. A positive whose shadow ends at the anchor's tip has a gap of 0
however far aside it is. On unit rows both losses step the same way: Shadow at twice the rate ends where Triplet ends.

Cost: less than a second at every scale; there is nothing to reduce.
"""

from typing import Any

import torch
from torch import Tensor

from paper.studies.geometry_image import image as image
from shadowmetric.app.report.tables import Table
from shadowmetric.losses import ShadowLoss, TripletLoss
from shadowmetric.progress import Report

RATE = 0.15
MARGIN = 0.2
ROWS = ((1.3, 0.4), (0.2, 1.1), (1.1, -0.55))  # anchor, positive, negative
NAMES = ("anchor", "positive", "negative")
TILTED = ((1.0, 0.0, 0.0), (0.0, 0.6, 0.8))  # the plane, put into space
NORMAL = (0.0, -0.8, 0.6)  # of that plane
LOSSES = {"triplet": TripletLoss, "shadow": ShadowLoss}
STATES = {
    "before": "before",
    "triplet": "after Triplet",
    "shadow": "after Shadow",
    "shadow_twice": "after Shadow, twice the rate",
}


def measure(scale: str, tell: Report | None = None) -> dict[str, Any]:
    """Take the steps; return every coordinate, measure and gradient as plain JSON."""
    free = torch.tensor(ROWS, dtype=torch.float64)
    results = {"study": "geometry", "scale": scale, "rate": RATE, "margin": MARGIN}
    results |= {"free": steps_from(free, normalize=False)}
    results |= {"unit": steps_from(torch.nn.functional.normalize(free), normalize=True)}
    if tell is not None:
        tell("one triplet, two losses", 1.0)
    return results


def steps_from(rows: Tensor, *, normalize: bool) -> dict[str, Any]:
    """Return the state of a triplet, and after a step of each loss."""
    states: dict[str, Any] = {"before": state(rows, rows, normalize)}
    for name in LOSSES:
        states[name] = step(rows, name, RATE, normalize)
    states["shadow_twice"] = step(rows, "shadow", 2 * RATE, normalize)
    return states


def step(rows: Tensor, loss: str, rate: float, normalize: bool) -> dict[str, Any]:
    """Return the state after a step of gradient descent, and the step."""
    gradient = gradient_of(rows, loss, normalize)
    in_space = gradient_of(rows @ torch.tensor(TILTED, dtype=rows.dtype), loss, normalize)
    moved = rows - rate * gradient
    after = torch.nn.functional.normalize(moved) if normalize else moved
    return state(after, rows, normalize) | {
        "stepped_to": by_name(moved),
        "gradient": by_name(gradient),
        "gradient_out_of_the_plane": (in_space @ torch.tensor(NORMAL, dtype=rows.dtype)).abs().max().item(),
    }


def gradient_of(rows: Tensor, loss: str, normalize: bool) -> Tensor:
    """Return the gradient of a loss of one triplet: rows 0, 1 and 2."""
    rows = rows.clone().requires_grad_()
    return torch.autograd.grad(value_of(rows, loss, normalize), rows)[0]


def value_of(rows: Tensor, loss: str, normalize: bool) -> Tensor:
    """Return a loss of one triplet."""
    triplet = tuple(torch.tensor([number]) for number in range(3))
    return LOSSES[loss](MARGIN, normalize=normalize)(rows, torch.tensor([0, 0, 1]), triplet)


def state(rows: Tensor, first: Tensor, normalize: bool) -> dict[str, Any]:
    """Return what can be said of a triplet; aside: how far a row is from the axis of the anchor before the step."""
    anchor, others = rows[0], {"positive": rows[1], "negative": rows[2]}
    length = anchor.norm()
    shadows = {name: (anchor @ row / length).item() for name, row in others.items()}
    axis = first[0] / first[0].norm()
    across = torch.stack([-axis[1], axis[0]])
    return {
        "rows": by_name(rows),
        "length": length.item(),
        "shadow": shadows,
        "gap": {name: abs(length.item() - shadow) for name, shadow in shadows.items()},
        "squared_distance": {name: (anchor - row).square().sum().item() for name, row in others.items()},
        "degrees": {name: degrees(anchor, row) for name, row in others.items()},
        "aside": {name: (across @ row).item() for name, row in others.items()},
        "loss": {name: value_of(rows, name, normalize).item() for name in LOSSES},
    }


def degrees(first: Tensor, second: Tensor) -> float:
    """Return the angle between two rows."""
    return (torch.arccos(first @ second / (first.norm() * second.norm())) * 180 / torch.pi).item()


def by_name(rows: Tensor) -> dict[str, list[float]]:
    """Return rows by what they are."""
    return dict(zip(NAMES, rows.tolist(), strict=True))


def tables(results: dict[str, Any]) -> list[Table]:
    """Return the states, the gradients, and what the paper's caption says beside what was found."""
    return [states_table(results), gradients_table(results), claims_table(results)]


def states_table(results: dict[str, Any]) -> Table:
    """Return gaps, distances, angles and losses of every state."""
    measures = ("gap", "squared_distance", "degrees", "aside", "loss")
    rows = []
    for kind in ("free", "unit"):
        for name, words in STATES.items():
            state = results[kind][name]
            figures = [" and ".join(map(format_value, state[measure].values())) for measure in measures]
            rows.append((f"{kind} rows, {words}", *figures))
    caption = (
        f"Two figures are of the positive and of the negative, or of the Triplet and of the Shadow loss. One step at a "
        f"rate of {results['rate']:g}, margin {results['margin']:g}. Aside: from the axis of the anchor before the step."
    )
    headings = ("rows", "gaps", "squared distances", "degrees from the anchor", "aside", "Triplet and Shadow loss")
    kinds = tuple("control" if "twice" in row[0] else "loss" for row in rows)
    return Table("One triplet, before and after one step", caption, headings, tuple(rows), kinds)


def gradients_table(results: dict[str, Any]) -> Table:
    """Return every gradient, along the anchor and across it."""
    rows = []
    for kind in ("free", "unit"):
        x, y = results[kind]["before"]["rows"]["anchor"]
        length = results[kind]["before"]["length"]
        for loss in LOSSES:
            gradient = results[kind][loss]["gradient"].values()
            parts = [((g[0] * x + g[1] * y) / length, (g[1] * x - g[0] * y) / length) for g in gradient]
            rows.append(
                (f"{kind} rows, {loss}", *(f"{format_value(along)}, {format_value(across)}" for along, across in parts))
            )
    caption = "Each gradient as its part along the anchor's direction u and its part across u, by autograd."
    return Table("Gradients of one triplet", caption, ("rows, loss", *NAMES), tuple(rows), ("loss",) * len(rows))


def format_value(value: float) -> str:
    """Return a value in words, without a sign if it is 0."""
    return f"{round(value, 3) + 0.0:.3f}"


def claims_table(results: dict[str, Any]) -> Table:
    """Return the sentences of the paper's caption with what was found."""
    free, unit = results["free"], results["unit"]

    def change(loss: str, measure: str) -> str:
        both = [(free["before"][measure][name], free[loss][measure][name]) for name in ("positive", "negative")]
        closer, farther = both[0][1] < both[0][0], both[1][1] > both[1][0]
        figures = "; ".join(f"{name} {old:.3f} to {new:.3f}" for name, (old, new) in zip("pn", both, strict=True))
        return f"{'yes' if closer and farther else 'not both'}: {figures}"

    outside = max(free[loss]["gradient_out_of_the_plane"] for loss in LOSSES)
    stay = "yes, and with Shadow too" if outside < 1e-12 else f"no: {outside:.1e} out of it"
    angle = f"{1 - unit['before']['gap']['positive']:.3f} is 1 − gap, and the cosine, on unit rows"
    rows = (
        ("Triplet measures the angular distance", f"on unit rows both do: {angle}"),
        ("(b) after Triplet the positive is nearer, the negative farther", change("triplet", "squared_distance")),
        ("(b) all embeddings stay in their original plane", stay),
        ("(c) Shadow draws the positive's projection closer, pushes the negative's away", change("shadow", "gap")),
        ("(d) anchor and projections share a plane", "yes, before the step too: projections lie on the anchor's axis"),
    )
    caption = (
        "Free rows unless it says otherwise. The plane: gradients of both losses with the rows put into space are "
    )
    caption += "sums of multiples of the three rows, so they cannot leave it; measured to 1e-12."
    return Table("What the paper's caption says", caption, ("the paper", "found"), rows, ("",) * len(rows))
