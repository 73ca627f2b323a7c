"""The paper's figure of two planes: test images of CIFAR-10 under Triplet and under Shadow, by t-SNE.

    python -m paper tsne --scale small --data-root DATA
Beside the trainings of standard: half a minute.

The paper shows elongated, overlapping strands for Triplet and compact, well separated clusters for Shadow; it says that
silhouettes agree: 0.7039 against 0.6527. It does not say how many images, which perplexity, which seed. t-SNE keeps
neighborhoods; sizes of groups and the room between them mean nothing, and another seed draws another plane. So the
silhouette of the embeddings themselves stands beside the image.
Ours: after four short epochs neither plane has compact clusters (docs/images/tsne.svg).
"""

import hashlib
from collections.abc import Iterator
from html import escape
from typing import Any

from paper.bed import Where
from paper.beside import beside_paper
from paper.studies.standard import CIFAR10
from paper.study import Study
from shadowmetric.app.report.showcase.showcase import Choices, showcase_of
from shadowmetric.errors import Stopped
from shadowmetric.progress import Report

POINTS = 800
SHOWN = {"triplet": "Triplet", "shadow": "Shadow"}
SIDE, GAP, TOP, RADIUS = 380, 20, 64, 2.2  # pixels
COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222255", "#e08030", "#117733")


def measure(where: Where, tell: Report) -> dict[str, Any]:
    """Return the planes of the first seed's runs: the same images under both losses."""
    plan = CIFAR10.plan(where)
    planes: dict[str, Any] = {}
    details: dict[str, Any] = {}
    for number, loss in enumerate(SHOWN):
        run = plan.run(loss, plan.settings.seed)
        showcase = showcase_of(
            run,
            Choices(points=POINTS, queries=1),
            tell=lambda stage, share, number=number, loss=loss: tell(f"{loss}: {stage}", (number + share) / 2),
        )
        if showcase.points is None:
            raise Stopped(
                f"the embeddings of {run.folder} are one point, or too few, so there is no plane to draw; remove that "
                "folder to train it again, or choose a larger --scale."
            )
        planes[loss] = {"x": showcase.points.x, "y": showcase.points.y}
        details = {name: getattr(showcase.points, name) for name in ("labels", "perplexity", "seed", "of")}
        details["classes"] = list(showcase.classes)
    return details | {"planes": planes, "weights": weights_of(where)}


def weights_of(where: Where) -> dict[str, str]:
    """Return what the weights of both runs are known by."""
    plan = CIFAR10.plan(where)
    files = {loss: plan.run(loss, plan.settings.seed).best_file for loss in SHOWN}
    return {loss: hashlib.sha256(file.read_bytes()).hexdigest() for loss, file in files.items()}


def image(results: dict[str, Any]) -> str:
    """Return both planes side by side, as an SVG."""
    width, height = 2 * SIDE + 3 * GAP, TOP + SIDE + 2 * GAP + 24
    about = f"{len(results['labels'])} of {results['of']:,} test images, perplexity {results['perplexity']:g}"
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' role='img' "
        "aria-labelledby='title desc' font-family='Helvetica, Arial, sans-serif'>",
        "<title id='title'>t-SNE of the same test images under two losses</title>",
        f"<desc id='desc'>{escape(about)}. Colors are classes.</desc>",
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
        *legend(results["classes"], width),
    ]
    for number, (loss, words) in enumerate(SHOWN.items()):
        left = GAP + number * (SIDE + GAP)
        parts.append(f"<text x='{left}' y='{TOP - 8}' font-size='15' fill='#1f2937'>{words}</text>")
        parts.append(f"<rect x='{left}' y='{TOP}' width='{SIDE}' height='{SIDE}' fill='none' stroke='#d5d9e0'/>")
        parts += dots(results["planes"][loss], results["labels"], left)
    parts.append(f"<text x='{GAP}' y='{height - 12}' font-size='12' fill='#5b6472'>{escape(about)}</text>")
    return "\n".join((*parts, "</svg>\n"))


def legend(classes: list[str], width: int) -> Iterator[str]:
    """Yield a dot and a name for each class."""
    step = (width - 2 * GAP) / max(len(classes), 1)
    for place, name in enumerate(classes):
        x = GAP + place * step
        yield f"<circle cx='{x + 4:.0f}' cy='20' r='4' fill='{COLORS[place % len(COLORS)]}'/>"
        yield f"<text x='{x + 12:.0f}' y='24' font-size='11' fill='#1f2937'>{escape(name)}</text>"


def dots(plane: dict[str, list[float]], labels: list[int], left: int) -> Iterator[str]:
    """Yield a dot for each image."""
    x, y = plane["x"], plane["y"]
    middle = (max(x) + min(x)) / 2, (max(y) + min(y)) / 2
    scale = (SIDE - 16) / max(max(x) - min(x), max(y) - min(y), 1e-9)
    for across, up, label in zip(x, y, labels, strict=True):
        place = left + SIDE / 2 + scale * (across - middle[0]), TOP + SIDE / 2 - scale * (up - middle[1])
        color = COLORS[label % len(COLORS)]
        yield f"<circle cx='{place[0]:.1f}' cy='{place[1]:.1f}' r='{RADIUS}' fill='{color}'/>"


STUDY = Study(
    name="tsne",
    title="t-SNE",
    beds=(CIFAR10,),
    tables=lambda records: (
        [beside_paper(records["cifar10"], "standard", ("silhouette",))] if "cifar10" in records else []
    ),
    measure=measure,
    stale=lambda where, found: found.get("weights") != weights_of(where),
    image=image,
    needs=("openTSNE",),
)
