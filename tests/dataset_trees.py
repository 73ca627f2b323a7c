"""Small copies of datasets in their official layouts, and what every reader of one is held to."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmetric.app.data.dataset import Dataset, Reader
from shadowmetric.errors import DataMistake


def image(path: Path, mode: str = "RGB") -> None:
    """Write a small image and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (4, 3), 90 if mode == "L" else (200, 90, 10)).save(path, "JPEG")


def text(path: Path, *lines: str) -> None:
    """Write lines and the folders above them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def change_line(path: Path, number: int, line: str) -> None:
    """Put another line in the place of one of a list."""
    lines = path.read_bytes().decode("utf-8", "surrogateescape").splitlines()
    lines[number - 1] = line
    text(path, *lines)


def rows_of(dataset: Dataset) -> dict[str, list[tuple[str, str]]]:
    """Return the path and the class name of each image, by part."""
    return {
        part: [(split.images.name(number), dataset.classes[label]) for number, label in enumerate(split.labels)]
        for part, split in dataset.parts().items()
    }


def refusal(reader: Reader, root: Path, allow_partial: bool = False) -> str:
    """Return the sentence that a copy is refused with."""
    with pytest.raises(DataMistake, match=r".") as refused:
        reader.read(root, allow_partial)
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def hold_to_counts(monkeypatch, module, name: str, root: Path) -> None:
    """A copy with other counts than the official ones is refused or noted; one with the official counts is neither."""
    reader: Reader = getattr(module, name)
    found = reader.read(root, True)
    images = {part: len(split) for part, split in found.parts().items()}
    classes = {part: len(np.unique(split.labels)) for part, split in found.parts().items()}
    wanted = (
        f"train has {images['train']} images of {classes['train']} classes, "
        f"officially {reader.images['train']:,} of {reader.classes['train']:,}"
    )
    assert wanted in refusal(reader, root)
    assert wanted in found.notes[-1]
    monkeypatch.setattr(module, name, replace(reader, images=images, classes=classes))
    whole = reader.read(root, False)
    assert rows_of(whole) == rows_of(found)
    assert whole.notes == found.notes[:-1]
    for split in whole.parts().values():
        assert split.labels.dtype == np.int64
        assert all(split.images.read(number).shape == (3, 3, 4) for number in range(len(split)))


def hold_to_files(reader: Reader, root: Path, path: str) -> None:
    """An image that is listed and not there is named, or left out if that is allowed; the others stay where they are.

    With none there at all nothing is allowed.
    """
    before = rows_of(reader.read(root, True))
    total = sum(map(len, before.values()))
    (root / reader.folder / path).unlink()
    sentence = refusal(reader, root)
    assert f"{reader.name}: 1 of the {total} images that its lists name are not in {reader.folder}" in sentence
    assert f"the first is {path!r}" in sentence
    assert "--allow-partial" in sentence
    after = reader.read(root, True)
    assert rows_of(after) == {part: [row for row in rows if row[0] != path] for part, rows in before.items()}
    assert any("A partial copy" in note for note in after.notes)
    for file in [file for part in before.values() for file, _ in part if file != path]:
        (root / reader.folder / file).unlink()
    first = next(file for rows in before.values() for file, _ in rows)
    for allow_partial in (False, True):
        sentence = refusal(reader, root, allow_partial)
        assert f"the first is {first!r}" in sentence
        assert "--allow-partial" not in sentence


def hold_to_text(reader: Reader, root: Path, *names: str) -> None:
    """A mark at the start of a list, Windows line ends and empty lines at the end change nothing; no list is missing.

    An empty list is refused.
    """
    before = rows_of(reader.read(root, True))
    for name in names:
        path = root / reader.folder / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    assert rows_of(reader.read(root, True)) == before
    for name in names:
        path = root / reader.folder / name
        kept = path.read_bytes()
        path.write_bytes(b"")
        assert f"{path} has no line; expected " in refusal(reader, root, True)
        path.unlink()
        assert f"{reader.name}: {reader.folder}/{name} is not there (below {root}); get " in refusal(reader, root, True)
        path.write_bytes(kept)
    assert rows_of(reader.read(root, True)) == before


def move(root: Path, old: str, new: str) -> None:
    """Give something below a folder another place there."""
    (root / new).parent.mkdir(parents=True, exist_ok=True)
    (root / old).rename(root / new)


def labeled(dataset: Dataset) -> dict[str, list[tuple[str, str]]]:
    """Return the name of each image's file and its class, by part, sorted: what no layout changes."""
    return {
        part: sorted((path.rpartition("/")[2], name) for path, name in rows) for part, rows in rows_of(dataset).items()
    }


def hold_to_places(reader: Reader, root: Path) -> None:
    """A copy is read in a folder inside itself, under every other name, and where the data root is its folder."""
    before, folder = rows_of(reader.read(root, True)), reader.folder.partition("/")[0]
    places = [f"{folder}/{folder}", *reader.other_folders, folder.upper().replace("_", "-")]
    for number, place in enumerate(places):
        other = root.parent / f"{root.name} {number}"
        (other / place).parent.mkdir(parents=True)
        (root / folder).rename(other / place)
        dataset = reader.read(other, True)
        assert rows_of(dataset) == before, place
        assert place == folder or any(f"Read from {place}" in note for note in dataset.notes), place
        assert rows_of(reader.read(other / place, True)) == before, place
        (other / place).rename(root / folder)
    assert rows_of(reader.read(root, True)) == before
