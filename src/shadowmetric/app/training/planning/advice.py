"""If a run takes hours: what would take minutes, as commands to copy, each with the time that is expected of it.

a small network     where weights are drawn at random: `small_cnn` on 64 pixels, timed here on random images
fewer pixels        where weights are given: time goes with the area (but not for vision transformers, whose
                    weights belong to a size)
fewer images        as many of each class as go into ten minutes
"""

import shlex
from collections.abc import Iterator
from dataclasses import fields, replace

import torch

from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.planning.costs import seconds
from shadowmetric.app.training.planning.forecast import LONG, Forecast
from shadowmetric.app.training.runs.recipes import HEAD_ONLY
from shadowmetric.app.training.runs.settings import SMALL_IMAGES, TrainSettings, images_of_batch, option
from shadowmetric.app.training.show import duration

MINUTES = 600.0  # seconds that fewer images should take
FEWER_PIXELS = 96
FEWER_EPOCHS = 10
LEAST_OF_CLASS = 4
HEAD_SECONDS = 60.0  # of a head on features, at most
IN_PROPORTION = ("train", "validation", "scored", "test", "batches", "unread")  # to the images of a class


def advise(
    forecast: Forecast, given: TrainSettings, command: str = "shadowmetric train", times: float = 1.0
) -> list[str]:
    """Return what would take minutes, a line each, if the plan takes hours. times: how many such runs there are."""
    if times * forecast.seconds() < LONG:
        return []
    lines = [
        f"  {command_of(command, replace(given, **changes))}    about {duration(times * expected)}"
        for changes, expected in quicker(forecast, times)
        if times * expected < LONG
    ]
    return ["That is long. Minutes would be:", *lines] if lines else []


def quicker(forecast: Forecast, times: float) -> Iterator[tuple[dict[str, object], float]]:
    """Yield changes of the settings with the seconds that a run then takes."""
    settings, counts = forecast.settings, forecast.counts
    size = settings.size or 0
    if forecast.source == "from scratch" and settings.backbone != "small_cnn":
        small = replace(settings, backbone="small_cnn", size=SMALL_IMAGES, resize=SMALL_IMAGES)
        yield {"backbone": "small_cnn", "size": SMALL_IMAGES}, with_network(forecast, seconds_of_image(small))
    if (
        forecast.source != "from scratch" and settings.recipe != HEAD_ONLY
    ):  # features once, as the test's scores compute them, and heads in seconds
        images = counts.train + counts.validation + counts.test
        yield {"recipe": HEAD_ONLY}, images * forecast.costs.embed + forecast.reading + HEAD_SECONDS
    if forecast.source != "from scratch" and size > FEWER_PIXELS and "vit" not in str(settings.backbone):
        yield {"size": FEWER_PIXELS}, with_scale(forecast, (FEWER_PIXELS / size) ** 2)
    epochs = min(counts.epochs, FEWER_EPOCHS)
    image = forecast.costs.step / images_of_batch(settings)
    each = int(MINUTES / (times * epochs * image * counts.classes))
    most = counts.train // counts.classes
    if LEAST_OF_CLASS <= each < most:
        share = each / most
        fewer = replace(counts, **{name: int(share * getattr(counts, name)) for name in IN_PROPORTION}, epochs=epochs)
        yield {"most_per_class": each, "epochs": epochs}, replace(forecast, counts=fewer).seconds()


def with_network(forecast: Forecast, image: float) -> float:
    """Return the seconds with a network that takes so long to learn from an image; it embeds one in a third of that."""
    batch = images_of_batch(forecast.settings)
    costs = replace(forecast.costs, step=batch * image, embed=image / 3)
    return replace(forecast, costs=costs).seconds()


def with_scale(forecast: Forecast, scale: float) -> float:
    """Return the seconds where the network takes so much of its time."""
    costs = replace(forecast.costs, step=scale * forecast.costs.step, embed=scale * forecast.costs.embed)
    return replace(forecast, costs=costs).seconds()


def seconds_of_image(settings: TrainSettings) -> float:
    """Return the time of learning from an image, by a batch of random ones."""
    shape = (images_of_batch(settings), settings.channels or 3, settings.size or 0, settings.size or 0)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng():
        embedder = embedder_for(settings).train()

    def step() -> None:
        embedder(images).sum().backward()

    step()
    return min(seconds(step) for _ in range(3)) / len(images)


def command_of(command: str, given: TrainSettings) -> str:
    """Return the command with the settings that are not the defaults."""
    words = [command]
    for field in fields(given):
        value = getattr(given, field.name)
        if value == field.default or value is None:
            continue
        if isinstance(value, bool):
            words.append(option(field.name) if value else option(f"no_{field.name}"))
        else:
            words.append(f"{option(field.name)} {shlex.quote(str(value))}")
    return " ".join(words)
