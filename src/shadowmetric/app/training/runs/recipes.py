"""How to train, if nobody says otherwise.

paper        the published protocol: Adam at 1e-4 with weight decay 1e-4 and cosine annealing, batches of 32 with 5
             images per class, Inception with batch normalization (googlenet) pretrained on ImageNet. It speaks of data
             augmentations and names none: ours is none. It names 30 epochs for medical sets and 100 for CIFAR, none
             for the others: ours is 30. Every loss mines at 0.2 in squared distance on unit rows, whatever it compares.
head         the backbone frozen and its features computed once, so that a head is trained in seconds: large batches,
             and few epochs, since it begins at the features' principal components
finetune     from pretrained weights: rates that fall towards the first layer, warm-up, AdamW, averaged weights, frozen
             statistics, mixed precision where the device has it
default      `finetune` from pretrained weights; from scratch what was chosen by measurement (LOG.md has the tables):
             losses that classify have batches of 32 images as they come, and losses that compare rows with rows 64
             with four of a class
"""

from dataclasses import dataclass, replace

HEAD_ONLY, FINETUNE = "head", "finetune"
RECIPES = ("default", HEAD_ONLY, FINETUNE, "paper")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings that a recipe decides."""

    loss: str
    epochs: int
    batch: int
    per_class: int
    optimizer: str
    learning_rate: float
    head_learning_rate: float
    weight_decay: float
    warmup: float
    freeze_batch_norm: bool
    augment: str
    patience: int
    mining_unit: str
    first_layer_rate: float = 1.0
    average: str = "none"
    precision: str = "no"


PAPER = Recipe(
    loss="shadow",
    epochs=30,
    batch=32,
    per_class=5,
    optimizer="adam",
    learning_rate=1e-4,
    head_learning_rate=1e-4,
    weight_decay=1e-4,
    warmup=0.0,
    freeze_batch_norm=False,
    augment="none",
    patience=0,
    mining_unit="squared",
)
FROM_SCRATCH = Recipe(
    loss="normalized_softmax",
    epochs=30,
    batch=32,
    per_class=1,
    optimizer="adamw",
    learning_rate=5e-3,
    head_learning_rate=5e-3,
    weight_decay=1e-4,
    warmup=0.05,
    freeze_batch_norm=False,
    augment="auto",
    patience=8,
    mining_unit="loss",
)
COMPARING = replace(FROM_SCRATCH, loss="shadow", batch=64, per_class=4)  # rows with rows: an anchor needs a positive
PRETRAINED = Recipe(
    loss="shadow",
    epochs=10,
    batch=64,
    per_class=4,
    optimizer="adamw",
    learning_rate=1e-4,
    head_learning_rate=1e-4,
    weight_decay=1e-4,
    warmup=0.1,
    freeze_batch_norm=True,
    augment="shift",
    patience=4,
    mining_unit="loss",
    first_layer_rate=0.3,
    average="ema",
    precision="auto",
)
HEAD = Recipe(
    loss="shadow",
    epochs=10,
    batch=512,
    per_class=8,
    optimizer="adamw",
    learning_rate=1e-3,
    head_learning_rate=1e-3,
    weight_decay=1e-4,
    warmup=0.1,
    freeze_batch_norm=True,
    augment="none",
    patience=4,
    mining_unit="loss",
)


def recipe_for(name: str, pretrained: bool, comparing: bool = False) -> Recipe:
    """Return the recipe of that name. comparing: for a loss that compares rows with rows."""
    if name in (HEAD_ONLY, FINETUNE):
        return HEAD if name == HEAD_ONLY else PRETRAINED
    return PAPER if name == "paper" else PRETRAINED if pretrained else COMPARING if comparing else FROM_SCRATCH
