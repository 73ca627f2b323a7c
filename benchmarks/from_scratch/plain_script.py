"""What one writes in an hour: a plain CNN of 120,000 weights, cross-entropy or triplets, flips and shifts, AdamW."""

import time

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, pad


class PlainCNN(nn.Module):
    """Four convolutions with batch normalization and max-pooling, and the mean over places: 128 features."""

    def __init__(self, channels: int, classes: int):
        super().__init__()
        layers: list[nn.Module] = []
        for narrow, wide in ((channels, 24), (24, 48), (48, 64), (64, 128)):
            layers += [nn.Conv2d(narrow, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), nn.MaxPool2d(2)]
        self.layers, self.classifier = nn.Sequential(*layers[:-1]), nn.Linear(128, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of uint8 images; their directions are compared."""
        return self.layers((images / 127.5 - 1).contiguous(memory_format=torch.channels_last)).mean((2, 3))


def shift_and_flip(images: Tensor, mirrors: bool) -> Tensor:
    """Return each image an eighth aside at most, and every second one in a mirror."""
    count, place, rim = len(images), torch.arange(images.shape[-1]), images.shape[-1] // 8
    down, right = torch.randint(2 * rim + 1, (2, count, 1, 1, 1))
    each, channel = torch.arange(count)[:, None, None, None], torch.arange(images.shape[1])[:, None, None]
    images = pad(images.float(), (rim,) * 4, mode="reflect")[each, channel, down + place[:, None], right + place]
    return torch.where((torch.rand(count) < 0.5 * mirrors)[:, None, None, None], images.flip(-1), images)


def triplet_loss(rows: Tensor, labels: Tensor, margin: float = 0.2) -> Tensor:
    """Return the semi-hard triplet loss: each pair with its nearest negative beyond the positive, else the farthest."""
    distance, same = 2 - 2 * normalize(rows) @ normalize(rows).T, labels[:, None] == labels
    anchor, positive = (same & ~torch.eye(len(rows), dtype=torch.bool)).nonzero(as_tuple=True)
    closer, others = distance[anchor, positive], distance[anchor].masked_fill(same[anchor], -1)
    beyond = others.masked_fill(others <= closer[:, None], 5).amin(1)
    return torch.relu(closer - torch.where(beyond < 5, beyond, others.amax(1)) + margin).mean()


def train(images: Tensor, labels: Tensor, *, loss: str, mirrors: bool, steps: int, seed: int, done=time.process_time):
    """Return a network after so many steps; loss: cross_entropy or triplet. done: called after each step."""
    torch.manual_seed(seed)
    network = PlainCNN(images.shape[1], int(labels.max()) + 1).to(memory_format=torch.channels_last)  # pyright: ignore
    optimizer = torch.optim.AdamW(network.parameters())
    members = [(labels == label).nonzero()[:, 0] for label in labels.unique()]
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - step / steps)
        some = torch.randint(len(images), (64,))
        if loss == "triplet":  # four images of each of sixteen classes
            chosen = [members[place] for place in torch.randperm(len(members))[:16]]
            some = torch.cat([images_of[torch.randint(len(images_of), (4,))] for images_of in chosen])
        rows, known = network(shift_and_flip(images[some], mirrors)), labels[some]
        optimizer.zero_grad()
        (triplet_loss(rows, known) if loss == "triplet" else cross_entropy(network.classifier(rows), known)).backward()
        optimizer.step()
        done()
    return network.eval()
