"""Rows around class centres, as trained embeddings look: the classes overlap, and few dimensions tell them apart."""

import torch
from torch import Tensor

FREE_DIRECTIONS = 8  # of the class centres: trained embeddings use few of their dimensions
SPREAD = 0.5  # of a class around its centre


def around_centres(noise: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Turn normal noise (rows, dim), in place, into rows around the centre of their class; labels count from 0."""
    directions = torch.randn(FREE_DIRECTIONS, noise.shape[1], generator=generator) / FREE_DIRECTIONS**0.5
    centres = torch.randn(int(labels.max()) + 1, FREE_DIRECTIONS, generator=generator) @ directions
    return noise.mul_(SPREAD).add_(centres[labels])
