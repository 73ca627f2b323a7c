"""What a run must be above: the pooled features of its pretrained weights, searched as its embeddings are.

Cost: nothing for a head, whose features are there; else one pass of the test images.
"""

from dataclasses import replace
from typing import Any

import torch

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.training.features.pooled_run import feature_count, untrained
from shadowmetric.app.training.preparation import Parts
from shadowmetric.app.training.scoring import How, embed
from shadowmetric.errors import ModelMistake
from shadowmetric.evaluation import evaluate
from shadowmetric.progress import Report


def pooled_floor(parts: Parts, device: torch.device, how: How, report: Report) -> dict[str, Any]:
    """Return Recall@1 and MAP@R of the pooled features; nothing for a run from scratch, or one that is not trained."""
    settings = parts.settings
    if settings.weights in (None, "none") or settings.epochs == 0:
        return {}
    splits = {name: split for name, split in parts.dataset.parts().items() if name != "train"}
    try:
        embedder = None
        if not all(isinstance(split.images, FeatureRows) for split in splits.values()):
            embedder = untrained(replace(settings, dim=feature_count(settings))).to(device)
    except ModelMistake:  # the file of weights is gone, which a finished training does not need
        return {}

    def rows_of(split: Split) -> torch.Tensor:
        if isinstance(split.images, FeatureRows):
            return split.images.rows
        assert embedder is not None
        return embed(embedder, split, parts.shape, report=report, batch=how.batch, shared=how.shared)

    rows = {name: rows_of(split) for name, split in splits.items()}
    labels = {name: torch.from_numpy(split.labels) for name, split in splits.items()}
    scores = evaluate(
        rows["test"],
        labels["test"],
        gallery=rows.get("gallery"),
        gallery_labels=labels.get("gallery"),
        measures=("recall_at", "map_at_r"),
        recall_at=(1,),
        progress=report,
        **how.of_evaluation(),
    )
    return {"pooled_features": {"recall_at_1": scores.recall_at[1], "map_at_r": scores.map_at_r}}
