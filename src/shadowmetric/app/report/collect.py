"""Folders into plain records: which runs there are, what they noted, and which of them stand side by side.

A folder is a run (settings.yaml), a comparison (compare.yaml, its runs inside), or holds such folders one level below.
Runs that belong to no comparison are put together by what they were trained on.

Memory: the journals and scores of all runs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shadowmetric.app.compare.compare import FIGURES, Row, rows_of
from shadowmetric.app.compare.plan import FILE as PLAN_FILE
from shadowmetric.app.compare.plan import Plan, read_plan
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import as_plain
from shadowmetric.errors import Mistake


@dataclass(frozen=True)
class Member:
    """One run: the name of its row, its seed, and what it noted."""

    name: str
    seed: int
    kind: str  # "loss" or "control"
    run: Run
    settings: dict[str, Any]
    journal: list[dict[str, Any]]
    scores: dict[str, Any] | None
    replay: str


@dataclass(frozen=True)
class Group:
    """Runs on the same data, side by side: a comparison, or single runs."""

    title: str
    folder: Path
    members: list[Member]
    rows: list[Row]
    plan: Plan | None = None
    notes: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the rows that have curves, losses first, each once."""
        names = dict.fromkeys(member.name for kind in ("loss", "control") for member in self.of_kind(kind))
        return list(names)

    def of_kind(self, kind: str) -> list[Member]:
        """Return the runs of one kind."""
        return [member for member in self.members if member.kind == kind]

    def representatives(self) -> dict[str, Member]:
        """Return the run that stands for each loss: the finished one with the lowest seed."""
        finished = sorted(self.of_kind("loss"), key=lambda member: member.seed)
        members: dict[str, Member] = {}
        for member in finished:
            if member.scores is not None:
                members.setdefault(member.name, member)
        return {name: members[name] for name in self.names() if name in members}


def collect(folders: Sequence[Path], *, may_be_empty: bool = False) -> list[Group]:
    """Return all runs that the folders hold, comparisons first; refuse a folder without any, unless it may be so."""
    plans, runs = {}, {}
    for folder in folders:
        for place in places(folder, may_be_empty=may_be_empty):
            (plans if (place / PLAN_FILE).exists() else runs)[place.resolve()] = place
    groups = [comparison(place) for place in plans.values()]
    inside = {member.run.folder.resolve() for group in groups for member in group.members}
    groups += single_runs([Run(place) for real, place in runs.items() if real not in inside])
    begun = any(member.journal or member.scores for group in groups for member in group.members)
    if not begun and not may_be_empty:
        raise Mistake(f"{folders[0]} has no finished epoch yet, so there is nothing to report; train on first.")
    return distinct_titles(groups)


def places(folder: Path, *, may_be_empty: bool = False) -> list[Path]:
    """Return the folder itself if it is a comparison or a run, else those below it."""
    if not folder.is_dir():
        there = "is a file" if folder.is_file() else "is not there"
        raise Mistake(f"{folder} {there}; name the folder of a run, a comparison, or one that holds such folders.")
    if is_one(folder):
        return [folder]
    folders = [place for place in sorted(folder.iterdir()) if place.is_dir() and is_one(place)]
    if not folders and not may_be_empty:
        raise Mistake(
            f"{folder} holds no run: there is no settings.yaml or {PLAN_FILE} in it or one folder below; name the "
            "folder of a run, a comparison, or one that holds such folders."
        )
    return folders


def is_one(folder: Path) -> bool:
    """Return whether a folder is a run or a comparison."""
    return (folder / PLAN_FILE).exists() or Run(folder).settings_file.exists()


def distinct_titles(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with titles of which no two are the same.

    A title that several have is put behind the folder's name, as in "way-sgd (digits)", or as much of its path as it
    takes; only a folder that is called as its data keeps it.
    """
    titles = [group.title for group in groups]
    deepest = max((len(group.folder.resolve().parts) for group in groups), default=0)
    for depth in range(1, deepest + 1):
        counts = Counter(titles)
        titles = [
            folder_title(group, depth) if counts[title] > 1 else title
            for group, title in zip(groups, titles, strict=True)
        ]
    return [replace(group, title=title) for group, title in zip(groups, titles, strict=True)]


def folder_title(group: Group, depth: int) -> str:
    """Return a title that begins with the last parts of the folder's path."""
    name = "/".join(group.folder.resolve().parts[-depth:])
    if group.title.partition(",")[0] == name:
        return group.title
    more = f" and {len(group.members) - 1} more" if group.plan is None and len(group.members) > 1 else ""
    return f"{name}{more} ({group.title})"


def comparison(folder: Path) -> Group:
    """Return the runs of a comparison, those under way included."""
    plan = read_plan(folder)
    members = [
        member_of(plan.run(name, seed), name, plan.kind(name))
        for name in plan.methods()
        for seed in plan.all_seeds()
        if plan.run(name, seed).settings_file.exists()
    ]
    try:
        rows = rows_of(plan)
    except OSError as error:
        raise Mistake(
            f"{folder} has a finished run with a file that cannot be read ({error}); train it again."
        ) from None
    return Group(data_title(plan.settings.data, plan.settings.split), folder, members, rows, plan)


def single_runs(runs: Sequence[Run]) -> list[Group]:
    """Return runs that belong to no comparison, those of one dataset together."""
    by_data: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        settings = run.settings()
        by_data.setdefault((settings.data, settings.split), []).append(run)
    groups = []
    for (data, split), some in by_data.items():
        keys = [(run.settings().loss, run.settings().seed) for run in some]
        names = [str(loss) for loss, _ in keys] if len(set(keys)) == len(keys) else [run.folder.name for run in some]
        members = [member_of(run, name, "loss") for run, name in zip(some, names, strict=True)]
        notes = [
            f"{member.run.folder.name} is not finished; go on with `{member.run.resume_command()}`."
            for member in members
            if member.scores is None
        ]
        notes += ["These runs are no comparison: settings other than the loss may differ, and nothing is paired."]
        notes = notes if len(some) > 1 else notes[:-1]
        groups.append(Group(data_title(data, split), some[0].folder, members, plain_rows(members), None, notes))
    return groups


def member_of(run: Run, name: str, kind: str) -> Member:
    """Return what a run noted."""
    settings, scores = run.settings(), run.scores()
    return Member(name, settings.seed, kind, run, as_plain(settings), run.journal(), scores, run.replay())


def plain_rows(members: Sequence[Member]) -> list[Row]:
    """Return what finished runs reached, by name, without any pairing."""
    rows = []
    for name in dict.fromkeys(member.name for member in members):
        scores = [member.scores for member in members if member.name == name and member.scores is not None]
        figures = {figure: [float(one[figure]) for one in scores if one.get(figure) is not None] for figure in FIGURES}
        if scores:
            rows.append(Row(name, "loss", figures, None, []))
    return rows


def data_title(data: str, split: str) -> str:
    """Return a short name for what was trained on."""
    kind, colon, place = data.partition(":")
    half = ", first half of the classes against the second" if split == "classes" else ""
    return (f"{Path(place).name} ({kind})" if colon else data) + half
