"""Medoids of a batch: rows that serve others as the center of their cluster, chosen greedily (Oh Song et al. 2017).

    A(S)      = -1/n sum over customers i of min over j in S of d(i, j)  +  gamma (1 - NMI(clusters of S, classes))
    greedy    S grows by the facility whose S has the largest A, until it has as many as there are classes
    oracle    of each class, the facility of that class with the least sum of distances to its customers

Customers and facilities are the rows of a batch, or rows and references. NMI = I / sqrt(H H). A customer belongs to the
nearest facility of S; ties, of distance and of A, go to the smaller row number. A customer whose class has no facility
is left out.

Exact greedy asks every facility at every step, which is cubic where classes grow with the batch. Here a step asks the
next `candidates` of one fixed order of the facilities that spreads evenly, so all of them come up in turn:

    time      classes * candidates * customers distances, and as many entries of the counts that NMI is made of

Distances are exact and rounded to 2^-28 (times a power of two near the longest row), and n log n to 2^-24, so that sums
of either are exact in any order, and everybody chooses the same. The choice is made on the host, for which an
accelerator waits.

Memory: the scratch, and both sides in float64.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.opaque import opaque

DIGITS = 30  # binary, of a distance: sums of 2^22 of them are exact
ENTROPY_GRID = 2.0**24
SPREAD = np.uint64(11400714819323198485)  # 2^64 over the golden ratio: multiples spread evenly
NOBODY = np.iinfo(np.int64).max
BYTES_OF_AN_ENTRY = 64  # of a block: distances, masks, counts
BYTES_OF_A_NUMBER = 16  # of its facilities

Floats = np.ndarray


class Medoids(NamedTuple):
    """What was chosen for each customer, and how well it clusters."""

    nearest: Tensor  # (customers,) the facility of the chosen set that serves it
    oracle: Tensor  # (customers,) the best facility of its class
    served: Tensor  # (customers,) whether it takes part
    nmi: Tensor  # () of the clusters of the chosen set and the classes; 1 if there are none


def _empty_medoids(
    first: Tensor,
    second: Tensor | None,
    square: Tensor,
    other_first: Tensor,
    other_second: Tensor | None,
    other_square: Tensor,
    labels: Tensor,
    other_labels: Tensor,
    asks: Tensor,
    serves: Tensor,
    gamma: float,
    candidates: int,
    scratch_bytes: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nearest = torch.empty_like(labels)
    return nearest, torch.empty_like(labels), torch.empty_like(asks), square.new_empty(())


@opaque("choose_medoids", _empty_medoids)
def choose_medoids(
    first: Tensor,
    second: Tensor | None,
    square: Tensor,
    other_first: Tensor,
    other_second: Tensor | None,
    other_square: Tensor,
    labels: Tensor,
    other_labels: Tensor,
    asks: Tensor,
    serves: Tensor,
    gamma: float,
    candidates: int,
    scratch_bytes: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the fields of `Medoids`. asks, serves: which rows are customers, and which others are facilities."""
    device = labels.device
    classes, facility_classes = (part.cpu().numpy() for part in (labels, other_labels))
    facilities = np.flatnonzero(serves.cpu().numpy())
    served = asks.cpu().numpy() & np.isin(classes, facility_classes[facilities])
    customers = np.flatnonzero(served)
    nearest = np.arange(len(classes)) % max(len(facility_classes), 1)
    oracle, nmi = nearest.copy(), 1.0
    if len(customers):
        names, numbers = np.unique(classes[customers], return_inverse=True)
        right = Side.of(other_first, other_second, other_square)
        left = right if first is other_first else Side.of(first, second, square)
        left = left if len(customers) == len(classes) else left.take(customers)
        market = Market(left, right, scratch_bytes)
        chosen = Greedy(market, numbers, facilities, gamma, candidates)
        for _ in range(len(names)):
            chosen.grow()
        nearest[customers], nmi = chosen.owner, chosen.nmi
        for number, name in enumerate(names):
            own = np.flatnonzero(numbers == number)
            theirs = facilities[facility_classes[facilities] == name]
            oracle[customers[own]] = theirs[int(np.argmin(market.sums(theirs, own)))]
    answer = (torch.from_numpy(part).to(device) for part in (nearest, oracle, served))
    return *answer, torch.tensor(nmi, dtype=torch.float64, device=device)  # pyright: ignore[reportReturnType]


