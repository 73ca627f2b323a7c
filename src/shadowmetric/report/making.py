"""A report from folders: what they hold is collected, showcases are made or read, and the page is written as a whole.

Where a showcase cannot be made, since the dataset or the weights are gone, the page is made without and says why.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from shadowmetric.experiments.catalogue import tables_in
from shadowmetric.experiments.memory_tables import name_of
from shadowmetric.experiments.showcase import Album, Choices, Showcase, showcase_of
from shadowmetric.experiments.study import records_in
from shadowmetric.experiments.tables import Table
from shadowmetric.mistakes import Mistake
from shadowmetric.report.charts import MemoryBar
from shadowmetric.report.collect import Group, collect
from shadowmetric.report.page import BUDGET, page
from shadowmetric.training.files import write_whole

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
    groups = collect(folders)
    tables = tables_in(folders) if tables is None else tables
    memory = memory_in(folders) if memory is None else memory
    showcases, notes = made_showcases(groups, choices, tell) if pictures else ({}, ["Pictures were not asked for."])
    text = page(groups, showcases, tables=tables, memory=memory, notes=notes, budget=budget).encode()
    write_whole(out, lambda place: place.write_bytes(text))
    return len(text)


def memory_in(folders: Sequence[Path]) -> list[MemoryBar]:
    """Return the peaks of training steps that a reproduction measured."""
    found = []
    for folder in folders:
        for record in records_in(folder / "records", ("memory",)).values():
            for one in record.found["step_peak"]:
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
            notes.append(f"There are no pictures of {member.run.folder.name}: {wrong}")
    return found, notes
