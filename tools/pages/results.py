"""From records to the pages that quote it: the pages of claims, tables between marks of other pages, images.

    make results        (python -m tools.pages.results)

They are made from the records alone. A test fails if a page differs from what its records make.
"""

from pathlib import Path

from paper.beside import TITLES, difference, format_difference, format_mean
from paper.catalogue import STUDIES
from paper.heads.comparisons import Stores, answer, free_comparisons, protocol_records, read_stores
from paper.quoted import find_quoted
from paper.record import Record, read_record
from paper.studies.differences import WAYS
from shadowmetric.app.report.tables import Table, as_markdown
from shadowmetric.runtime.files import read_rows, write_text
from tools.pages import sizes_image
from tools.pages.claims_pages import claims_page, evidence_page
from tools.pages.demo_table import demo_words, read_demo
from tools.pages.guide import guide_tables, margins_table
from tools.pages.measured_tables import make_measured_tables
from tools.pages.record_files import HEADS as HEADS_HERE
from tools.pages.record_files import STUDIES as STUDIES_HERE
from tools.pages.record_files import record_file

SCALE = "small"
MARKS = "<!-- made by `make results`: begin {0} -->", "<!-- made by `make results`: end {0} -->"
HEADLINES = (  # study, bed, figure, what it is called
    ("standard", "cifar10", "recall_at_1", "Recall@1"),
    ("standard", "fashion_mnist", "recall_at_1", "Recall@1"),
    ("standard", "mnist", "accuracy", "accuracy"),
    ("standard", "head-cifar10", "recall_at_1", "Recall@1"),
    ("standard", "head-cifar100", "accuracy", "accuracy"),
    ("standard", "head-tiny_imagenet", "accuracy", "accuracy"),
    ("fine-grained", "head-cub200", "recall_at_1", "Recall@1"),
    ("medical", "head-ham10000", "macro_f1", "macro-F1"),
    ("medical", "head-odir5k", "macro_f1", "macro-F1"),
)


def records_of(folder: Path) -> dict[str, Record]:
    """Return every record of a folder by its name."""
    return {path.stem: read_record(path) for path in sorted(folder.glob("*.json"))}


def headline_table(records: dict[str, Record]) -> Table:
    """Return the headline table: a row a dataset."""
    rows = []
    for study, bed, figure, words in HEADLINES:
        if bed not in records:
            continue
        record = records[bed]
        data = record.facts["data"]
        paper = [find_quoted(study, data, loss, figure) for loss in ("shadow", "triplet")]
        rows.append(
            (
                f"{TITLES[data]}{', head' if bed != data else ''}, {words}",
                str(len(record.values("shadow", figure))),
                " / ".join(one[0].words if one else "–" for one in paper),
                format_mean(record, "shadow", figure),
                format_mean(record, "triplet", figure),
                format_mean(record, "triplet_control", figure),
                format_mean(record, "untrained", figure),
                format_mean(record, "raw_pixels", figure),
                format_mean(record, "features", figure),
                format_difference(difference(record, figure), figure),
            )
        )
    headings = ("per cent", "seeds", "paper: Shadow / Triplet", "Shadow", "Triplet", "control", "untrained")
    headings = (*headings, "raw pixels", "pooled features", "Shadow − Triplet (95 %)")
    return Table("", "", headings, tuple(rows), ("",) * len(rows))


def short_ways_table(records: dict[str, Record]) -> Table:
    """Return where Shadow can differ from Triplet, and by how much it does."""
    rows = []
    for words, bed in WAYS.items():
        if bed.name in records:
            record = records[bed.name]
            differences = (difference(record, "recall_at_1", "shadow", other) for other in ("triplet", "double_shadow"))
            seeds = str(len(record.values("shadow", "recall_at_1")))
            scores = (format_mean(record, name, "recall_at_1") for name in ("shadow", "raw_pixels"))
            rows.append((words, seeds, *scores, *(format_difference(one, "recall_at_1") for one in differences)))
    headings = ("Fashion-MNIST, Recall@1", "seeds", "Shadow, %", "raw pixels, %", "Shadow − Triplet, points (95 %)")
    headings = (*headings, "Shadow − twice Shadow, points (95 %)")
    return Table("", "", headings, tuple(rows), ("",) * len(rows))


