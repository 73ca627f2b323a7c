"""A report from folders: what they hold is collected, showcases are made or read, and the page is written as a whole.

Folders that hold records of studies only, and no runs, give a page of tables and the memory of their steps.

Where a showcase cannot be made, since the dataset or the weights are gone, the page is made without and says why.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from paper.catalogue import STUDIES
from paper.studies.memory_tables import name_of
from shadowmetric.app.report.showcase.showcase import Album, Choices, Showcase, showcase_of
from paper.study import Records
from shadowmetric.app.report.tables import Table
from shadowmetric.errors import Mistake
from shadowmetric.app.report.charts import MemoryBar
from shadowmetric.app.report.collect import Group, collect, records_of, records_place
from shadowmetric.app.report.page import BUDGET, page
from shadowmetric.app.report.portable import portable, sentence
from shadowmetric.runtime.files import write_whole

Tell = Callable[[str, float], None]  # told what is done, and the share of the whole


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    tables: Sequence[Table] | None = None,
    memory: Sequence[MemoryBar] | None = None,
    pictures: bool = True,
    choices: Choices | None = None,
    budget: int = BUDGET,
    tell: Tell | None = None,
) -> int:
    """Write the page of some folders; return how many bytes it has.

    tables, memory: instead of those of the records that a reproduction leaves in its folder.
    """
    groups = portable(collect(folders), out.parent)
    found = [records_of(place) for place in dict.fromkeys(records_place(folder).resolve() for folder in folders)]
    tables = [table for records in found for table in tables_of(records)] if tables is None else tables
    memory = [bar for records in found for bar in memory_of(records)] if memory is None else memory
    if not groups and not tables and not memory:
        raise Mistake(f"{folders[0]} has records of no finished training yet; reproduce more first.")
    asked = pictures or not groups
    showcases, notes = made_showcases(groups, choices, tell) if asked else ({}, ["Pictures were not asked for."])
    origins = [record.facts.get("origin", {}) for records in found for record in records.values()]
    given = {"tables": tables, "memory": memory, "notes": notes, "origins": origins, "budget": budget}
    text = page(groups, showcases, **given).encode()
    write_whole(out, lambda place: place.write_bytes(text))
    return len(text)


def tables_of(records: Records) -> list[Table]:
    """Return the tables of every study that has records."""
    found = []
    for study in STUDIES.values():
        own = {name: records[name] for name in study.record_names() if name in records}
        found += [table for table in study.tables(own) if table.rows] if own else []
    return found


def memory_of(records: Records) -> list[MemoryBar]:
    """Return the peaks of training steps that were measured."""
    found = []
    for one in records["memory"].found["step_peak"] if "memory" in records else []:
        known = [peak for peak in one["bytes"] if peak is not None]
        if known:
            found.append(MemoryBar(f"a step, D = {one['dim']}", name_of(one["loss"]), max(known)))
    return found


def made_showcases(
    groups: Sequence[Group], choices: Choices | None, tell: Tell | None
) -> tuple[dict[Path, Showcase], list[str]]:
    """Return the showcase of one run of each loss by its folder, and why some could not be made."""
    wanted = [member for group in groups for member in group.shown().values()]
    album, found, notes = Album(), {}, []
    for number, member in enumerate(wanted):

        def told(stage: str, share: float, number: int = number, name: str = member.run.folder.name) -> None:
            if tell is not None:
                tell(f"{name}: {stage}", (number + share) / len(wanted))

        try:
            found[member.run.folder] = showcase_of(member.run, choices, album=album, tell=told)
        except Mistake as wrong:
            notes.append(f"There are no pictures of {member.run.folder.name}: {sentence(str(wrong), [member])}")
    return found, notes
