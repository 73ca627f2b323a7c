"""Batches of images: a few of each of a few classes, so that every anchor has a positive; or as they come.

A PK batch of B images with K per class, and what happens where that does not come out even:

    B = 32, K = 5       6 classes of 5, and 2 of a seventh
    a rest of 1         goes to the first class: no class is ever alone with one image
    few classes         all of them, as evenly as it goes: 32 of five classes are 7 + 7 + 6 + 6 + 6
    a class too small   gives what it has; its places go to further classes, then to images to spare in the batch
    one image only      a class that has no positive to offer is left out, and counted

Every class is visited before any comes again, and every image of a class before any of it does. An epoch is a
function of (seed, epoch) alone: `position` says how many batches of it are done, so that a run resumes in the middle
of an epoch with the very next batch. Ranks share each batch, consecutive images each and as evenly as it goes: what a
batch holds, and how many there are, does not depend on the number of ranks.

Memory: two int64 for each image.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Sampler

from shadowmetric.errors import Mistake
from shadowmetric.ops.ranks import share
from shadowmetric.runtime.counting import count


def shares(batch: int, per_class: int, classes: int) -> list[int]:
    """Return how many images each class of a batch gives, if every class has enough."""
    if classes * per_class <= batch:
        each, more = divmod(batch, classes)
        return [each + (place < more) for place in range(classes)]
    whole, rest = divmod(batch, per_class)
    counts = [per_class] * whole + [rest] * (rest > 1)
    if rest == 1:
        counts[0] += 1
    return counts


class BatchSampler(Sampler[list[int]]):
    """Batches of image numbers, epoch after epoch. A subclass gives `_stream`, the batches of an epoch without end."""

    def __init__(
        self, images: int, batch: int, *, seed: int, batches: int | None, rank: int, ranks: int, multiple: int
    ):
        for name, value, least in (
            ("batch", batch, 2),
            ("seed", seed, 0),
            ("ranks", ranks, 1),
            ("multiple", multiple, 1),
        ):
            _check(name, value, least)
        if not 0 <= rank < ranks:
            raise Mistake(f"rank is {rank!r} of {ranks}; it must be 0 to {ranks - 1}.")
        if batches is not None:
            _check("batches", batches, 1)
        self.batch, self.seed, self.images = batch, seed, images
        self.rank, self.ranks, self.multiple = rank, ranks, multiple
        self.batches = batches or max(1, -(-images // batch))
        self.epoch = self.position = 0
        least = self.least_images()
        if ranks > least:
            raise Mistake(f"ranks is {ranks} and a batch may have as few as {least} images; use at most {least} ranks.")

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this rank's share of the rest of the epoch; then it begins anew unless another one is set."""
        for numbers in self.whole_batches():
            own = self.share_of(numbers)
            yield numbers[own.start : own.stop]

    def whole_batches(self) -> Iterator[list[int]]:
        """Yield the rest of the epoch, every batch as a whole."""
        stream = self._stream(np.random.default_rng((self.seed, self.epoch)))
        for number in range(self.batches):
            batch = next(stream)
            if number >= self.position:
                self.position = number + 1
                yield batch
        self.position = 0

    def share_of(self, numbers: list[int]) -> range:
        """Return the places in a batch that this rank takes."""
        return share(len(numbers), self.rank, self.ranks, self.multiple)

    def most_images(self) -> int:
        """Return how many images of a whole batch this rank takes, at the most."""
        return len(share(min(self.batch, self.images), self.rank, self.ranks, self.multiple))

    def least_images(self) -> int:
        """Return what no batch is smaller than."""
        return min(self.batch, self.images)

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch."""
        self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Return what resumes the very next batch."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go where another sampler of the same settings was."""
        self.epoch, self.position = state["epoch"], state["position"]

    def sentence(self) -> str:
        """Say what a batch is made of."""
        batches = f"{count(self.batches, 'batch')} of {self.batch}"
        return f"{batches}: {self._contents()}{f'; {self.ranks} ranks share each batch' if self.ranks > 1 else ''}."

    def _contents(self) -> str:
        raise NotImplementedError

    def _stream(self, random: np.random.Generator) -> Iterator[list[int]]:
        raise NotImplementedError


