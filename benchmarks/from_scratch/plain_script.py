"""What one writes in an hour: a plain CNN of 120,000 weights, cross-entropy or triplets, flips and shifts, AdamW."""

import time

import torch
from torch import Tensor, nn
from torch.nn import functional


class PlainCNN(nn.Module):
    """Four convolutions with batch normalization and max-pooling, and the mean over places: 128 features."""

    def __init__(self, channels: int, classes: int):
        super().__init__()
        widths, layers = (channels, 24, 48, 64, 128), []
        for narrow, wide in zip(widths, widths[1:], strict=False):
            layers += [nn.Conv2d(narrow, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), nn.MaxPool2d(2)]
        self.layers, self.classifier = nn.Sequential(*layers[:-1]), nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of uint8 images; their directions are compared."""
        images = (images / 127.5 - 1).contiguous(memory_format=torch.channels_last)
        return self.layers(images).mean((2, 3))


def shift_and_flip(images: Tensor, mirrors: bool) -> Tensor:
    """Return each image an eighth aside at most, and every second one in a mirror."""
    count, channels, size, _ = images.shape
    framed = functional.pad(images.float(), (size // 8,) * 4, mode="reflect")
    down, right = torch.randint(2 * (size // 8) + 1, (2, count, 1)) + torch.arange(size)
    each, channel = torch.arange(count)[:, None, None, None], torch.arange(channels)[:, None, None]
    images = framed[each, channel, down[:, None, :, None], right[:, None, None, :]]
    turned = (torch.rand(count) < 0.5 * mirrors)[:, None, None, None]
    return torch.where(turned, images.flip(-1), images)


def triplet_loss(rows: Tensor, labels: Tensor, margin: float = 0.2) -> Tensor:
    """Return the semi-hard triplet loss: each pair with its nearest negative beyond the positive, else the farthest."""
    rows = functional.normalize(rows)
    distance, same = 2 - 2 * rows @ rows.T, labels[:, None] == labels
    anchor, positive = (same & ~torch.eye(len(rows), dtype=torch.bool)).nonzero(as_tuple=True)
    closer, others = distance[anchor, positive], distance[anchor].masked_fill(same[anchor], 5)
    beyond = others.masked_fill(others <= closer[:, None], 5).amin(1)
    farthest = others.masked_fill(same[anchor], 0).amax(1)
    return torch.relu(closer - torch.where(beyond < 5, beyond, farthest) + margin).mean()


def train(images: Tensor, labels: Tensor, *, loss: str, mirrors: bool, seconds: float, seed: int) -> nn.Module:
    """Return a network after so many seconds of the processor; loss: cross_entropy or triplet."""
    torch.manual_seed(seed)
    network = PlainCNN(images.shape[1], int(labels.max()) + 1).to(memory_format=torch.channels_last)  # pyright: ignore
    optimizer, began, share = torch.optim.AdamW(network.parameters(), lr=3e-3), time.process_time(), 0.0
    members = [(labels == label).nonzero()[:, 0] for label in labels.unique()]
    while share < 1:
        some = torch.randint(len(images), (64,))
        if loss == "triplet":  # four images of each of sixteen classes
            some = torch.cat([m[torch.randint(len(m), (4,))] for m in map(members.__getitem__, torch.randperm(len(members))[:16])])
        rows, known = network(shift_and_flip(images[some], mirrors)), labels[some]
        value = triplet_loss(rows, known) if loss == "triplet" else functional.cross_entropy(network.classifier(rows), known)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        share = min(1.0, (time.process_time() - began) / seconds)
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - share)
    return network.eval()
