"""Tiny runs for the tests of reports: images whose classes have names that no page may take for its own words."""

import numpy as np
import pytest
import torch

from shadowmetric.app.compare import compare as comparing
from shadowmetric.app.compare.compare import compare
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.report.showcase.showcase import Choices
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.settings import TrainSettings

NASTY = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\"quoted\" & 'single' {{ 7 * 7 }}",
    "</script><!-- <b>bold</b>\u2028",
)
FEW = Choices(queries=3, neighbors=8, points=60, perplexity=10.0)


def write_images(path, names=NASTY, count=40, side=12, seed=0):
    """Write images of one shade of color for each class, with noise."""
    rng = np.random.default_rng(seed)
    shades = rng.uniform(40, 200, (len(names), 1, 1, 3))
    labels = np.repeat(np.arange(len(names)), count)
    noise = rng.normal(0, 60, (len(labels), side, side, 3))
    images = (shades[labels] + noise).clip(0, 255).astype(np.uint8)
    np.savez(path, images=images, labels=np.array(names)[labels])
    return path


def quick_settings(data, **more):
    """Return settings of a training that takes a moment."""
    given = {"device": "cpu", "epochs": 2, "batches": 3, "batch": 16, "per_class": 4, "dim": 8, **more}
    return TrainSettings(data=data, **given)


def quick_comparison(folder, settings, **more):
    """Train two losses with controls and floors, two seeds, in this process."""
    plan = Plan(settings, folder, **{"losses": ("shadow", "triplet"), "seeds": 2, **more})
    plan.begin()

    def in_this_process(cells, jobs, tell=None):
        for cell in cells:
            train(cell.settings, cell.folder)
        return {}

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "run_cells", in_this_process)
        compare(plan)
    torch.set_num_threads(threads)
    return plan
