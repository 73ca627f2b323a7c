"""Rows around class centers, as trained embeddings look: the classes overlap, and few dimensions tell them apart."""

import torch
from torch import Tensor

FREE_DIRECTIONS = 8  # of the class centers: trained embeddings use few of their dimensions
SPREAD = 0.5  # of a class around its center


def scatter_around_centers(noise: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Turn normal noise (rows, dim), in place, into rows around the center of their class; labels count from 0."""
    directions = torch.randn(FREE_DIRECTIONS, noise.shape[1], generator=generator) / FREE_DIRECTIONS**0.5
    centers = torch.randn(int(labels.max()) + 1, FREE_DIRECTIONS, generator=generator) @ directions
    return noise.mul_(SPREAD).add_(centers[labels])
