"""One training in four loops: a plain one, and the trainers of three libraries, with their losses and with ours.

Run with `python examples/trainers.py`; it needs `pip install
'.[pytorch-metric-learning,lightning,transformers]'`. Two minutes on one core. `--csv FILE` writes the rows.

The same small embedder (2,900 weights, rows of 8 numbers) learns the digits inside the package for 60 steps of 60
images, six of each class, and is judged on the test part before and after. Who calls backward differs, and who draws
the batches: so trainings differ by chance, as seeds do, and not by more. `micro_batch` cuts each batch of 60 for
embedding, which changes no gradient.
"""

import argparse
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TQDM_DISABLE"] = "1"  # the bars of pytorch-metric-learning

import lightning
import numpy as np
import torch
from pytorch_metric_learning import losses, miners, samplers, trainers
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import TrainingArguments
from transformers.trainer_callback import PrinterCallback

import shadowmetric as sm
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.integrations.lightning import MetricModule
from shadowmetric.integrations.pytorch_metric_learning import InPML
from shadowmetric.integrations.transformers import MetricModel
from shadowmetric.integrations.transformers_trainer import MetricTrainer
from shadowmetric.runtime.files import write_rows

BATCH, PER_CLASS, RATE, MICRO_BATCH = 60, 6, 1e-2, 16
DIGITS = open_dataset("digits")
PIXELS, LABELS = DIGITS.train.images.pixels / 255, torch.from_numpy(DIGITS.train.labels)
PEER = "TripletMarginLoss(0.2), its semi-hard miner"


def make_embedder() -> nn.Module:
    """Return an untrained embedder: (images, 1, 8, 8) -> (images, 8)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 8))


def plain_loop(embedder: nn.Module, steps: int, seed: int, loss: nn.Module) -> None:
    """Train in a loop of one's own."""
    optimizer = torch.optim.Adam(embedder.parameters(), RATE)
    sampler, done = PKSampler(DIGITS.train.labels, BATCH, PER_CLASS, seed=seed), 0
    while done < steps:
        sampler.set_epoch(done)
        for batch in sampler:
            optimizer.zero_grad()
            loss(embedder(PIXELS[batch]), LABELS[batch]).backward()
            optimizer.step()
            done += 1
            if done == steps:
                return


def in_pml(embedder: nn.Module, steps: int, seed: int, loss: nn.Module, miner: Any = None) -> None:
    """Train by pytorch-metric-learning's trainer; an epoch of it is as long as its sampler says."""
    sampler = samplers.MPerClassSampler(LABELS, PER_CLASS, batch_size=BATCH, length_before_new_iter=BATCH * steps)
    trainers.MetricLossOnly(
        models={"trunk": embedder, "embedder": nn.Identity()},
        optimizers={"trunk_optimizer": torch.optim.Adam(embedder.parameters(), RATE)},
        batch_size=BATCH,
        loss_funcs={"metric_loss": loss},
        mining_funcs={} if miner is None else {"tuple_miner": miner},
        dataset=TensorDataset(PIXELS, LABELS),
        sampler=sampler,
        data_device=torch.device("cpu"),
        dataloader_num_workers=0,
    ).train(num_epochs=1)


def in_lightning(embedder: nn.Module, steps: int, seed: int, loss: nn.Module) -> None:
    """Train by Lightning's Trainer, embedding 16 images at a time."""
    module = MetricModule(embedder, loss, partial(torch.optim.Adam, lr=RATE), micro_batch=MICRO_BATCH)
    batches = DataLoader(
        TensorDataset(PIXELS, LABELS), batch_sampler=PKSampler(DIGITS.train.labels, BATCH, PER_CLASS, seed=seed)
    )
    quiet = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")}
    lightning.Trainer(max_steps=steps, accelerator="cpu", logger=False, **quiet).fit(module, batches)


