"""Somebody's own images in a table: `csv:FILE`, with a header and a line for each image.

    path         below the table's folder, or absolute
    label        any word: the class
    split        train or test; without this column a fifth is held out as the test part (assembly.py)
    is_query     with is_gallery, true or false on each test line: queries are searched in the gallery alone;
    is_gallery   if every test line is both, each test image is searched among the others

Columns come in any order, their names in capitals or not, and others are passed over. `validation` and `val` are other
words for test, as some tools write them; a table that has them beside `test` is refused, since training holds out
validation images itself.
"""

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shadowmetric.app.data.dataset import Dataset, Split
from shadowmetric.app.data.images import FileImages
from shadowmetric.app.data.own.assembly import assemble, number_classes
from shadowmetric.errors import DataMistake
from shadowmetric.runtime.counting import count

TEST_WORDS = ("test", "validation", "val")
TRUTH = {"true": True, "1": True, "1.0": True, "yes": True, "false": False, "0": False, "0.0": False, "no": False}
NEEDED, ROLES = ("path", "label"), ("is_query", "is_gallery")


@dataclass(frozen=True)
class Line:
    """One line of the table: where it stands and what it says, by column."""

    number: int
    words: dict[str, str]


def read_csv(path: Path) -> Dataset:
    """Return the dataset of a table."""
    columns, lines = read_lines(path)
    check_files(path, lines)
    test = parts_of(path, lines) if "split" in columns else None
    labels, classes = number_classes([line.words["label"] for line in lines])
    whole = Split(FileImages(path.parent, [line.words["path"] for line in lines]), labels)
    dataset = assemble(f"csv:{path}", whole, classes, test)
    return dataset if not set(ROLES) & columns else with_gallery(path, columns, lines, whole, test, dataset)


def read_lines(path: Path) -> tuple[set[str], list[Line]]:
    """Return the columns and the lines of a table, or name the first line that is wrong."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.reader(file, strict=True)
            header = [name.strip() for name in next(table, [])]
            columns = [name.lower() for name in header]
            _check_columns(path, columns, header)
            lines = [_line(path, table.line_num, columns, values) for values in table if values]
    except OSError as error:
        raise DataMistake(f"{path} cannot be opened: {error.strerror}; give a CSV file.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataMistake(f"{path} is no CSV file in UTF-8 ({error}); write it again.") from None
    if not lines:
        raise DataMistake(f"{path} has a header and no lines; give a line for each image.")
    return set(columns), lines


def _check_columns(path: Path, columns: list[str], header: list[str]) -> None:
    """Refuse a header; columns: as they are compared."""
    for name in (*NEEDED, "split", *ROLES):
        if columns.count(name) > 1 or (name in NEEDED and name not in columns):
            if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|"):
                raise DataMistake(f"{path} has one column, {header[0]!r}; separate them by commas: path,label.")
            state = "no" if name not in columns else "more than one"
            raise DataMistake(
                f"{path} has {state} column '{name}' in its first line ({', '.join(header) or 'empty'}); "
                "give a header such as path,label,split."
            )


def _line(path: Path, number: int, columns: list[str], values: list[str]) -> Line:
    if len(values) != len(columns):
        found = f"{count(len(values), 'value')} for {count(len(columns), 'column')}"
        raise DataMistake(f"{path}, line {number}: {found}; give one for each.")
    words = {name: value.strip() for name, value in zip(columns, values, strict=True)}
    for name in NEEDED:
        if not words[name]:
            raise DataMistake(f"{path}, line {number}: the {name} is empty; fill it in or remove the line.")
    return Line(number, words)


def check_files(path: Path, lines: list[Line]) -> None:
    """Refuse files that are not there, and files named twice."""
    seen: dict[str, int] = {}
    for line in lines:
        first = seen.setdefault(line.words["path"], line.number)
        if first != line.number:
            raise DataMistake(
                f"{path}, line {line.number}: {line.words['path']} is in line {first} already; remove one."
            )
    missing = [line for line in lines if not (path.parent / line.words["path"]).is_file()]
    if missing:
        gone, first = count(len(missing), "file that is", "files that are"), missing[0]
        raise DataMistake(
            f"{path} names {gone} not there, of {len(lines):,}; the first, in line {first.number}, is "
            f"{path.parent / first.words['path']}; give paths below the table's folder."
        )


def parts_of(path: Path, lines: list[Line]) -> np.ndarray:
    """Return which lines are of the test part."""
    words = [line.words["split"].lower() for line in lines]
    for line, word in zip(lines, words, strict=True):
        if word not in ("train", *TEST_WORDS):
            raise DataMistake(f"{path}, line {line.number}: the split is {line.words['split']!r}; give train or test.")
    used = sorted(set(words) - {"train"})
    if len(used) > 1:
        raise DataMistake(
            f"{path} has lines of the splits {' and '.join(used)}; give train and test only, "
            "since training holds out validation images itself."
        )
    return np.array([word != "train" for word in words])


def with_gallery(
    path: Path, columns: set[str], lines: list[Line], whole: Split, test: np.ndarray | None, dataset: Dataset
) -> Dataset:
    """Return the dataset with the test images parted into queries and gallery."""
    if test is None or not set(ROLES) <= columns:
        raise DataMistake(
            f"{path} has only some of the columns split, is_query, is_gallery; give all three or neither role."
        )
    query, gallery = (
        np.array([in_test and _truth(path, line, role) for line, in_test in zip(lines, test, strict=True)])
        for role in ROLES
    )
    for line, error in zip(lines, test & ~query & ~gallery, strict=True):
        if error:
            raise DataMistake(f"{path}, line {line.number}: a test line is neither query nor gallery; make it one.")
    if (query == gallery).all():
        return dataset
    both = np.flatnonzero(query & gallery)
    if len(both) or not query.any() or not gallery.any():
        what = f"line {lines[both[0]].number} is both" if len(both) else "one of the two has no lines"
        raise DataMistake(f"{path}: {what}; make every test line a query or a gallery line, or every one both.")
    return replace(dataset, test=whole.take(np.flatnonzero(query)), gallery=whole.take(np.flatnonzero(gallery)))


def _truth(path: Path, line: Line, role: str) -> bool:
    word = line.words[role]
    if word.lower() not in TRUTH:
        raise DataMistake(f"{path}, line {line.number}: {role} is {word!r}; give true or false.")
    return TRUTH[word.lower()]
