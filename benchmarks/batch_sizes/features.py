"""Pooled features of a pretrained network, once, as a file that heads are trained on.

    python -m benchmarks.batch_sizes.features OUT.npz --data glyphs --size 64 --weights FILE

Images at rest, no augmentation; float16, 2.5 kB an image of EfficientNet-Lite0. Where test classes are new, whole
classes are held out to choose on.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.loading import batches_in_order
from shadowmetric.app.data.splits import part_classes
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.preparation import prepare
from shadowmetric.app.training.runs.settings import TrainSettings

BACKBONE = "timm:tf_efficientnet_lite0"
HELD_OUT = 0.1  # of the training classes


def main() -> None:
    """Write the features of a dataset."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--weights", default="pretrained")
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = TrainSettings(
        data=given.data,
        data_root=given.data_root,
        backbone=BACKBONE,
        weights=given.weights,
        size=given.size,
        resize=given.size,
    )
    parts = prepare(settings, lambda *_: None)
    embedder = embedder_for(parts.settings).eval()

    def pooled(split: Split) -> np.ndarray:
        with torch.no_grad():
            batches = batches_in_order(split, parts.shape, 128)
            return torch.cat([embedder.features(batch.images).half() for batch in batches]).numpy()

    train, test = parts.dataset.train, parts.dataset.test
    kept, held = part_classes(train.labels, HELD_OUT, seed=0)
    arrays: dict[str, Any] = {"train_features": pooled(train), "kept": kept, "held": held}
    with given.out.open("wb") as file:
        np.savez(file, **arrays, train_labels=train.labels, test_features=pooled(test), test_labels=test.labels)


if __name__ == "__main__":
    main()
