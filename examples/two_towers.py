"""Two towers: handwritten numbers and their English names in one space, searched both ways.

Run with `python examples/two_towers.py`; half a minute on one core. `--loss triplet` or `--loss multi_similarity`
trains another loss, `--seed 1` other weights and images, `--steps 20 --queries 2` is for the impatient. `--csv FILE`
adds the rows to a file.

An image is two handwritten digits side by side (8 x 16 pixels, of the digits inside the package), a name is what one
says: 47 is "forty-seven", read letter by letter. One tower embeds images, another one names. Nobody tells the towers
what a digit is or where a word ends: they see 80 numbers with their names. 20 numbers are never trained on; to find
"forty-seven" the towers must put it together from "forty-two" and "thirty-seven". They are drawn from 21 to 99 without
the tens: nothing among the others says how "eleven" is spelt. Training sees digits of the training part, and what is
printed was measured on those of the test part.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import shadowmetric as sm
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.runtime.files import read_rows, write_rows

WORDS = """
zero one two three four five six seven eight nine ten
eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty thirty forty fifty sixty seventy eighty ninety
"""
NUMBERS, HELD_OUT, LONGEST, DIM = 100, 20, 13, 64  # "seventy-three" has 13 letters
PER_NUMBER, MICRO_BATCH = 4, 80  # images of a number in a batch; images that are embedded at once
LOSSES = {
    "shadow": lambda: sm.ShadowLoss(0.2, miner=sm.SemiHardMiner(0.2)),
    "triplet": lambda: sm.TripletLoss(0.4),
    "multi_similarity": lambda: sm.MultiSimilarityLoss(),
}


def name(number: int) -> str:
    """Return the English name of a number below 100."""
    tens, ones = divmod(number, 10)
    words = WORDS.split()
    return words[number] if number < 20 else words[18 + tens] + (f"-{words[ones]}" if ones else "")


def letters(numbers: Tensor) -> Tensor:
    """Return the bytes of the names, filled up with 0: (numbers, LONGEST)."""
    return torch.tensor([list(name(number).encode().ljust(LONGEST, b"\0")) for number in numbers.tolist()])


class Images:
    """Draws images of numbers from handwritten digits."""

    def __init__(self, part: str, generator: torch.Generator):
        split = getattr(open_dataset("digits"), part)
        labels = torch.from_numpy(split.labels)
        self.pixels = split.images.pixels[labels.argsort()].float() / 255  # all zeros, then all ones, ...
        self.count, self.generator = labels.bincount(), generator
        self.first = self.count.cumsum(0) - self.count

    def draw(self, numbers: Tensor) -> Tensor:
        """Return an image of each number, (numbers, 1, 8, 16): some image of its tens beside one of its ones."""
        return torch.cat([self.digits(numbers // 10), self.digits(numbers % 10)], dim=3)

    def digits(self, digits: Tensor) -> Tensor:
        """Return some image of each digit, (digits, 1, 8, 8)."""
        share = torch.rand(len(digits), generator=self.generator)
        return self.pixels[self.first[digits] + (share * self.count[digits]).long()]


class ImageTower(nn.Module):
    """Three convolutions and a linear layer: (images, 1, 8, 16) -> (images, DIM)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 4 * 8, DIM),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return a row for each image."""
        return self.layers(images)


class NameTower(nn.Module):
    """Letters, read from both ends: (names, LONGEST) bytes -> (names, DIM)."""

    def __init__(self, wide: int = 64):
        super().__init__()
        self.letters = nn.Embedding(128, wide)
        self.reader = nn.GRU(wide, wide, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * wide, DIM)

    def forward(self, names: Tensor) -> Tensor:
        """Return a row for each name."""
        read, _ = self.reader(self.letters(names))
        return self.head((read * (names > 0)[:, :, None]).amax(1))


def train(towers: tuple[nn.Module, nn.Module], images: Images, seen: Tensor, loss: nn.Module, steps: int) -> None:
    """Train both towers: all names that may be seen against a few images of each."""
    image_tower, name_tower = towers
    two = sm.TwoTowerLoss(loss)
    optimizer = torch.optim.Adam([*image_tower.parameters(), *name_tower.parameters()], lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    names, labels = letters(seen), seen.repeat(PER_NUMBER)
    for _ in range(steps):
        drawn = images.draw(labels)
        rows = sm.cached_rows(image_tower, drawn, MICRO_BATCH)  # as image_tower(drawn), 80 images at a time
        optimizer.zero_grad()
        two(rows, sm.cached_rows(name_tower, names, MICRO_BATCH), labels, seen).backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def recalls(towers: tuple[nn.Module, nn.Module], images: Tensor, shown: Tensor, seen: Tensor) -> dict[str, float]:
    """Return Recall@1 and @5 of seen and unseen numbers, each searched among all 100: names by image, and back."""
    image_rows, name_rows = towers[0](images), towers[1](letters(torch.arange(NUMBERS)))
    found = {}
    for kind in ("seen", "unseen"):
        known = torch.isin(torch.arange(NUMBERS), seen) == (kind == "seen")
        for way, query, labels, gallery, gallery_labels in (
            ("image → name", image_rows, shown, name_rows, torch.arange(NUMBERS)),
            ("name → image", name_rows, torch.arange(NUMBERS), image_rows, shown),
        ):
            scores = sm.evaluate(
                query[known[labels]],
                labels[known[labels]],
                gallery=gallery,
                gallery_labels=gallery_labels,
                measures=["recall_at"],
                recall_at=[1, 5],
                progress=False,
            )
            found |= {f"{way}, {kind}, Recall@{k}": value for k, value in scores.recall_at.items()}
    return found


def gradient_difference(towers: tuple[nn.Module, nn.Module], drawn: Tensor, seen: Tensor, loss: nn.Module) -> float:
    """Return by how much the cached gradient differs from the plain one, as a share of the largest number in it."""
    two, names, labels = sm.TwoTowerLoss(loss), letters(seen), seen.repeat(PER_NUMBER)
    weights = [weight for tower in towers for weight in tower.parameters()]
    plain = torch.autograd.grad(two(towers[0](drawn), towers[1](names), labels, seen), weights)
    rows = [sm.cached_rows(tower, given, 16) for tower, given in zip(towers, (drawn, names), strict=True)]
    cached = torch.autograd.grad(two(*rows, labels, seen), weights)
    apart = max(float((one - other).abs().max()) for one, other in zip(plain, cached, strict=True))
    return apart / max(float(one.abs().max()) for one in plain)


def main() -> None:
    """Train, and print what was found before and after."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--loss", choices=LOSSES, default="shadow")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--queries", type=int, default=10, help="test images of each number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="a file that the rows are added to")
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    generator = torch.Generator().manual_seed(given.seed)
    composed = torch.tensor([number for number in range(21, NUMBERS) if number % 10])
    unseen = composed[torch.randperm(len(composed), generator=generator)[:HELD_OUT]]
    seen = torch.tensor(sorted(set(range(NUMBERS)) - set(unseen.tolist())))
    training, test = Images("train", generator), Images("test", generator)
    towers, loss = (ImageTower(), NameTower()), LOSSES[given.loss]()
    shown = torch.arange(NUMBERS).repeat(given.queries)
    images = test.draw(shown)

    print(f"{len(seen)} numbers to train on; never seen: {', '.join(name(int(number)) for number in unseen[:4])}, ...")
    apart = gradient_difference(towers, training.draw(seen.repeat(PER_NUMBER)), seen, loss)
    print(f"The cached gradient differs from the plain one by {apart:.0e} of its largest number.")
    before, start = recalls(towers, images, shown, seen), time.perf_counter()
    train(towers, training, seen, loss, given.steps)
    print(f"{given.steps} steps of {given.loss}: {time.perf_counter() - start:.0f} s.")
    after = recalls(towers, images, shown, seen)
    print(f"{'':36s}chance  before   after")
    for what in before:
        print(f"{what:36s}{int(what[-1]) / NUMBERS:6.0%}  {before[what]:6.1%}  {after[what]:6.1%}")
    if given.csv is not None:
        told = {"loss": given.loss, "seed": given.seed, "steps": given.steps}
        rows = [told | {"figure": what, "before": before[what], "after": after[what]} for what in before]
        write_rows(given.csv, [*(read_rows(given.csv) if given.csv.exists() else []), *rows])


if __name__ == "__main__":
    main()
