"""Everything that decides a run, in one record: what the user gave, and after `resolved` nothing is left open.

`None` means "as the recipe and the data suggest". A run's settings.yaml is the resolved record, so that it replays the
run whatever later versions suggest.
"""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from shadowmetric.app.data.augmentation import AUTO, KINDS
from shadowmetric.app.data.image_kind import ImageKind
from shadowmetric.app.data.root import data_root
from shadowmetric.app.training.runs.limits import check_number
from shadowmetric.app.training.runs.recipes import HEAD_ONLY, RECIPES, Recipe, recipe_for
from shadowmetric.app.training.runs.setting_types import fits, words_of
from shadowmetric.app.training.steps.average import AVERAGES
from shadowmetric.batches.budget import parse_bytes
from shadowmetric.errors import Mistake
from shadowmetric.integrations.pml_losses import PREFIX, check_pml_loss
from shadowmetric.losses.catalogue import CLASS_LOSSES, LOSSES, MiningUnit
from shadowmetric.losses.mined import MINERS

CHOICES = {
    "loss": tuple(LOSSES),
    "miner": tuple(MINERS),
    "mining_unit": get_args(MiningUnit),
    "augment": (AUTO, *KINDS),
    "recipe": RECIPES,
    "split": ("official", "classes"),
    "broken": ("refuse", "skip"),
    "select_on": ("validation", "test"),
    "precision": (AUTO, "no", "bf16", "fp16"),
    "average": AVERAGES,
    "device": ("auto", "cpu"),
    "optimizer": ("adam", "adamw", "sgd"),
}
OURS_ONLY = {
    "cross_batch_memory": "has rows remembered that only a loss of this library is compared with; leave it out",
    "length_penalty": "is added to losses of this library only; leave it out",
    "memory_budget": "plans with the bytes that losses of this library state; give a --micro-batch instead",
}
ROWS_ONLY = ("margin", "miner", "mining_unit", "semi_hard_epochs", "unit_rows", "length_penalty", "cross_batch_memory")
ROWS_ONLY = (*ROWS_ONLY, "mine_from_all")
OF_ROWS = "shadow"  # the loss where one of these is given
MICRO_BATCH = 32
ALL = "all"  # images in one batch
EPOCHS_OF_ALL, PATIENCE_OF_ALL = 100, 20  # where an epoch is one step
SMALL_IMAGES = 64  # pixels up to which small_cnn is the backbone unless another is named


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """What decides a run."""

    data: str = "glyphs"
    """A dataset's name, folder:PATH, csv:FILE or npz:FILE; `shadowmetric data list` names them."""
    data_root: Path | None = None
    """Where datasets lie. Default: $SHADOWMETRIC_DATA, else ./data."""
    split: str = "official"
    """official, or classes: the first half of the classes trains, the second half tests."""
    allow_partial: bool = False
    """Accept a copy of a dataset that has not all its images."""
    broken: str = "refuse"
    """What to do with images that cannot be read: refuse, or skip."""
    most_per_class: int | None = None
    """Images of a class that each part keeps, at most: for a quick trial. Which ones does not depend on --seed."""
    validation: float = 0.1
    """Share of the training images, or classes, that epochs are judged by; 0 for none."""
    select_on: str = "validation"
    """What chooses the best epoch: validation, or test, which makes the scores too good and is stamped on them."""
    recipe: str = "default"
    """default, whose values stand beside the options below; finetune, the same from pretrained weights; head: a frozen
    backbone with pretrained weights, whose features are computed once, and a head in seconds; or paper: the published
    protocol to the letter."""
    loss: str | None = None
    """shadow, triplet or another by its name (--loss ? lists them all), or pml:NAME, a loss of
    pytorch-metric-learning by the name of its class. Default: normalized_softmax; shadow from pretrained weights, in
    --recipe paper, and wherever an option is given that only losses of pairs or triplets have."""
    margin: float = 0.2
    """Of losses of triplets and of their miner, in the loss's own unit (pml:TripletMarginLoss: distance)."""
    miner: str = "semi_hard"
    """Of losses of triplets: hard semi_hard batch_hard all."""
    mining_unit: str | None = None
    """What miners compare: loss, what the loss compares, in its unit; or squared, squared distances of embeddings of
    length 1, whatever the loss. Default: loss; squared in --recipe paper."""
    semi_hard_epochs: int = 0
    """Of losses of triplets: mine semi-hard ones in the first so many epochs, and only then as --miner says, since
    hard ones from the start may pull all embeddings into one point."""
    backbone: str | None = None
    """googlenet resnet18 vgg16 small_cnn timm:NAME. Default: timm:tf_efficientnet_lite0 for photos with pretrained
    weights; else small_cnn up to 64 pixels, resnet18 above; googlenet in --recipe paper."""
    weights: str | None = None
    """pretrained, published by the library; a file of weights; none, from scratch; or auto, the default: published ones
    for photos larger than 64 pixels, if they are cached or can be had, else none."""
    unit_rows: bool = True
    """Embeddings of length 1. Without, losses of triplets compare rows as they are; the test compares directions."""
    length_penalty: float = 0.0
    """Added to the loss: so many times the mean squared length of the embeddings, before they get length 1."""
    dim: int = 64
    """Embedding dimension."""
    size: int | None = None
    """Pixels of the square that the embedder sees. Default: 224, or the images' own if they are small."""
    resize: int | None = None
    """Pixels of the short side before the square is cut. Default: as --size; 256 of 224."""
    channels: int | None = None
    """1 for gray, 3 for color. Default: as the images are."""
    augment: str | None = None
    """Random changes in training: none shift crop photo strong drawing, or auto: photo or drawing, as the images look.
    Default: auto; shift from pretrained weights."""
    freeze_batch_norm: bool | None = None
    """Keep the statistics of batch normalization as they are. Default: from pretrained weights only."""
    epochs: int | None = None
    """Maximum number of epochs; with 0 nothing is trained, and the embeddings are the pooled features of pretrained
    weights. Default: 30; 10 from pretrained weights."""
    batch: int | Literal["all"] | None = None
    """Images in a batch: what the loss sees at once, of all processes together; or all: every training image whose
    class has two; 64 where a loss compares rows with rows. Default: 32; 64 from pretrained weights."""
    logical_batch: int | Literal["all"] | None = None
    """The same, of any size: embedded --micro-batch images at a time, with the gradient of the whole batch."""
    micro_batch: int | None = None
    """Images that are embedded at once. Default: 32 with --logical-batch, or as --memory-budget allows."""
    memory_budget: str | None = None
    """Such as 2GB: chooses --micro-batch so that this process never holds more, libraries included."""
    scratch_mb: int = 32
    """Megabytes that mining and the loss may use beside embeddings and results."""
    cross_batch_memory: int = 0
    """Embeddings of earlier batches that anchors are compared with too; 0 for none."""
    cross_batch_warmup: int = 0
    """Batches until the cross-batch memory is compared with."""
    per_class: int | None = None
    """Images of a class in a batch; 1: images as they come, for losses that classify; 4 where a loss compares rows with
    rows. Default: 1; 4 from pretrained weights."""
    mine_from_all: int = 0
    """Mine so many hardest negatives of each image in the whole training set before each epoch but the first; in a
    batch each class then stands beside its hardest rival. 0: batches are drawn."""
    mine_guard: float = 0.5
    """Of --mine-from-all: leave out negatives whose squared distance is below so many times that of the nearest
    positive, which may be wrong labels; 0 for none."""
    batches: int | None = None
    """Batches in an epoch. Default: as many as pass all images."""
    optimizer: str | None = None
    """adam, adamw, sgd. Default: adamw."""
    learning_rate: float | None = None
    """Learning rate of the backbone. Default: 0.005; 0.0001 from pretrained weights."""
    head_learning_rate: float | None = None
    """Learning rate of the head. Default: as --learning-rate."""
    first_layer_rate: float | None = None
    """Rate of the backbone's first layer, as a share of its last one's; between them it rises evenly in its logarithm.
    Default: 1.0; 0.3 from pretrained weights."""
    average: str | None = None
    """Weights that are judged and kept: none, as trained; ema or tail, averaged over the steps. Default: none; ema from
    pretrained weights."""
    weight_decay: float | None = None
    """Of all weights. Default: 0.0001."""
    warmup: float | None = None
    """Share of the steps in which the rates rise from 0; then they fall as a cosine. Default: 0.05; 0.1 from pretrained
    weights."""
    patience: int | None = None
    """Stop after so many epochs without half a point of Recall@1; 0 never stops early. Default: 8; 4 from pretrained
    weights."""
    precision: str | None = None
    """Mixed precision: no, bf16, fp16, or auto: bf16 on a GPU that has it. Default: no; auto from pretrained
    weights."""
    device: str = "auto"
    """auto takes a GPU if there is one; cpu."""
    seed: int = 0
    """Of weights, batches, augmentation and the validation part."""
    workers: int | None = None
    """Processes that read images. Default: none for images in memory."""
    cache_mb: int = 2048
    """Images are kept in memory if they take no more than this."""
    save_every: float = 120.0
    """Seconds between checkpoints within an epoch."""
    track: str | None = None
    """A tracker of accelerate: tensorboard, wandb, mlflow, trackio, ..."""


