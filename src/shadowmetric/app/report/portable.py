"""A page is sent around, so what it says names no folder of the machine that made it.

data_root        is left out of the settings, and called DATA_ROOT in sentences
other paths      are shown by their last part
commands         name paths from the folder of the page or, if not all are below it, from where they part

Only absolute paths are changed: relative ones stay as somebody wrote them.
"""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shadowmetric.app.data.root import data_root
from shadowmetric.app.report.collect import Group, Member

LEFT_OUT = "data_root"
FOLDERS = re.compile(r"(?<![\w/.])/(?:[^\s/'\"`(),;]+/)+")  # of an absolute path, all but its last part


def portable(groups: Sequence[Group], page_folder: Path) -> list[Group]:
    """Return the groups with notes and commands as a page in this folder may show them."""
    return [
        replace(
            group,
            notes=[sentence(note, group.members) for note in group.notes],
            members=[replace(one, replay=command(one.replay, page_folder.resolve())) for one in group.members],
        )
        for group in groups
    ]


def setting(name: str, value: str) -> str:
    """Return a setting without the folders of its path."""
    kind, colon, place = value.partition(":")
    if name == "data" and colon:
        return f"{kind}:{Path(place).name}"
    return Path(value).name if name == "weights" else value


def sentence(words: str, members: Sequence[Member] = ()) -> str:
    """Return words without absolute paths: those of these runs by their names, any other by its last part."""
    names = {path: name for member in members for path, name in names_of(member).items() if len(Path(path).parts) > 1}
    if names:
        longest_first = "|".join(re.escape(path) for path in sorted(names, key=len, reverse=True))
        words = re.sub(rf"(?<![\w/.])(?:{longest_first})(?![\w-])", lambda found: names[found[0]], words)
    return FOLDERS.sub("", words)


def names_of(member: Member) -> dict[str, str]:
    """Return what the absolute paths of a run are called, also where a shell needs quotes around them."""
    root = data_root(None if member.settings[LEFT_OUT] is None else Path(member.settings[LEFT_OUT]))
    places = [member.settings["data"].partition(":")[2], member.settings["weights"] or "", str(member.run.folder)]
    names = {str(root): "DATA_ROOT"} | {place: Path(place).name for place in places}
    names = {path: name for path, name in names.items() if Path(path).is_absolute()}
    return {shlex.quote(path): shlex.quote(name) for path, name in names.items()} | names


def command(words: str, page_folder: Path) -> str:
    """Return a command without absolute paths; nothing if it is none that a shell could read."""
    try:
        parts = shlex.split(words)
    except ValueError:
        return ""
    places = [Path(part) for part in parts if Path(part).is_absolute()]
    if not places:
        return words
    below = all(place.is_relative_to(page_folder) for place in places)
    start = page_folder if below else Path(os.path.commonpath([place.parent for place in places]))
    return shlex.join(str(Path(part).relative_to(start)) if Path(part).is_absolute() else part for part in parts)
