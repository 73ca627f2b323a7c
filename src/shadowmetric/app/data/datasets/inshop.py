"""In-Shop Clothes Retrieval (DeepFashion): garments of 7,982 items, photographed in the shop.

    In-shop/Eval/list_eval_partition.txt    a count, `image_name item_id evaluation_status`, then a line an image
    In-shop/img/WOMEN/Dresses/id_00000002/02_1_front.jpg ...    or In-shop/Img/img/..., as img.zip may be unpacked

Split, the official one, of items unseen in training:

    train      25,882 images of 3,997 items
    query      14,218 images of 3,985 other items: our test part
    gallery    12,612 images of the items of the queries, in which these are searched

Liu, Luo, Qiu, Wang and Tang, DeepFashion: Powering Robust Clothes Recognition and Retrieval, CVPR 2016. From the
Chinese University of Hong Kong, img.zip and the list; for research, non-commercial, not to be passed on.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader, Split, check_counts
from shadowmetric.app.data.datasets.lists import list_images, on_disk, read_list

LIST = "Eval/list_eval_partition.txt"
STATUSES = ("train", "query", "gallery")


def read_inshop(root: Path, allow_partial: bool) -> Dataset:
    """Return the garments below a data root."""
    return check_counts(INSHOP, on_disk(INSHOP, parse_inshop(root), allow_partial), allow_partial)


def parse_inshop(root: Path) -> Dataset:
    """Return what the list names, whether the files are there or not."""
    rows = read_list(INSHOP, root, LIST, _row, "`image_name item_id train|query|gallery`", skip=2)
    classes = {item: item for item in sorted({item for _, item, _ in rows})}
    folder = root / INSHOP.folder
    folder = folder / "Img" if (folder / "Img" / "img").is_dir() else folder

    def part(wanted: str) -> Split:
        return list_images(folder, [(path, item) for path, item, status in rows if status == wanted], classes)

    return Dataset(
        name=INSHOP.name,
        kind=INSHOP.kind,
        train=part("train"),
        test=part("query"),
        gallery=part("gallery"),
        classes=tuple(classes),
    )


def _row(line: str) -> tuple[str, str, str]:
    path, item, status = line.strip().rsplit(maxsplit=2)
    if status not in STATUSES:
        raise ValueError(status)
    return path, item, status


INSHOP = Reader(
    name="inshop",
    title="In-Shop Clothes Retrieval",
    folder="In-shop",
    kind=ZERO_SHOT,
    images={"train": 25_882, "test": 14_218, "gallery": 12_612},
    classes={"train": 3_997, "test": 3_985, "gallery": 3_985},
    source="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
    terms="research, non-commercial, not to be passed on",
    read=read_inshop,
    archives=("img.zip", "list_eval_partition.txt"),
)
