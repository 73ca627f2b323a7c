"""The JSON of the API.

File names may hold bytes that are no UTF-8, which python keeps as lone surrogates and JSON cannot have; `shown` puts
"\N{REPLACEMENT CHARACTER}" in their place. Absolute paths in the words on training lose all but their last part.
"""

import math
import re
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, Field

from shadowmetric.runtime.catalog import CatalogDecision
from shadowmetric.runtime.entries import Hit
from shadowmetric.runtime.votes import ClassVote, verdict

LONE = re.compile(r"[\ud800-\udfff]")
ABSOLUTE = re.compile(r"(^|[\s:,='\"(])(?:[/\\~]|[A-Za-z]:[/\\])(?:.*[/\\])?", re.DOTALL)


class Problem(BaseModel):
    """Why there is no other answer."""

    detail: str = Field(description="One sentence for people.")


class Found(BaseModel):
    """An image of the index."""

    key: str = Field(description="Names it in the addresses of this API.")
    path: str = Field(description="Below the indexed folder.")
    label: str | None = Field(description="Its class.")
    similarity: float = Field(description="Cosine between its embedding and the query's.", ge=-1.0, le=1.0)
    image: str = Field(description="Where its thumbnail is.")


class Candidate(BaseModel):
    """A class that the most similar images vote for."""

    label: str
    share: float = Field(description="Of the vote.", ge=0.0, le=1.0)
    images: int = Field(description="That voted for it.")
    similarity: float = Field(description="Of the nearest of them.", ge=-1.0, le=1.0)


class Verdict(BaseModel):
    """Whether an image shows anything of the index, and of which class it is."""

    in_catalog: bool | None = Field(description="null if the index has no threshold.")
    threshold: float | None = Field(description="Of the similarity of the nearest image.")
    unknown_accept_rate: float | None = Field(description="Measured share of images of absent classes that reach it.")
    known_reject_rate: float | None = Field(description="Measured share of images of present classes that miss it.")
    classes: list[Candidate] = Field(description="By the vote of the most similar images, best first.")
    words: str = Field(description="The same in words.")


class Neighbors(BaseModel):
    """What was found, most similar first."""

    hits: list[Found]
    verdict: Verdict | None = Field(description="Of an upload that is searched for among all classes.")
    milliseconds: dict[str, float] = Field(description="Time by stage: decode, embed, search.")


class ClassCount(BaseModel):
    """A class of the index."""

    name: str
    images: int


class Limits(BaseModel):
    """What a request may have."""

    bytes: int
    pixels: int
    neighbors: int


class Index(BaseModel):
    """What is searched."""

    images: int
    dim: int
    classes: list[ClassCount] = Field(description="Those asked for, by name.")
    classes_in_all: int
    classes_matching: int = Field(description="How many have the words that were asked for.")
    trained: dict[str, str] = Field(description="How the model was trained, in words.")
    limits: Limits
    version: str


class Health(BaseModel):
    """Whether requests are taken."""

    status: str


def printable(text: str) -> str:
    """Return text that UTF-8 can have."""
    return LONE.sub("\N{REPLACEMENT CHARACTER}", text)


def without_folders(text: str) -> str:
    """Return words on the training; an absolute path keeps its last part."""
    return ABSOLUTE.sub(r"\1", printable(text).rstrip("/\\"))


def verdict_of(classes: Sequence[ClassVote], decision: CatalogDecision | None) -> Verdict:
    """Return a verdict as JSON has it."""
    rates = None if decision is None else (decision.unknown_accept_rate, decision.known_reject_rate)
    return Verdict(
        in_catalog=None if decision is None else decision.in_catalog,
        threshold=None if decision is None else decision.threshold,
        unknown_accept_rate=None if rates is None else rates[0],
        known_reject_rate=None if rates is None else rates[1],
        classes=[
            Candidate(
                label=printable(vote.label),
                share=min(vote.share, 1.0),
                images=vote.images,
                similarity=max(-1.0, min(1.0, vote.similarity)),
            )
            for vote in classes
        ],
        words=printable(verdict(classes, decision)),
    )


def answer(hits: Iterable[Hit], spent: dict[str, float], said: Verdict | None = None) -> Neighbors:
    """Return hits as JSON has them; a similarity that is no number can come only from a damaged row."""
    neighbors = [
        Found(
            key=entry.key,
            path=printable(entry.path),
            label=None if entry.label is None else printable(entry.label),
            similarity=max(-1.0, min(1.0, similarity)),
            image=f"/api/images/{entry.key}",
        )
        for entry, similarity in hits
        if math.isfinite(similarity)
    ]
    milliseconds = {stage: round(1000 * seconds, 2) for stage, seconds in spent.items()}
    return Neighbors(hits=neighbors, verdict=said, milliseconds=milliseconds)
