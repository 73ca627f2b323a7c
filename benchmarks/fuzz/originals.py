"""Whole files of every format, in one folder: a finished run, a stopped one, a comparison, an index, data, weights.

Small, and the same for the same version: the run is never trained, the stopped one for three batches.
"""

import gzip
import lzma
import signal
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from shadowmetric.app.report.showcase.showcase import Choices, showcase_of
from shadowmetric.app.training.runs.run import Run

DIM = 6
SIDE = 8
CLASSES = ("ant", "bee", "cat")
FEW = Choices(queries=1, neighbors=2, points=40, perplexity=5.0, classes=3, side=8, point_side=8)
IMAGES = {"png": "PNG", "jpg": "JPEG", "bmp": "BMP", "gif": "GIF", "webp": "WEBP", "tif": "TIFF"}
CONFIG = """\
# what a user may write
data: digits
loss: triplet
margin: 0.3
epochs: 2
batch: 32
per-class: 4
dim: 16
seed: 7
validation: 0.1
augment: shift
freeze-batch-norm: false
save_every: 60
"""


def pixels(seed: int) -> np.ndarray:
    """Return gray noise."""
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE), np.uint8)


def write_all(folder: Path, *, exported: bool = True) -> None:
    """Write every file. exported: with models that onnxruntime reads, which takes some seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    write_images(folder)
    write_tables(folder)
    write_archives(folder)
    write_lists(folder)
    write_weights(folder)
    write_run(folder / "run")
    write_stopped(folder)
    write_plan(folder / "comparison")
    write_index_of(folder)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "token").write_text("0123456789abcdef0123\n")
    if exported:
        write_exported(folder)


def write_images(folder: Path) -> None:
    """Write a folder a class, and one image in each format."""
    for number, name in enumerate(CLASSES):
        (folder / "photos" / name).mkdir(parents=True)
        for place in range(6):
            Image.fromarray(pixels(10 * number + place)).save(folder / "photos" / name / f"{place}.png")
    for ending, called in IMAGES.items():
        color = np.stack([pixels(seed) for seed in (1, 2, 3)], axis=2)
        Image.fromarray(color).save(folder / f"image.{ending}", called)


def write_tables(folder: Path) -> None:
    """Write the images as a table and as arrays, and embeddings with labels as arrays."""
    paths = sorted((folder / "photos").rglob("*.png"))
    lines = [
        f"{path.relative_to(folder)},{path.parent.name},{'test' if path.stem in '45' else 'train'}" for path in paths
    ]
    (folder / "table.csv").write_text("\n".join(["path,label,split", *lines, ""]))
    random = np.random.default_rng(0)
    labels = np.arange(18) % 3
    np.savez(folder / "images.npz", images=np.stack([pixels(seed) for seed in range(18)]), labels=labels)
    rows = random.normal(size=(18, DIM)).astype(np.float32)
    np.savez_compressed(folder / "rows.npz", embeddings=rows, labels=np.array([CLASSES[label] for label in labels]))
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", labels)


def write_archives(folder: Path) -> None:
    """Write the images as archives."""
    with zipfile.ZipFile(folder / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "photos").rglob("*.png")):
            archive.write(path, path.relative_to(folder))
    with tarfile.open(folder / "photos.tar", "w") as archive:
        archive.add(folder / "photos", "photos")
    stored = (folder / "photos.tar").read_bytes()
    (folder / "photos.tgz").write_bytes(gzip.compress(stored))
    (folder / "photos.tar.xz").write_bytes(lzma.compress(stored))


def write_lists(folder: Path) -> None:
    """Write the files of two published datasets in their layouts: lists of CUB-200, arrays of MNIST."""
    cub = folder / "data" / "CUB_200_2011"
    (cub / "images").mkdir(parents=True)
    classes = {1: "001.Black_footed_Albatross", 2: "002.Laysan", 101: "101.Pelican", 102: "102.Brown"}
    images = [(number, label) for number, label in enumerate(sorted(classes) * 4, start=1)]
    for number, label in images:
        (cub / "images" / classes[label]).mkdir(exist_ok=True)
        Image.fromarray(pixels(number)).save(cub / "images" / classes[label] / f"{number}.jpg")
    (cub / "classes.txt").write_text("".join(f"{label} {name}\n" for label, name in classes.items()))
    (cub / "images.txt").write_text("".join(f"{one} {classes[label]}/{one}.jpg\n" for one, label in images))
    (cub / "image_class_labels.txt").write_text("".join(f"{one} {label}\n" for one, label in images))
    raw = folder / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        grays = np.random.default_rng(1).integers(0, 256, (20, 28, 28), np.uint8)
        for kind, array in (("images-idx3", grays), ("labels-idx1", (np.arange(20) % 10).astype(np.uint8))):
            start = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            (raw / f"{part}-{kind}-ubyte").write_bytes(start + array.tobytes())


def write_weights(folder: Path) -> None:
    """Write weights as both formats of files have them."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(0)
    tensors = {"conv1.weight": torch.randn(4, 3, 3, 3, generator=generator), "bn1.bias": torch.zeros(4)}
    save_file(tensors, folder / "weights.safetensors")
    torch.save({"state_dict": tensors, "epoch": 3}, folder / "weights.pt")


