"""An embedder: pixels -> backbone -> head -> unit length.

    pixels      p / 255 for uint8, p for floats; then (p - mean) / std for each channel
    features    backbone(pixels)                          (batch, features), pooled
    embedding   W features + b, divided by its length     (batch, dim), rows of length 1

Scaling and normalizing pixels is part of the embedder: what is exported needs nothing beside it. The length is taken
in float32 at least, also under autocast and in half precision, where rows would miss length 1 by a per cent.

mean and std are no part of the state dict: they follow from the settings, as the layers do, so that a state dict
holds `backbone.*` and `head.*` and nothing else.

Memory: what the backbone keeps; one float copy of the pixels.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shadowmetric.app.models.wording import check_whole
from shadowmetric.errors import ModelMistake
from shadowmetric.types import Embeddings


class Embedder(nn.Module):
    """backbone + head + unit length. Takes (batch, channels, height, width): uint8 0 to 255, or floats 0 to 1.

    features: the length of the backbone's rows. mean, std: of each channel, in pixels of 0 to 1. unit: False leaves
    rows as the head gives them.
    `notes` are sentences for people: which weights were loaded, and what of a file was not used.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        features: int,
        dim: int = 64,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        unit: bool = True,
    ):
        super().__init__()
        for name, value in (("features", features), ("dim", dim)):
            check_whole(name, value, 1)
        if len(mean) != len(std) or not mean or not all(value > 0 for value in std):
            raise ModelMistake(
                f"mean is {tuple(mean)} and std is {tuple(std)}; give each one number a channel, std above 0."
            )
        self.backbone, self.unit = backbone, unit
        self.head = nn.Linear(features, dim)
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32)[:, None, None], persistent=False)
        self.notes: tuple[str, ...] = ()

    def forward(self, images: Tensor) -> Embeddings:
        """Return the embeddings of a batch, (batch, dim), of length 1 unless the embedder was told otherwise.

        Two dimensions are features already, (batch, features): those of a frozen backbone are computed once.
        """
        rows = self.head(images if images.ndim == 2 else self.features(images))
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        return nn.functional.normalize(rows, dim=1) if self.unit else rows

    def features(self, images: Tensor) -> Tensor:
        """Return what the head is given: the backbone's pooled rows, (batch, features)."""
        return self.backbone(self.normalize_pixels(images))

    def normalize_pixels(self, images: Tensor) -> Tensor:
        """Return the pixels as the backbone wants them."""
        channels = len(self.mean)
        if images.ndim != 4 or images.shape[1] != channels:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; this embedder takes (batch, {channels}, height, width)."
            )
        if images.dtype == torch.uint8:
            images = images.to(self.mean.dtype) / 255
        elif not images.is_floating_point():
            raise ValueError(f"images are {images.dtype}; give uint8 of 0 to 255, or floats of 0 to 1.")
        return (images.to(self.mean.dtype) - self.mean) / self.std

    def extra_repr(self) -> str:
        """Say what is done to pixels."""
        mean, std = ([round(value, 4) for value in values.flatten().tolist()] for values in (self.mean, self.std))
        return f"mean={mean}, std={std}, unit={self.unit}"


def parameter_groups(embedder: Embedder) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return what is learned, as (name, parameter), of the backbone and of the head apart: they want two rates.

    torch's optimizers take the pairs, from torch 2.6 on:
    [{"params": pairs, "lr": rates[part]} for part, pairs in groups.items()].
    Frozen parameters are left out.
    """
    groups: dict[str, list[tuple[str, nn.Parameter]]] = {"backbone": [], "head": []}
    for name, parameter in embedder.named_parameters():
        if parameter.requires_grad:
            groups["head" if name.startswith("head.") else "backbone"].append((name, parameter))
    return groups