def in_transformers(embedder: nn.Module, steps: int, seed: int, loss: nn.Module) -> None:
    """Train by Hugging Face's Trainer, embedding 16 images at a time."""
    data = [{"pixel_values": one, "labels": int(label)} for one, label in zip(PIXELS, LABELS, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=BATCH,
            max_steps=steps,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            seed=seed,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
            dataloader_pin_memory=False,
        )
        model = MetricModel(embedder, loss, micro_batch=MICRO_BATCH)
        trainer: Any = MetricTrainer(model, arguments, train_dataset=data, per_class=PER_CLASS)  # a list has a length
        trainer.remove_callback(PrinterCallback)
        trainer.train()


WINDOW = sm.SemiHardMiner(0.2)  # the paper's: in squared distance
WAYS: dict[tuple[str, str], Callable[[nn.Module, int, int], None]] = {
    ("a plain loop", "Shadow"): lambda *given: plain_loop(*given, sm.ShadowLoss(0.2, miner=WINDOW)),
    ("pytorch-metric-learning", PEER): lambda *given: in_pml(
        *given, losses.TripletMarginLoss(0.2), miners.TripletMarginMiner(0.2, "semihard")
    ),
    ("pytorch-metric-learning", "Shadow"): lambda *given: in_pml(*given, InPML(sm.ShadowLoss(0.2, miner=WINDOW))),
    ("pytorch-metric-learning", "TripletMarginLoss(0.2), our miner"): lambda *given: in_pml(
        *given, losses.TripletMarginLoss(0.2), WINDOW
    ),
    ("Lightning", "Shadow, 16 at a time"): lambda *given: in_lightning(*given, sm.ShadowLoss(0.2, miner=WINDOW)),
    ("Lightning", "TripletMarginLoss(0.2)"): lambda *given: in_lightning(*given, losses.TripletMarginLoss(0.2)),
    ("Hugging Face Trainer", "Shadow, 16 at a time"): lambda *given: in_transformers(
        *given, sm.ShadowLoss(0.2, miner=WINDOW)
    ),
    ("Hugging Face Trainer", "TripletMarginLoss(0.2)"): lambda *given: in_transformers(
        *given, losses.TripletMarginLoss(0.2)
    ),
}


@torch.no_grad()
def judged(embedder: nn.Module) -> dict[str, float]:
    """Return Recall@1 and MAP@R on the test part."""
    rows = embedder.eval()(DIGITS.test.images.pixels / 255)
    scores = sm.evaluate(rows, DIGITS.test.labels, measures=("recall_at", "map_at_r"), recall_at=[1], progress=False)
    return {"recall_at_1": scores.recall_at[1], "map_at_r": scores.map_at_r}


def trained(way: Callable[[nn.Module, int, int], None], steps: int, seed: int) -> dict[str, float]:
    """Return the figures before and after a training."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # the sampler of pytorch-metric-learning draws from it
    embedder = make_embedder()
    before = judged(embedder)
    way(embedder.train(), steps, seed)
    return {f"{name}_before": value for name, value in before.items()} | judged(embedder)


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Train every way with every seed, and print a line for each."""
    asked = argparse.ArgumentParser(description="One training in four loops.")
    asked.add_argument("--steps", type=int, default=60)
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--csv", type=Path, help="a file for the rows")
    choice = asked.parse_args(arguments)
    warnings.filterwarnings("ignore")  # of Lightning and PML: few workers, old names
    for name in ("lightning.pytorch", "PML"):
        logging.getLogger(name).setLevel(logging.ERROR)
    rows: list[dict[str, Any]] = []
    print(f"{'per cent on test images: before, after':72s}    Recall@1         MAP@R")
    for (trainer, loss), way in WAYS.items():
        for seed in range(choice.seeds):
            found = trained(way, choice.steps, seed)
            rows.append({"trainer": trainer, "loss": loss, "seed": seed, "steps": choice.steps} | found)
            figures = [100 * found[name + when] for name in ("recall_at_1", "map_at_r") for when in ("_before", "")]
            line = "{:8.1f} {:6.1f}   {:6.1f} {:6.1f}".format(*figures)
            print(f"{f'{trainer}: {loss}, seed {seed}':72s} {line}", flush=True)
    if choice.csv is not None:
        write_rows(choice.csv, rows)
    return rows


if __name__ == "__main__":
    main()