def check_settings(settings: TrainSettings) -> None:
    """Refuse settings that make no sense, by the names that the command gives them."""
    for name, choices in CHOICES.items():
        value = getattr(settings, name)
        if name == "loss" and value is not None and value.startswith(PREFIX):
            check_with_pml(settings)
        elif value is not None and value not in choices:
            raise Mistake(f"{option(name)} is {value!r}; choose one of {', '.join(choices)}.")
    for name, value in asdict(settings).items():
        if isinstance(value, int | float):
            check_number(name, option(name), value)
    for name in ("learning_rate", "head_learning_rate", "margin"):
        value = getattr(settings, name)
        if value is not None and not 0 < value < float("inf"):
            raise Mistake(f"{option(name)} is {value}; it must be a number above 0.")
    if settings.batch is not None and settings.logical_batch not in (None, settings.batch):
        raise Mistake(
            f"--batch is {settings.batch} and --logical-batch {settings.logical_batch}; both say how many images the "
            "loss sees. Give one of them (a run's settings hold it as batch), and --micro-batch for those that are "
            "embedded at once."
        )
    if settings.semi_hard_epochs and settings.miner == "semi_hard":
        raise Mistake(
            "--semi-hard-epochs has no meaning with --miner semi_hard, which never ends; give --miner hard, batch_hard "
            "or all, which follows."
        )
    if settings.cross_batch_warmup and not settings.cross_batch_memory:
        raise Mistake("--cross-batch-warmup has no meaning without --cross-batch-memory; give both or neither.")
    if settings.cross_batch_memory and settings.loss in CLASS_LOSSES:
        raise Mistake(
            f"--cross-batch-memory adds nothing to {settings.loss}, which compares rows with its centers; leave it out."
        )
    if settings.per_class == 1 and (loss := with_recipe(settings).loss) not in CLASS_LOSSES:
        raise Mistake(f"--per-class is 1, and {loss} compares rows with others of their class; give 2 or more.")
    if settings.memory_budget is not None:
        parse_bytes(settings.memory_budget)
    if settings.recipe == HEAD_ONLY:
        check_frozen(settings)
    if settings.channels not in (None, 1, 3):
        raise Mistake(f"--channels is {settings.channels}; it must be 1 (gray) or 3 (color).")
    if settings.size is not None and settings.resize is not None and settings.size > settings.resize:
        raise Mistake(f"--resize is {settings.resize}; it must be at least --size, {settings.size}.")
    if settings.first_layer_rate is not None and not 0 < settings.first_layer_rate <= 1:
        raise Mistake(f"--first-layer-rate is {settings.first_layer_rate}; it must be a share, above 0, at most 1.")
    for name in ("validation", "warmup"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < 1:
            raise Mistake(f"{option(name)} is {value}; it must be a share, from 0 to below 1.")


def check_frozen(settings: TrainSettings) -> None:
    """Refuse what makes no sense where the backbone is frozen and its features are computed once."""
    if settings.weights == "none":
        raise Mistake(
            "--recipe head trains a head on the features of a pretrained backbone; give its weights by --weights FILE, "
            "or --weights pretrained."
        )
    if settings.augment not in (None, "none"):
        raise Mistake(
            f"--augment is {settings.augment}, and --recipe head computes features once, of images as they are; leave "
            "it out, or train the backbone as well by another --recipe."
        )
    if settings.memory_budget is not None:
        raise Mistake(
            "--memory-budget plans the backbone's steps, and --recipe head has none; leave it out: what mining and the "
            "loss use is --scratch-mb."
        )


def check_with_pml(settings: TrainSettings) -> None:
    """Refuse a loss of another library that there is not, and what goes with our own only."""
    check_pml_loss(str(settings.loss))
    for name, reason in OURS_ONLY.items():
        if getattr(settings, name):
            raise Mistake(f"--loss is {settings.loss}, and {option(name)} {reason}.")


def resolve_settings(
    settings: TrainSettings, *, size: int, resize: int, channels: int, images: ImageKind = "photo"
) -> TrainSettings:
    """Return the settings with nothing left open, for images of this shape and kind."""
    settings = with_recipe(settings)
    augment = images if settings.augment == AUTO else settings.augment
    backbone = settings.backbone or ("small_cnn" if size <= SMALL_IMAGES else "resnet18")
    return replace(settings, backbone=backbone, size=size, resize=resize, channels=channels, augment=augment)


def with_recipe(settings: TrainSettings) -> TrainSettings:
    """Return the settings with all that a recipe decides, and paths that hold from any folder."""
    backbone, weights = settings.backbone, settings.weights
    if settings.recipe == "paper":
        backbone = backbone or "googlenet"
        weights = weights or ("none" if backbone == "small_cnn" else "pretrained")
    comparing = compares_rows(settings) if settings.loss is None else settings.loss not in CLASS_LOSSES
    recipe = recipe_for(settings.recipe, weights not in (None, "none", "auto"), comparing)
    changes = {name: value for name, value in asdict(recipe).items() if getattr(settings, name) is None}
    if settings.loss is None and compares_rows(settings):
        changes["loss"] = OF_ROWS
    if settings.logical_batch is not None:  # the record holds it once, as the batch
        changes |= {"batch": settings.logical_batch, "logical_batch": None}
        if settings.micro_batch is None and settings.memory_budget is None:
            changes["micro_batch"] = MICRO_BATCH
    if ALL in (settings.batch, settings.logical_batch) and settings.batches is None:
        long = {"epochs": EPOCHS_OF_ALL, "patience": PATIENCE_OF_ALL}
        changes |= {name: value for name, value in long.items() if getattr(settings, name) is None}
    if settings.memory_budget is not None:
        changes["cache_mb"] = min(settings.cache_mb, parse_bytes(settings.memory_budget) // 4 // 2**20)
    if settings.learning_rate is not None and settings.head_learning_rate is None:
        changes["head_learning_rate"] = settings.learning_rate * recipe.head_learning_rate / recipe.learning_rate
    kind, colon, place = settings.data.partition(":")
    data = f"{kind}:{Path(place).resolve()}" if colon else settings.data
    if weights not in (None, "none", "auto", "pretrained"):
        weights = str(Path(weights).resolve())
    root = data_root(settings.data_root).resolve()
    return replace(settings, backbone=backbone, weights=weights, data=data, data_root=root, **changes)


def compares_rows(settings: TrainSettings) -> bool:
    """Return whether an option is given that means something only where rows are compared with one another."""
    return any(getattr(settings, name) != getattr(TrainSettings, name) for name in ROWS_ONLY)


def recipe_settings(settings: TrainSettings) -> Recipe:
    """Return the part of resolved settings that a recipe decides."""
    return Recipe(**{field.name: getattr(settings, field.name) for field in fields(Recipe)})


def images_of_batch(settings: TrainSettings) -> int:
    """Return the images of a batch of resolved settings, in which `all` has become their number."""
    return int(settings.batch or 1)


def as_plain(settings: TrainSettings) -> dict[str, Any]:
    """Return the settings as text, numbers and None."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}


def from_plain(document: dict[str, Any], where: Path) -> TrainSettings:
    """Return settings that were read from a file."""
    known = {field.name for field in fields(TrainSettings)}
    unknown = sorted(set(document) - known)
    if unknown:
        raise Mistake(f"{where} has the setting {unknown[0]!r}, which there is not.")
    for name, kind in get_type_hints(TrainSettings).items():
        if name in document and not fits(document[name], kind):
            raise Mistake(f"{where} has {str(document[name])[:60]!r} for {name}, which is no {words_of(kind)}.")
    root: str | None = document.get("data_root")
    values: dict[str, Any] = document | {"data_root": None if root is None else Path(root)}
    return TrainSettings(**values)


def option(name: str) -> str:
    """Return a setting's name as the command spells it."""
    return "--" + name.replace("_", "-")