def write_run(folder: Path) -> None:
    """Write a finished run on the digits, whose embedder was never trained: it is made in a moment."""
    import torch

    from shadowmetric.app.models.from_settings import embedder_for
    from shadowmetric.app.training.runs.settings import TrainSettings, resolve_settings
    from shadowmetric.app.training.runs.tensor_files import save_tensors

    settings = TrainSettings(data="digits", dim=DIM, device="cpu", epochs=2)
    settings = resolve_settings(settings, size=SIDE, resize=SIDE, channels=1)
    run = Run(folder)
    run.begin(settings)
    weights = embedder_for(settings).state_dict()
    run.write(run.best_file, lambda place: save_tensors(place, weights))
    lines = [
        {"epoch": epoch, "loss": 1 / epoch, "recall_at_1": 0.5, "map_at_r": None, "seconds": 1.5} for epoch in (1, 2)
    ]
    run.write_journal([line | {"validation_seconds": 0.5, "warnings": ["short"]} for line in lines])
    values = {"recall_at_1": torch.tensor([1.0, 0.0, 1.0]), "labels": torch.tensor([0, 1, 0])}
    run.write(run.queries_file, lambda place: save_tensors(place, values))
    figures = {
        "recall_at_1": 0.66,
        "map_at_r": 0.3,
        "notes": [],
        "best_epoch": 2,
        "epochs": 2,
        "selected_on": "validation",
    }
    run.write_scores(figures | {"setting": {"queries": 3, "classes": 2, "protocol": "leave-one-out"}})


def write_stopped(folder: Path) -> None:
    """Write a run that was stopped in its first epoch."""
    from shadowmetric.app.training.loop import train
    from shadowmetric.app.training.runs.settings import TrainSettings
    from shadowmetric.app.training.show import Moment, Silent
    from shadowmetric.errors import Interrupted

    class StopAfterThree(Silent):
        def wants(self) -> bool:
            return True

        def moment(self, moment: Moment) -> None:
            if moment.batch == 3:
                signal.raise_signal(signal.SIGTERM)

    settings = TrainSettings(
        data="digits", dim=4, device="cpu", epochs=2, batches=5, batch=8, per_class=2, most_per_class=12
    )
    try:
        train(settings, folder / "stopped", show=StopAfterThree())
    except Interrupted:
        return
    raise AssertionError("the run was to be stopped")


def write_plan(folder: Path) -> None:
    """Write a comparison in which nothing is trained yet."""
    from shadowmetric.app.compare.plan import Plan
    from shadowmetric.app.training.runs.settings import TrainSettings

    Plan(TrainSettings(data="digits", epochs=1, device="cpu"), folder, losses=("shadow", "triplet"), seeds=2).begin()


def write_index_of(folder: Path) -> None:
    """Write an index of the images, made by the run, and what the run's folder keeps: thresholds, a page's images."""
    from shadowmetric.app import serving

    serving.index(folder / "run", folder / "photos", folder / "photos.shadowmx")
    photos = folder / "photos"
    serving.verify(folder / "run", photos / "ant" / "0.png", photos / "ant" / "1.png")
    showcase_of(Run(folder / "run"), FEW)


def write_exported(folder: Path) -> None:
    """Write an exported model and a bundle."""
    from shadowmetric.app import serving

    exported = folder / "exported"
    serving.export(folder / "run", exported, images=50, int8=False, bundle=folder / "device", gallery=folder / "photos")
