"""A report from folders: what they hold is collected, showcases are made or read, and the page is written as a whole.

Where a showcase cannot be made, since the dataset or the weights are gone, the page is made without and says why.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shadowmetric.app.report.charts import MemoryBar
from shadowmetric.app.report.collect import Group, collect
from shadowmetric.app.report.page import BUDGET, as_bytes, page
from shadowmetric.app.report.portable import portable, sentence
from shadowmetric.app.report.showcase.showcase import Album, Choices, Showcase, showcase_of
from shadowmetric.app.report.tables import Table
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report
from shadowmetric.runtime.files import write_whole


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    tables: Sequence[Table] | None = None,
    memory: Sequence[MemoryBar] = (),
    origins: Sequence[dict[str, Any]] = (),
    images: bool = True,
    choices: Choices | None = None,
    budget: int = BUDGET,
    tell: Report | None = None,
) -> int:
    """Write the page of some folders; return how many bytes it has.

    tables, memory: what stands beside the runs; where tables are given, folders may hold no run at all. origins: where
    the tables come from.
    """
    groups = portable(collect(folders, may_be_empty=tables is not None), out.parent)
    if not groups and not tables and not memory:
        raise Mistake(f"{folders[0]} has no finished training yet, so there is nothing to report; train on first.")
    with_images = images or not groups
    showcases, notes = make_showcases(groups, choices, tell) if with_images else ({}, ["Images were not asked for."])
    options = {"tables": tables or (), "memory": memory, "notes": notes, "origins": origins, "budget": budget}
    text = as_bytes(page(groups, showcases, **options))
    write_whole(out, lambda place: place.write_bytes(text))
    return len(text)


def make_showcases(
    groups: Sequence[Group], choices: Choices | None, tell: Report | None
) -> tuple[dict[Path, Showcase], list[str]]:
    """Return the showcase of one run of each loss by its folder, and why some could not be made."""
    wanted = [member for group in groups for member in group.representatives().values()]
    album, showcases, notes = Album(), {}, []
    for number, member in enumerate(wanted):

        def told(stage: str, share: float, number: int = number, name: str = member.run.folder.name) -> None:
            if tell is not None:
                tell(f"{name}: {stage}", (number + share) / len(wanted))

        try:
            showcases[member.run.folder] = showcase_of(member.run, choices, album=album, tell=told)
        except Mistake as error:
            notes.append(f"There are no images of {member.run.folder.name}: {sentence(str(error), [member])}")
    return showcases, notes
