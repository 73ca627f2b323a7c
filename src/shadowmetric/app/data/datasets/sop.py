"""Stanford Online Products: photographs of 22,634 things once sold on eBay, in twelve departments.

    Stanford_Online_Products/Ebay_train.txt    image_id class_id super_class_id path, below a line that says so
    Stanford_Online_Products/Ebay_test.txt     the same
    Stanford_Online_Products/bicycle_final/*.JPG ...

The lists may be in Info_Files/ and the departments in images/.

Split, the official one, of things unseen in training: 59,551 images of 11,318 things train, 60,502 of 11,316 test.
A thing has no name; it is called by its department and class_id, such as "bicycle 1".

Song, Xiang, Jegelka and Savarese, Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016.
From Stanford, Stanford_Online_Products.zip; no terms stated, for research.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader
from shadowmetric.app.data.datasets.formats.layouts import Layout, first_there, read_copy
from shadowmetric.app.data.datasets.formats.lists import in_two, read_list

LISTS = ("Ebay_train.txt", "Ebay_test.txt")


def read_sop(root: Path, allow_partial: bool) -> Dataset:
    """Return the products below a data root."""
    return read_copy(SOP, root, LAYOUTS, allow_partial)


def parse_lists(reader: Reader, root: Path) -> Dataset:
    """Return what the lists name, whether the files are there or not."""
    expected = "`image_id class_id super_class_id path`"
    folder = root / reader.folder
    names = (first_there(folder, (name, f"Info_Files/{name}")) for name in LISTS)
    train, test = (read_list(reader, root, name, _row, expected, skip=1) for name in names)
    department = {known: path.partition("/")[0].removesuffix("_final") for path, known in train + test}
    classes = {known: f"{department[known]} {known}" for known in sorted(department)}
    return in_two(reader, folder / "images" if (folder / "images").is_dir() else folder, train, test, classes)


def _row(line: str) -> tuple[str, int]:
    _, known, _, path = line.strip().split(maxsplit=3)
    return path, int(known)


LAYOUTS = (
    Layout("the official lists", LISTS, parse_lists),
    Layout("lists in Info_Files and images", ("Info_Files",), parse_lists),
)
SOP = Reader(
    name="sop",
    title="Stanford Online Products",
    folder="Stanford_Online_Products",
    kind=ZERO_SHOT,
    images={"train": 59_551, "test": 60_502},
    classes={"train": 11_318, "test": 11_316},
    source="https://cvgl.stanford.edu/projects/lifted_struct/",
    terms="none stated, research",
    read=read_sop,
    archives=("Stanford_Online_Products.zip",),
    other_folders=("online_products", "sop"),
)
