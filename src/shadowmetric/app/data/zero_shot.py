"""Turn a dataset with the same classes on both sides into a zero-shot one, whose test classes were never trained on.

The first half of the classes by label, from the training part, trains; the second half, from the test part, tests. Of
an odd number of classes the smaller half trains. What is left over on both sides is not used. A dataset that is
zero-shot already is returned as it is.
"""

from dataclasses import replace

import numpy as np

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset
from shadowmetric.errors import DataMistake
from shadowmetric.runtime.counting import count


def by_classes(dataset: Dataset) -> Dataset:
    """Return the dataset with other classes in the test part than in the training part."""
    if dataset.kind == ZERO_SHOT:
        return dataset
    known = np.union1d(dataset.train.labels, dataset.test.labels)
    first, second = known[: len(known) // 2], known[len(known) // 2 :]
    train = np.flatnonzero(np.isin(dataset.train.labels, first))
    test = np.flatnonzero(np.isin(dataset.test.labels, second))
    if len(train) == 0 or len(test) == 0:
        raise DataMistake(
            f"{dataset.name}: halves of its {count(len(known), 'class')} leave {count(len(train), 'training image')} "
            f"and {count(len(test), 'test image')}; use the official split."
        )
    note = (
        f"Zero-shot by classes: the first {len(first):,} of {len(known):,} classes train, from the training part, and "
        f"the other {len(second):,} test, from the test part."
    )
    return replace(
        dataset,
        kind=ZERO_SHOT,
        train=dataset.train.take(train),
        test=dataset.test.take(test),
        gallery=None,
        notes=(*dataset.notes, note),
    )
