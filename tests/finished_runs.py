"""Runs of a comparison as if they had been trained: figures that a test chooses, and the values of the queries."""

import torch

from shadowmetric.app.training.ending import KEPT_VALUES
from shadowmetric.app.training.runs.tensor_files import save_tensors

SETTING = {"setting": {"queries": 40, "classes": 4, "protocol": "leave-one-out"}, "unseen_classes": True}


def write_finished(plan, name, seed, values):
    """Write a finished run with the values of its queries."""
    run = plan.run(name, seed)
    run.begin(plan.settings)
    kept = {figure: torch.tensor(values) for figure in KEPT_VALUES}
    run.write(run.queries_file, lambda place: save_tensors(place, kept))
    mean = sum(values) / len(values)
    run.write_scores({"recall_at_1": mean, "map_at_r": mean / 2, "notes": []} | SETTING)
