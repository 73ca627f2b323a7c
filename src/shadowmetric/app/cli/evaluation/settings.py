"""Settings of `shadowmetric evaluate`, and what is refused of them before any file is read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shadowmetric.errors import Mistake
from shadowmetric.evaluation import MEASURES
from shadowmetric.evaluation.silhouette import DISTANCES

Sizes = Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
File = Annotated[Path | None, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """Settings of `shadowmetric evaluate`."""

    part: str = "test"
    """Of a run: test, validation, train, gallery."""
    against: Annotated[str | None, Parameter(show_default=False)] = None
    """Of a run: search in this part instead, such as train."""
    data: Annotated[str | None, Parameter(show_default=False)] = None
    """Of a run: measure other data than its own."""
    data_root: File = None
    """Of a run: where datasets lie, if they have moved."""
    gallery: File = None
    """Search in this file instead of the set itself."""
    gallery_labels: File = None
    """Labels of the gallery, if it is a .npy file."""
    measures: Names = MEASURES
    """Any of recall_at precision_at r_precision map_at_r reciprocal_rank silhouette accuracy nmi verification
    collapse. Default: all."""
    recall_at: Sizes = (1, 2, 4, 8)
    """The K of Recall@K. Default: 1 2 4 8."""
    precision_at: Sizes = (10,)
    """The K of Precision@K and of IR recall@K, which divides by all relevant items. Default: 10."""
    neighbors: int = 5
    """How many neighbors vote on a class."""
    silhouette_distance: str = "euclidean"
    """euclidean, cosine, squared."""
    queries: Annotated[int | None, Parameter(show_default=False)] = None
    """Measure a random sample of so many queries."""
    seed: int = 0
    """Of sample, k-means and bootstrap."""
    interval: Annotated[bool, Parameter(show_default=False)] = True
    """With 95 % intervals (the default), or without."""
    worst: int = 5
    """How many worst queries and classes."""
    classes: Flag = False
    """Show precision, recall and F1 of each class."""
    confusion: Flag = False
    """Show which class is taken for which."""
    scratch_mb: int = 128
    """Half of the working memory to use."""
    json: Flag = False
    """Print JSON instead of tables."""
    out: File = None
    """JSON file to write, whatever is printed."""


def check(settings: EvaluateSettings, of_run: bool = False) -> None:
    """Refuse settings that make no sense, by the names they have here."""
    sizes = {
        "--recall-at": settings.recall_at,
        "--precision-at": settings.precision_at,
        "--neighbors": [settings.neighbors],
        "--queries": [] if settings.queries is None else [settings.queries],
        "--scratch-mb": [settings.scratch_mb],
    }
    for name, values in sizes.items():
        for value in values:
            if value < 1:
                raise Mistake(f"{name} is {value}; it must be 1 or more.")
    if of_run and (settings.gallery or settings.gallery_labels):
        raise Mistake("--gallery is for files of embeddings; of a run choose a part with --against.")
    if not of_run and (settings.part != "test" or settings.against or settings.data or settings.data_root):
        raise Mistake("--part, --against, --data and --data-root are for a run; name its folder before the options.")
    if settings.worst < 0:
        raise Mistake(f"--worst is {settings.worst}; it must be 0 or more.")
    if not 0 <= settings.seed < 2**63:
        raise Mistake(f"--seed is {settings.seed}; it must be from 0 to 2**63 - 1.")
    if settings.silhouette_distance not in DISTANCES:
        raise Mistake(
            f"--silhouette-distance is {settings.silhouette_distance!r}; choose one of {', '.join(DISTANCES)}."
        )
    check_measures(spelt(settings.measures), settings)


def check_measures(measures: tuple[str, ...], settings: EvaluateSettings) -> None:
    """Refuse measures that there are not, and tables of one that is not asked for."""
    if not measures:
        raise Mistake(f"--measures names none; choose from {', '.join(MEASURES)}.")
    for name in measures:
        if "." in name:
            raise Mistake(f"--measures has {name!r}, which looks like a file; name files before the options.")
        if name not in MEASURES:
            raise Mistake(f"--measures has {name!r}; choose from {', '.join(MEASURES)}.")
    for option, wanted in (("--classes", settings.classes), ("--confusion", settings.confusion)):
        if wanted and "accuracy" not in measures:
            raise Mistake(f"{option} needs the measure accuracy; add it to --measures.")


def spelt(measures: tuple[str, ...]) -> tuple[str, ...]:
    """Return the measures as the library spells them."""
    return tuple(dict.fromkeys(name.replace("-", "_") for name in measures))


def check_out(out: Path) -> None:
    """Refuse a file that cannot be written, or that is not meant to be, before anything is measured."""
    if out.suffix != ".json":
        raise Mistake(f"--out is {str(out)!r}; its name must end in .json.")
    new = not out.exists()
    write(out, "", mode="a")
    if new:
        out.unlink()


def write(out: Path, text: str, mode: str = "w") -> None:
    """Write text to a file, or say why not."""
    try:
        with out.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Mistake(f"--out {str(out)!r} cannot be written: {error.strerror}; choose another file.") from None