def with_tables(page: str, name: str, *tables: Table) -> str:
    """Return a page with tables between the marks of a name, each below its title if it has one."""
    return with_text(
        page,
        name,
        "\n".join(f"### {one.title}\n\n{as_markdown(one)}" if one.title else as_markdown(one) for one in tables),
    )


def with_text(page: str, name: str, text: str) -> str:
    """Return a page with a text between the marks of a name."""
    begin, end = (mark.format(name) for mark in MARKS)
    before, begin_mark, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not begin_mark or not closed:
        raise ValueError(f"the page has no marks {begin} and {end}.")
    return f"{before}{begin}\n{text}{end}{after}"


def free_words(stores: Stores) -> str:
    """Return what was measured of Shadow beside Triplet on rows of free length, in a sentence."""
    return answer(free_comparisons(stores))


def read_printed_texts(root: Path) -> dict[str, str]:
    """Return what `python -m benchmarks scale` printed, by the marks of docs/scale.md."""
    measured, paper = (
        record_file(root, name).read_text(encoding="utf-8").rstrip() for name in ("scale.txt", "scale-paper.txt")
    )
    computed, heading, ranks = paper.partition("\n\nRanks from which")
    texts = {"measured": measured, "computed": computed, "overtakes": (heading + ranks).strip()}
    return {mark: f"```text\n{text}\n```\n" for mark, text in texts.items()}


def pages(root: Path) -> dict[Path, str]:
    """Return each page and image with what it should hold."""
    records, stores = records_of(root / STUDIES_HERE), read_stores(root / HEADS_HERE)
    drawn = {
        f"docs/images/{study.name}.svg": study.image(records[study.name].found)
        for study in STUDIES.values()
        if study.image is not None and study.name in records
    }
    drawn["docs/images/sizes.svg"] = sizes_image.image(read_rows(record_file(root, "bench-sizes.csv")))
    tables: dict[str, dict[str, list[Table]]] = {
        "docs/reproduction.md": {
            "paper": [headline_table(records | protocol_records(stores)), short_ways_table(records)]
        },
        "docs/choosing.md": {"guide": guide_tables(root, records)},
        "docs/margins.md": {"margins": [margins_table(records)]},
    }
    for page, by_mark in make_measured_tables(root).items():
        tables.setdefault(page, {}).update({name: [table] for name, table in by_mark.items()})
    contents = {}
    for page, by_mark in tables.items():
        contents[page] = (root / page).read_text(encoding="utf-8")
        for name, some in by_mark.items():
            contents[page] = with_tables(contents[page], name, *some)
    contents["README.md"] = with_text(contents["README.md"], "demo", demo_words(read_demo(root)))
    words = free_words(stores)
    contents["README.md"] = with_text(contents["README.md"], "free", f"   {words}\n   ")
    contents["docs/choosing.md"] = with_text(contents["docs/choosing.md"], "free", f"   {words}\n   ")
    contents["docs/scale.md"] = (root / "docs/scale.md").read_text(encoding="utf-8")
    for name, text in read_printed_texts(root).items():
        contents["docs/scale.md"] = with_text(contents["docs/scale.md"], name, text)
    contents["docs/claims.md"], contents["docs/claims-evidence.md"] = (
        make(records, stores) for make in (claims_page, evidence_page)
    )
    return {root / page: text for page, text in (contents | drawn).items()}


if __name__ == "__main__":
    for path, text in pages(Path.cwd()).items():
        write_text(path, text)
        print(f"{path.name} written")
