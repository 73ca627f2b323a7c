"""The k largest entries of each row of a block, by value or by place; and how many reach a bar.

Three ways, since none is good for every k on a CPU:

- Few of many: the maxima of groups of 64 come first, at the speed of memory. The k largest entries lie in
  the k groups with the largest maxima, so only k * 64 entries are looked at again.
- Many, by value: numpy's partition and sort, which use the processor's vectors where torch's do not
  (6,000 of 60,000 entries: a third of the time of `torch.topk`).
- Anything else, and every other device: `torch.topk`.

Memory: 1/64 of the block and k * 64 entries a row; by value, k entries a row.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy import ndarray

GROUP = 64
LARGE = 2**20  # entries that are worth a second thread
FEW = 4  # times as many entries as the groups to look at: then groups pay


def largest_values(values: Tensor, k: int) -> Tensor:
    """Return the k largest entries of each row, ascending; the values are left in another order."""
    width = values.shape[1]
    k = min(k, width)
    if _few(k, width):
        return _group_columns(values, k)[0].topk(k, dim=1).values.flip(1)
    if values.device.type != "cpu":
        return values.topk(k, dim=1).values.flip(1)
    parts = values.tensor_split(torch.get_num_threads() if values.numel() > LARGE else 1)
    if len(parts) == 1:
        _sort_end(values.numpy(), k)
    else:
        with ThreadPoolExecutor(len(parts)) as threads:  # numpy lets go of the interpreter while it sorts
            list(threads.map(lambda part: _sort_end(part.numpy(), k), parts))
    return values[:, width - k :]


def _sort_end(array: "ndarray", k: int) -> None:
    """Move the k largest entries of each row to its end, ascending."""
    begin = array.shape[1] - k
    if begin:
        array.partition(begin, axis=1)
    array[:, begin:].sort(axis=1)


def largest_places(values: Tensor, k: int) -> Tensor:
    """Return the columns of the k largest entries of each row, ascending; of equal entries the first columns."""
    k = min(k, values.shape[1])
    if not _few(k, values.shape[1]):
        return _by_rank(values, k)
    candidates, columns, tied = _group_columns(values, k)
    best = candidates.topk(k + 1, dim=1)
    tied = tied | (best.values[:, k - 1] == best.values[:, k])
    places = columns.gather(1, best.indices[:, :k]).sort(dim=1).values
    if tied.any():  # which of the equal entries came in was chance
        places[tied] = _by_rank(values[tied], k)
    return places


def _few(k: int, width: int) -> bool:
    return FEW * k * GROUP <= width


def _group_columns(values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return entries that hold the k largest of each row, their columns, and whether others would have done as well."""
    rows, width = values.shape
    groups = width // GROUP
    maxima = values[:, : groups * GROUP].unflatten(1, (groups, GROUP)).amax(2)
    best = maxima.topk(k + 1, dim=1)
    inside = torch.arange(GROUP, device=values.device)
    columns = (best.indices[:, :k, None] * GROUP + inside).view(rows, k * GROUP)
    rest = torch.arange(groups * GROUP, width, device=values.device).expand(rows, -1)
    columns = torch.cat([columns, rest], 1)
    return values.gather(1, columns), columns, best.values[:, k - 1] == best.values[:, k]


def _by_rank(values: Tensor, k: int) -> Tensor:
    """Return the same through the k-th largest entry: what is above it is in, what equals it competes by column."""
    least = values.topk(k, dim=1).values[:, -1:]
    above, level = values > least, values == least
    room = k - above.sum(1, keepdim=True)
    mask = above | (level & (level.cumsum(1, dtype=torch.int32) <= room))
    return mask.nonzero()[:, 1].view(len(values), k)


def count_at_least(values: Tensor, least: Tensor) -> Tensor:
    """Return how many entries of each row are at least `least` (rows,): int64."""
    if values.device.type != "cpu":
        return (values >= least[:, None]).sum(1)
    from numpy import count_nonzero  # row by row in the cache: a twentieth of the time of torch's sum of booleans

    counts = [count_nonzero(row >= bar) for row, bar in zip(values.numpy(), least.numpy(), strict=True)]
    return torch.tensor(counts, dtype=torch.int64)
