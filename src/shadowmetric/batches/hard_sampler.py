"""Batches of classes beside their hardest rivals, which mining over the whole training set names.

A batch has the shape that `PKSampler` gives it. Classes come in turns, as there; but after each class come the classes
of the hardest negatives of its images that are in the batch, `rivals` of them, and each brings the very negative and
other images of its class. So every anchor of a batch meets what is hardest for it in the whole set, and what it meets
has positives of its own.

    class, rival of its images, class, rival of its images, ...

An epoch is a function of (seed, epoch, negatives), so the negatives belong to what is saved: `mined` has a state dict.
Until some are given batches are those of `PKSampler`. Memory: k row numbers for each image.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shadowmetric.batches.sampler import PKSampler, _Turns, shares
from shadowmetric.errors import Mistake


class MinedNegatives:
    """The hardest negatives of each image: (images, k) row numbers, -1 where there is none; empty before the first."""

    def __init__(self):
        self.rows = torch.empty(0, 0, dtype=torch.int64)

    def state_dict(self) -> dict[str, Tensor]:
        """Return them."""
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take those of a run that goes on."""
        self.rows = state["rows"]


class HardNegativeSampler(PKSampler):
    """Yields batches of image numbers, classes beside their rivals. rivals: how many classes follow each class."""

    def __init__(self, labels: Any, *settings: Any, rivals: int = 1, **named: Any):
        if isinstance(rivals, bool) or not isinstance(rivals, int) or rivals < 1:
            raise Mistake(f"rivals is {rivals!r}; it must be a whole number above 0.")
        super().__init__(labels, *settings, **named)
        self.rivals, self.mined = rivals, MinedNegatives()
        self.class_of = np.full(len(np.asarray(labels)), -1)  # the place among members; -1: a class with one image
        for number, images in enumerate(self.members):
            self.class_of[images] = number

    def set_negatives(self, rows: Tensor) -> None:
        """Take the hardest negatives of each image, as `hardest_negatives` returns them; from the next epoch on."""
        if rows.ndim != 2 or len(rows) != len(self.class_of) or int(rows.max()) >= len(rows):
            raise Mistake(
                f"negatives has shape {tuple(rows.shape)}; give row numbers for each of {len(self.class_of)} images."
            )
        self.mined.rows = rows.cpu()

    def sentence(self) -> str:
        """Say what a batch is made of."""
        rivals = "its hardest rival" if self.rivals == 1 else f"its {self.rivals} hardest rivals"
        return f"{super().sentence()} From the second epoch on each class stands beside {rivals} in the whole set."

    def _stream(self, random: np.random.Generator) -> Iterator[list[int]]:
        """Yield the batches of one epoch, without end."""
        if not len(self.mined.rows):
            yield from super()._stream(random)
        negatives = self.mined.rows.numpy()
        classes = _Turns(np.arange(len(self.members)), random)
        images: dict[int, _Turns] = {}
        while True:
            picks: dict[int, list[int]] = {}
            missing, rivals = 0, []
            open_shares = list(shares(self.batch, self.per_class, len(self.members)))
            while open_shares and len(picks) < len(self.members):
                wish = open_shares.pop(0)
                number, first = rivals.pop(0) if rivals else (classes.take(1, without=picks)[0], None)
                queue = images.setdefault(number, _Turns(self.members[number], random))
                leading = [] if first is None else [first]
                picks[number] = leading + queue.take(wish - len(leading), without=leading)
                missing += wish - len(picks[number])
                if first is None:
                    rivals = self._rivals(negatives[picks[number]], picks)
                if not open_shares and missing > 1:
                    open_shares = [min(self.per_class, missing)]
                    missing -= open_shares[0]
            missing += sum(open_shares)
            self._fill(picks, images, missing)
            yield [image for indices in picks.values() for image in indices]

    def _rivals(self, negatives: np.ndarray, picks: dict[int, list[int]]) -> list[tuple[int, int]]:
        """Return the next rivals, (class, image), of some images by rank: the hardest of each, then the second."""
        found: dict[int, int] = {}
        for image in negatives.T.reshape(-1).tolist():
            number = -1 if image < 0 else int(self.class_of[image])
            if number >= 0 and number not in picks and len(found) < self.rivals:
                found.setdefault(number, image)
        return list(found.items())