class PKSampler(BatchSampler):
    """Yields batches of image numbers; give it to a DataLoader as its batch_sampler.

    batches: how many make an epoch; by default as many as it takes to see as many images as there are.
    rank, ranks: yield the share of one of so many processes. multiple: shares are cut between groups of so many
    images, where there are enough of them, so that micro-batches are the same for any number of ranks.
    """

    def __init__(
        self,
        labels: Tensor | np.ndarray | Sequence[int],
        batch: int = 32,
        per_class: int = 5,
        *,
        seed: int = 0,
        batches: int | None = None,
        rank: int = 0,
        ranks: int = 1,
        multiple: int = 1,
    ):
        _check("per_class", per_class, 2)
        numbers = np.asarray(labels)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) == 0:
            raise Mistake(f"labels is {numbers.dtype} of shape {numbers.shape}; give one integer for each image.")
        known, place, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
        members = np.split(np.argsort(place, kind="stable"), np.cumsum(sizes)[:-1])
        self.members = [images for images in members if len(images) > 1]
        self.alone = len(known) - len(self.members)  # classes with one image
        if not self.members:
            classes = count(len(known), "class has", "classes have")
            raise Mistake(f"{classes} one image each to train on; give more of a class.")
        self.per_class = min(per_class, batch)
        images = sum(len(images) for images in self.members)
        super().__init__(images, batch, seed=seed, batches=batches, rank=rank, ranks=ranks, multiple=multiple)

    def least_images(self) -> int:
        """Return what no batch is smaller than: where a class is small, the last place may stay empty."""
        wanted = shares(self.batch, self.per_class, len(self.members))
        small = min(len(images) for images in self.members) < wanted[0]
        return self.batch - small if self.images > self.batch else self.images

    def _contents(self) -> str:
        wanted = shares(self.batch, self.per_class, len(self.members))
        counts = [f"{wanted.count(size)} × {size}" for size in dict.fromkeys(wanted)]
        small = sum(len(images) < min(wanted[0], self.per_class) for images in self.members)
        fewer = ("class has fewer and gives what it has", "classes have fewer and give what they have")
        lone = ("class with one image is left out", "classes with one image are left out")
        left_out = f"; {count(small, *fewer)}" if small else ""
        left_out += f"; {count(self.alone, *lone)}" if self.alone else ""
        return (
            f"{' + '.join(counts)} images of {count(len(wanted), 'class')}, "
            f"out of {self.images} images of {count(len(self.members), 'class')}{left_out}"
        )

    def _stream(self, random: np.random.Generator) -> Iterator[list[int]]:
        """Yield the batches of one epoch, without end."""
        wanted = shares(self.batch, self.per_class, len(self.members))
        classes = _Turns(np.arange(len(self.members)), random)
        images: dict[int, _Turns] = {}
        while True:
            picks: dict[int, list[int]] = {}
            missing = 0
            open_shares = list(wanted)
            while open_shares and len(picks) < len(self.members):
                wish = open_shares.pop(0)
                (number,) = classes.take(1, without=picks)
                queue = images.setdefault(number, _Turns(self.members[number], random))
                picks[number] = queue.take(wish)
                missing += wish - len(picks[number])
                if not open_shares and missing > 1:
                    open_shares = [min(self.per_class, missing)]
                    missing -= open_shares[0]
            missing += sum(open_shares)
            self._fill(picks, images, missing)
            yield [image for indices in picks.values() for image in indices]

    def _fill(self, picks: dict[int, list[int]], images: dict[int, "_Turns"], missing: int) -> None:
        """Give places that are left to classes of the batch that have images to spare, one each in turn."""
        while missing:
            spare = [number for number, indices in picks.items() if len(indices) < len(self.members[number])]
            if not spare:
                return
            for number in spare[:missing]:
                picks[number] += images[number].take(1, without=picks[number])
                missing -= 1


class ShuffledSampler(BatchSampler):
    """Images as they come, whatever their class: each once in random order before any comes again.

    For losses that compare rows with the centers of their classes, and so need no second image of a class in a batch:
    a batch then has more classes, and each as often as the data have it. Classes of one image take part.
    """

    def __init__(
        self,
        images: int,
        batch: int = 32,
        *,
        seed: int = 0,
        batches: int | None = None,
        rank: int = 0,
        ranks: int = 1,
        multiple: int = 1,
    ):
        _check("images", images, 1)
        super().__init__(images, batch, seed=seed, batches=batches, rank=rank, ranks=ranks, multiple=multiple)

    def _contents(self) -> str:
        return f"images as they come, out of {self.images}"

    def _stream(self, random: np.random.Generator) -> Iterator[list[int]]:
        images = _Turns(np.arange(self.images), random)
        while True:
            yield images.take(self.batch)


class _Turns:
    """Draws numbers in random order; each comes once before any comes again."""

    def __init__(self, numbers: np.ndarray, random: np.random.Generator):
        self.numbers, self.random = numbers, random
        self.waiting: list[int] = []

    def take(self, count: int, without: Any = ()) -> list[int]:
        """Return `count` different numbers, fewer if there are not so many; none of those to do without."""
        picks: list[int] = []
        skipped: list[int] = []
        taken = set(without)
        count = min(count, len(self.numbers) - len(taken))
        for _ in range(2):
            while self.waiting and len(picks) < count:
                number = self.waiting.pop()
                if number in taken:
                    skipped.append(number)
                else:
                    picks.append(number)
                    taken.add(number)
            if len(picks) == count:
                break
            self.waiting = [*self.random.permutation(self.numbers).tolist()]
        self.waiting += skipped[::-1]  # they wait on, and come first
        return picks


def _check(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Mistake(f"{name} is {value!r}; it must be a whole number of at least {least}.")
