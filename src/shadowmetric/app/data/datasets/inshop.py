"""In-Shop Clothes Retrieval (DeepFashion): garments of 7,982 items, photographed in the shop.

    In-shop/Eval/list_eval_partition.txt    a count, `image_name item_id evaluation_status`, then a line an image
    In-shop/img/WOMEN/Dresses/id_00000002/02_1_front.jpg ...

The list may be in the folder itself or in Anno/; the images, as the archives are unpacked, in Img/img/, or in their
larger edition, img_highres/ or Img/img_highres/.

Split, the official one, of items unseen in training:

    train      25,882 images of 3,997 items
    query      14,218 images of 3,985 other items: our test part
    gallery    12,612 images of the items of the queries, in which these are searched

Liu, Luo, Qiu, Wang and Tang, DeepFashion: Powering Robust Clothes Recognition and Retrieval, CVPR 2016. From the
Chinese University of Hong Kong, img.zip and the list; for research, non-commercial, not to be passed on.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader, Split
from shadowmetric.app.data.datasets.formats.layouts import Layout, first_there, read_copy
from shadowmetric.app.data.datasets.formats.lists import list_images, read_list

LIST = "list_eval_partition.txt"
LISTS = (f"Eval/{LIST}", LIST, f"Anno/{LIST}")
NAMED, LARGER = "img/", "img_highres"  # how the list begins the paths, and what people have instead
IMAGES = ("img", "Img/img", LARGER, f"Img/{LARGER}")
STATUSES = ("train", "query", "gallery")


def read_inshop(root: Path, allow_partial: bool) -> Dataset:
    """Return the garments below a data root."""
    return read_copy(INSHOP, root, LAYOUTS, allow_partial)


def parse_list(reader: Reader, root: Path) -> Dataset:
    """Return what the list names, whether the files are there or not."""
    folder = root / reader.folder
    name = first_there(folder, LISTS)
    rows = read_list(reader, root, name, _row, "`image_name item_id train|query|gallery`", skip=2)
    classes = {item: item for item in sorted({item for _, item, _ in rows})}
    outer, _, inside = first_there(folder, IMAGES).rpartition("/")

    def part(wanted: str) -> Split:
        some = [(path, item) for path, item, status in rows if status == wanted]
        if inside == LARGER:
            some = [(f"{LARGER}/{path.removeprefix(NAMED)}", item) for path, item in some]
        return list_images(folder / outer, some, classes)

    return Dataset(
        name=reader.name,
        kind=reader.kind,
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


LAYOUTS = (Layout("the official list", LISTS, parse_list),)
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
    archives=("img.zip", LIST),
    other_folders=("In-shop Clothes Retrieval Benchmark", "Inshop_Clothes", "DeepFashion_InShop", "DeepFashion"),
)
