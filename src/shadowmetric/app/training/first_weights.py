"""`--weights auto`: what a run begins with where nobody says it.

    photos larger than 64 pixels, in color     published weights of the backbone, if they can be had
    drawings, symbols, gray and small images   none: from scratch
    --recipe head and finetune                 published weights, whatever the images are, or a refusal

Where published weights of photos cannot be had, a run begins from scratch with the small network at 64 pixels, minutes
instead of hours, and says what that costs and how to bring a file. A backbone or a size that was named stays.
"""

from dataclasses import fields, replace

from shadowmetric.app.data.image_kind import Look
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.app.models.published import PublishedWeights, published_weights_of
from shadowmetric.app.training.runs.recipes import FINETUNE, HEAD_ONLY, Recipe
from shadowmetric.app.training.runs.settings import SMALL_IMAGES, TrainSettings
from shadowmetric.errors import Mistake

AUTO = "auto"
PHOTO_BACKBONE = "timm:tf_efficientnet_lite0"  # 4.7 million parameters: a CPU trains it, a phone searches with it
COST = "On photos of birds (CUB-200) a short training from scratch reached 7 % Recall@1, such weights untrained 25 %"


def choose_weights(settings: TrainSettings, shape: Preprocessing, look: Look | None) -> tuple[TrainSettings, str]:
    """Return the settings with their weights, and a backbone and a size if those follow; and what is to be said."""
    if not is_open(settings):
        return settings, ""
    asked = settings.recipe in (HEAD_ONLY, FINETUNE) or settings.weights == AUTO
    suits = look is not None and look.kind == "photo" and shape.channels == 3 and shape.size > SMALL_IMAGES
    backbone = settings.backbone or PHOTO_BACKBONE
    if not (asked or suits) or backbone == "small_cnn":
        return without_weights(settings, f"{backbone} has no published weights"), ""
    published = published_weights_of(backbone)
    if published.reason is None:
        return replace(settings, backbone=backbone, weights="pretrained"), ""
    settings = without_weights(settings, published.reason, published)
    if settings.backbone is None and settings.size is None and shape.size > SMALL_IMAGES:
        settings = replace(settings, size=SMALL_IMAGES, resize=SMALL_IMAGES, backbone="small_cnn")
    return settings, loud(backbone, published)


def without_weights(settings: TrainSettings, reason: str, published: PublishedWeights | None = None) -> TrainSettings:
    """Return the settings of a run from scratch, or refuse a recipe that has no such thing."""
    if settings.recipe in (HEAD_ONLY, FINETUNE):
        raise Mistake(
            f"--recipe {settings.recipe} begins with pretrained weights, and there are none ({reason}); "
            f"{how_to_bring(settings.backbone or PHOTO_BACKBONE, published)}."
        )
    return replace(settings, weights="none")


def loud(backbone: str, published: PublishedWeights) -> str:
    """Say that training begins from scratch, what that costs, and how to bring weights."""
    return (
        f"FROM SCRATCH: the published weights of {backbone} cannot be had ({published.reason}). {COST}; "
        f"{how_to_bring(backbone, published)}; --weights none says that none are wanted."
    )


def how_to_bring(backbone: str, published: PublishedWeights | None) -> str:
    """Say where a file of weights comes from, and which options name it."""
    where = "" if published is None or not published.address else f" from {published.address}"
    return f"bring a file of weights{where}, and give it by --backbone {backbone} --weights FILE"


def is_open(settings: TrainSettings) -> bool:
    """Return whether nobody has said what a run begins with; a record that holds all of its recipe was decided."""
    if settings.recipe == "paper":
        return False
    if settings.weights is None:
        return any(getattr(settings, field.name) is None for field in fields(Recipe))
    return settings.weights == AUTO
