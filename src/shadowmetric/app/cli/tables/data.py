"""How datasets look: the list of them, what a check found, what was added."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shadowmetric.app.cli.screen import new_table, plain, say, show
from shadowmetric.app.data.catalogue import DATASETS, is_here
from shadowmetric.app.data.dataset import ZERO_SHOT, Reader
from shadowmetric.app.data.manage.adding import Added
from shadowmetric.app.data.manage.inspection import Inspection, PartFound
from shadowmetric.runtime.counting import count

LEAST_WIDTH_FOR_TERMS = 110  # of a screen that has a column for them
KINDS = {"zero_shot": "zero-shot", "standard": "standard"}


def classes_of(reader: Reader) -> int:
    """Return how many classes a dataset has in all parts together."""
    return reader.classes["train"] + (reader.classes["test"] if reader.kind == ZERO_SHOT else 0)


def as_rows(root: Path) -> list[dict]:
    """Return what is known of each dataset, for JSON."""
    return [
        {
            "name": reader.name,
            "title": reader.title,
            "kind": reader.kind,
            "images": reader.images,
            "classes": reader.classes,
            "terms": reader.terms,
            "source": reader.source,
            "archives": list(reader.archives),
            "downloads": reader.download is not None,
            "here": is_here(reader, root),
        }
        for reader in DATASETS.values()
    ]


def print_list(console: Console, root: Path) -> None:
    """Print every dataset, then where each comes from."""
    table = new_table(None, "name", "images", "classes", "kind", "here", "what it is")
    table.columns[0].justify = table.columns[3].justify = "left"
    for reader in DATASETS.values():
        here = Text("yes", "green") if is_here(reader, root) else Text("no", "dim")
        images = sum(reader.images.values())
        table.add_row(reader.name, f"{images:,}", f"{classes_of(reader):,}", KINDS[reader.kind], here, reader.title)
    say(console, f"Data root: {root}{'' if root.is_dir() else ' (not there yet)'}", "bold")
    show(console, table)
    show(console, sources(console.width >= LEAST_WIDTH_FOR_TERMS))
    console.print()
    downloads = ", ".join(reader.name for reader in DATASETS.values() if reader.download)
    say(console, f"`shadowmetric data add NAME ARCHIVE…` adds one; {downloads} need no archive.", "dim")
    say(console, "`shadowmetric data check NAME` looks whether it is whole.", "dim")


def sources(wide: bool) -> Table:
    """Return the table of where each dataset comes from, with addresses that a terminal can open."""
    table = new_table("Where they come from", "name", "source", *(["terms"] if wide else []))
    for column in table.columns:
        column.justify, column.overflow = "left", "fold"
        column.no_wrap = column.header == "name" or (wide and column.header == "source")
    for reader in DATASETS.values():
        address = reader.source.split()[0]
        source = Text(reader.source, f"link {address}" if address.startswith("http") else "")
        rest = [reader.terms] if wide else []
        table.add_row(reader.name, source if wide else source.append(f"\n{reader.terms}", "dim"), *rest)
    return table


def print_inspection(console: Console, inspection: Inspection, faults: list[str]) -> None:
    """Print what a check found, and the verdict."""
    say(console, plain(f"{inspection.name}, {KINDS[inspection.kind]}"), "bold")
    official = any(part.official_images is not None for part in inspection.parts.values())
    headings = ("images", *(["official"] if official else []), "classes", *(["official"] if official else []))
    table = new_table(None, "part", *headings, "images a class", *(["copies"] if inspection.decoded else []))
    table.columns[0].justify = "left"
    for part, seen in inspection.parts.items():
        table.add_row(
            part, *_counts(seen, official), _sizes(seen), *([f"{seen.copies:,}"] if inspection.decoded else [])
        )
    show(console, table)
    console.print()
    for sentence in sentences(inspection):
        say(console, plain(sentence))
    for note in inspection.notes:
        say(console, plain(note), "dim")
    findings = inspection.findings()
    for fault in faults:
        say(console, plain(f"Wrong: {fault}"), "red")
    for finding in findings:
        say(console, plain(f"Found: {finding}"), "yellow")
    if not faults and not findings:
        say(console, "Nothing is wrong." if inspection.decoded else "Nothing is wrong; no image was decoded.", "green")


def _counts(seen: PartFound, official: bool) -> list[str]:
    pairs = ((seen.images, seen.official_images), (seen.classes, seen.official_classes))
    return [f"{value or 0:,}" for pair in pairs for value in (pair if official else pair[:1])]


def _sizes(seen: PartFound) -> str:
    least, most = seen.smallest[1], seen.largest[1]
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def sentences(inspection: Inspection) -> list[str]:
    """Return what there is to say beside the counts."""
    lines = []
    for part, seen in inspection.parts.items():
        if seen.smallest[1] < seen.largest[1]:
            lines.append(
                f"{part}: the smallest class is {seen.smallest[0]} ({seen.smallest[1]:,}), "
                f"the largest {seen.largest[0]} ({seen.largest[1]:,})."
            )
    lines.append(class_sentence(inspection))
    if inspection.common_groups == 0:
        lines.append("No group is on both sides of the split.")
    return lines + (pixel_sentences(inspection) if inspection.decoded else [])


def class_sentence(inspection: Inspection) -> str:
    """Return how the classes of training and test lie to each other."""
    if inspection.kind == ZERO_SHOT:
        return f"Training and test have {count(inspection.common_classes, 'class')} in common."
    if inspection.new_classes:
        return f"{count(inspection.new_classes, 'test class is', 'test classes are')} not in training."
    return "Every test class is in training."


def pixel_sentences(inspection: Inspection) -> list[str]:
    """Return what decoding has shown."""
    images = sum(part.images for part in inspection.parts.values())
    lines = [f"All {count(images, 'image')} can be read."]
    if inspection.unreadable:
        lines = [f"{count(inspection.unreadable, 'image')} cannot be read:"]
        lines += [f"  {name}" for name in inspection.unreadable_named] + more(
            inspection.unreadable, len(inspection.unreadable_named)
        )
    for part, seen in inspection.parts.items():
        if seen.copies:
            lines.append(f"{part}: {count(seen.copies, 'image has', 'images have')} the pixels of another in it:")
            lines += pairs(seen.copies, seen.copies_named)
    if inspection.shared:
        lines.append(
            f"{count(inspection.shared, 'test image has', 'test images have')} the pixels of a training image:"
        )
        lines += pairs(inspection.shared, inspection.shared_named)
    else:
        lines.append("No test image has the pixels of a training image.")
    if inspection.conflicts:
        lines.append(f"{count(inspection.conflicts, 'image is', 'images are')} there with two classes or more:")
        lines += pairs(inspection.conflicts, inspection.conflicts_named)
    return lines


def pairs(total: int, named: Sequence[tuple[str, str]]) -> list[str]:
    """Return a line for each pair of names, and one for those that are not named."""
    return [f"  {name} = {other}" for name, other in named] + more(total, len(named))


def more(total: int, named: int) -> list[str]:
    """Return a line for those that are not named, if any."""
    return [f"  and {total - named:,} more"] if total > named else []


def print_added(console: Console, reader: Reader, root: Path, added: Added) -> None:
    """Print the sums of the archives, the counts and the place."""
    for name, digest in added.sums.items():
        say(console, f"{name}: sha256 {digest}")
    counts = ", ".join(
        f"{part} {count(images, 'image')} of {count(classes, 'class')}"
        for part, (images, classes) in added.counts.items()
    )
    say(console, f"{reader.name}: {counts}; in {root / reader.folder}", "bold")
    for note in added.notes:
        say(console, note, "dim")