class Side(NamedTuple):
    """Rows on the grid, in float64 on the host."""

    first: Tensor
    second: Tensor | None
    square: Tensor

    @staticmethod
    def of(first: Tensor, second: Tensor | None, square: Tensor) -> "Side":
        """Return a side from the parts of a grid."""
        fine = None if second is None else second.cpu().to(torch.float64)
        return Side(first.cpu().to(torch.float64), fine, square.cpu())

    def take(self, rows: np.ndarray) -> "Side":
        """Return some of the rows."""
        places = torch.from_numpy(rows)
        return Side(*(None if part is None else part[places] for part in self))  # pyright: ignore[reportArgumentType]


class Market:
    """Distances of facilities and customers, some rows at a time."""

    def __init__(self, customers: Side, facilities: Side, scratch_bytes: int):
        self.customers, self.facilities, self.scratch_bytes = customers, facilities, scratch_bytes
        longest = max(float(side.square.max()) for side in (customers, facilities)) ** 0.5
        self.unit = 2.0 ** (np.frexp(2 * longest)[1] - DIGITS)

    def __len__(self) -> int:
        return len(self.customers.square)

    def rows_at_once(self, customers: int) -> int:
        """Return how many facilities are asked about so many customers at once."""
        dim = self.customers.first.shape[1]
        return max(1, self.scratch_bytes // (BYTES_OF_AN_ENTRY * customers + BYTES_OF_A_NUMBER * dim))

    def distances(self, facilities: np.ndarray, customers: Side) -> Floats:
        """Return the rounded distances of some facilities and customers: (facilities, customers)."""
        rows = self.facilities.take(facilities)
        dots = rows.first @ customers.first.T
        if rows.second is not None and customers.second is not None:
            dots += rows.first @ customers.second.T + rows.second @ customers.first.T
        squared = torch.sub(rows.square[:, None] + customers.square, dots, alpha=2).clamp_min_(0.0).numpy()
        apart = np.sqrt(squared, out=squared)
        apart /= self.unit
        return np.multiply(np.rint(apart, out=apart), self.unit, out=apart)

    def sums(self, facilities: np.ndarray, customers: np.ndarray) -> Floats:
        """Return the sum of the distances of each facility to some customers."""
        side, some = self.customers.take(customers), self.rows_at_once(len(customers))
        parts = [facilities[start : start + some] for start in range(0, len(facilities), some)]
        return np.concatenate([self.distances(part, side).sum(1) for part in parts])


class Greedy:
    """The set as it grows: who serves each customer, how far away, and the counts of clusters and classes."""

    def __init__(self, market: Market, classes: np.ndarray, facilities: np.ndarray, gamma: float, candidates: int):
        self.market, self.classes, self.gamma = market, classes, gamma
        count = len(classes)
        spread = facilities.astype(np.uint64) * SPREAD
        self.waiting = facilities[np.argsort(spread, kind="stable")]
        self.candidates = candidates or len(facilities)
        self.owner, self.apart = np.full(count, NOBODY), np.full(count, np.inf)
        numbers = np.arange(count + 1)
        self.entropy = np.rint(numbers * np.log(np.maximum(numbers, 1)) * ENTROPY_GRID) / ENTROPY_GRID
        self.of_classes = self.entropy[np.bincount(classes)].sum()
        self.nmi = 1.0

    def grow(self) -> None:
        """Add the best of the next candidates."""
        asked = np.sort(self.waiting[: self.candidates])
        cells = Cells(self.owner, self.classes)
        some, best = self.market.rows_at_once(len(self.market)), (-np.inf, 0, 0.0)
        for start in range(0, len(asked), some):
            part = asked[start : start + some]
            apart = self.market.distances(part, self.market.customers)
            nmi = self.nmi_of(cells, self.moves(apart, part))
            value = np.minimum(apart, self.apart, out=apart).sum(1) / -len(self.classes) + self.gamma * (1 - nmi)
            first = int(np.argmax(value))
            if value[first] > best[0]:
                best = (value[first], part[first], nmi[first])
        _, facility, self.nmi = best
        apart = self.market.distances(np.array([facility]), self.market.customers)
        moved = self.moves(apart, np.array([facility]))[0]
        self.owner[moved], self.apart[moved] = facility, apart[0, moved]
        rest = self.waiting[self.candidates :]
        asked = self.waiting[: self.candidates]
        self.waiting = np.concatenate([rest, asked[asked != facility]])

    def moves(self, apart: Floats, facilities: np.ndarray) -> np.ndarray:
        """Return which customers each facility would take over."""
        nearer = apart < self.apart
        nearer |= (apart == self.apart) & (facilities[:, None] < self.owner)
        return nearer

    def nmi_of(self, cells: "Cells", moved: np.ndarray) -> Floats:
        """Return the NMI of the clusters and the classes, if these customers moved to a cluster of their own."""
        entropy, count = self.entropy, len(self.classes)
        left = np.add.reduceat(moved[:, cells.order], cells.begins, axis=1, dtype=np.int64)
        both = entropy[cells.sizes - left].sum(1)
        clusters = np.add.reduceat(left, cells.cluster_begins, axis=1)
        alone = entropy[cells.cluster_sizes - clusters].sum(1)
        taken = np.add.reduceat(left[:, cells.by_class], cells.class_begins, axis=1)
        both += entropy[taken].sum(1)
        alone += entropy[taken.sum(1)]
        whole = entropy[count]
        entropies = (whole - alone) * (whole - self.of_classes)
        shared = both - alone - self.of_classes + whole
        same = np.where(alone == self.of_classes, 1.0, 0.0)  # one cluster: right if there is one class
        return np.where(entropies > 0, shared / np.sqrt(np.where(entropies > 0, entropies, 1.0)), same)


class Cells:
    """Customers by cluster and class: an order of them, and where cells, clusters and classes begin in it."""

    def __init__(self, owner: np.ndarray, classes: np.ndarray):
        self.order = np.lexsort((classes, owner))
        cluster, name = owner[self.order], classes[self.order]
        new_cluster = np.diff(cluster, prepend=-1) != 0
        self.begins = np.flatnonzero(new_cluster | (np.diff(name, prepend=-1) != 0))
        self.sizes = np.diff(self.begins, append=len(classes))
        self.cluster_begins = np.flatnonzero(new_cluster[self.begins])
        self.cluster_sizes = np.add.reduceat(self.sizes, self.cluster_begins)
        names = name[self.begins]
        self.by_class = np.argsort(names, kind="stable")
        self.class_begins = np.flatnonzero(np.diff(names[self.by_class], prepend=-1))


def medoids_of(
    grids: tuple[GridRows, GridRows],
    labels: tuple[Tensor, Tensor],
    counting: tuple[Tensor, Tensor],
    *,
    gamma: float,
    candidates: int,
    scratch_bytes: int,
) -> Medoids:
    """Return the medoids of rows and others on the grid, with their labels, of those that count."""
    left, right = grids
    return Medoids(
        *choose_medoids(
            left.first,
            left.second,
            left.square,
            right.first,
            right.second,
            right.square,
            *labels,
            *counting,
            gamma,
            candidates,
            scratch_bytes,
        )
    )
