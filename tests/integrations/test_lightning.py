"""Lightning trains our embedder: figures rise, logical batches are exact, epochs, rates and resumed runs are right.

python test_lightning.py FOLDER        trains as two ranks, which write their weights and figures into the folder
"""

import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import shadowmetric as sm
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.integrations.lightning import MetricModule

pytestmark = pytest.mark.filterwarnings("ignore:::lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
DIM = 4
SGD = partial(torch.optim.SGD, lr=0.5)


def embedder_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, DIM))


def digits(part: str) -> TensorDataset:
    split = getattr(open_dataset("digits"), part)
    return TensorDataset(split.images.pixels.float() / 255, torch.from_numpy(split.labels))


def batches(**settings) -> DataLoader:
    data = digits("train")
    return DataLoader(data, batch_sampler=PKSampler(data.tensors[1], 60, 6, **settings))


def trainer_of(**settings) -> lightning.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    return lightning.Trainer(**quiet | {"enable_model_summary": False, "num_sanity_val_steps": 0} | settings)


def module_of(micro_batch: int | None) -> MetricModule:
    return MetricModule(embedder_of(), sm.GatheredLoss(sm.ArcFaceLoss(10, DIM)), SGD, micro_batch)


def fitted(micro_batch: int | None, **settings) -> MetricModule:
    """Return a module after a few steps in float64, by a loss that learns centers of its own."""
    module = module_of(micro_batch)
    trainer_of(precision="64-true", **settings).fit(module, batches())
    return module


def weights(module: nn.Module) -> list[torch.Tensor]:
    return [value.detach().clone() for value in module.state_dict().values()]


def assert_same(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("micro_batch", [None, 16])
def test_training_raises_retrieval_far_above_the_untrained_embedder(micro_batch):
    module = MetricModule(embedder_of(), sm.ShadowLoss(0.2), partial(torch.optim.Adam, lr=1e-2), micro_batch)
    trainer, validation = trainer_of(max_epochs=3), DataLoader(digits("test"), batch_size=100)
    (before,) = trainer.validate(module, validation, verbose=False)
    trainer.fit(module, batches(), validation)
    after = trainer.callback_metrics
    assert after["recall_at_1"] > before["recall_at_1"] + 0.25  # 0.42 before; 0.87 after
    assert after["map_at_r"] > before["map_at_r"] + 0.25
    with torch.no_grad():
        scores = sm.evaluate(module.eval()(digits("test").tensors[0]), digits("test").tensors[1], progress=False)
    assert float(after["recall_at_1"]) == pytest.approx(scores.recall_at[1])


class Stop(lightning.Callback):
    def on_validation_batch_end(self, *given, **named):
        raise RuntimeError("stopped")


def test_rows_of_a_validation_that_was_broken_off_are_forgotten():
    module, loader = MetricModule(embedder_of(), sm.ShadowLoss()), DataLoader(digits("test"), 100)
    wanted = trainer_of().validate(module, loader, verbose=False)
    with pytest.raises(RuntimeError, match="stopped"):
        trainer_of(callbacks=[Stop()]).validate(module, loader, verbose=False)
    assert trainer_of().validate(module, loader, verbose=False) == wanted


def test_the_test_set_is_measured_as_the_validation_set_and_rows_are_predicted():
    module, trainer, loader = (
        MetricModule(embedder_of(), sm.ShadowLoss()),
        trainer_of(),
        DataLoader(digits("test"), 100),
    )
    assert trainer.test(module, loader, verbose=False) == trainer.validate(module, loader, verbose=False)
    rows = torch.cat(trainer.predict(module, loader))
    torch.testing.assert_close(rows, module(digits("test").tensors[0]))
    images = DataLoader(digits("test").tensors[0], 100)
    assert torch.equal(torch.cat(trainer.predict(module, images)), rows)


@pytest.mark.parametrize("settings", [{}, {"accumulate_grad_batches": 2, "gradient_clip_val": 0.05}], ids=str)
def test_a_logical_batch_trains_the_weights_of_the_plain_one(settings):
    plain, cached = (fitted(micro_batch, max_steps=3, **settings) for micro_batch in (None, 7))
    start = weights(module_of(None))
    assert all((mine - before).abs().max() > 1e-4 for mine, before in zip(weights(plain), start, strict=True))
    assert_same(weights(cached), weights(plain))


def test_what_a_loss_learns_has_its_own_rate():
    def rates(loss: nn.Module) -> list[float]:
        groups = MetricModule(embedder_of(), loss, partial(torch.optim.Adam, lr=0.25)).configure_optimizers()
        return [group["lr"] for group in groups.param_groups]

    assert rates(sm.ShadowLoss()) == [0.25]
    for wrap in (nn.Identity, sm.GatheredLoss, sm.CrossBatchMemory):
        proxies = sm.SoftTripleLoss(10, DIM, center_learning_rate=0.5)
        assert rates(proxies if wrap is nn.Identity else wrap(proxies)) == [0.25, 0.5]
    both = nn.ModuleList([sm.ArcFaceLoss(10, DIM, center_learning_rate=0.75), proxies])
    assert rates(both) == [0.25, 0.75, 0.5]
    foreign = nn.Linear(2, 2)  # another library's, that names no rate
    groups = MetricModule(embedder_of(), foreign).configure_optimizers().param_groups
    assert foreign.weight in set(groups[0]["params"])


def test_epochs_have_other_batches_and_a_resumed_run_has_those_it_would_have_had(tmp_path):
    def run(epochs: int, start: Path | None = None) -> tuple[lightning.Trainer, MetricModule, list[int]]:
        loader, seen = batches(batches=2), []
        take = loader.batch_sampler.share_of
        loader.batch_sampler.share_of = lambda numbers: (seen.append(numbers[0]), take(numbers))[1]
        module, trainer = MetricModule(embedder_of(), sm.ShadowLoss(0.2), SGD), trainer_of(max_epochs=epochs)
        trainer.fit(module, loader, ckpt_path=start, weights_only=False)
        return trainer, module, seen

    _, whole, seen = run(3)
    assert len(set(seen)) == 6
    stopped, _, first = run(2)
    stopped.save_checkpoint(tmp_path / "two.ckpt")
    _, resumed, rest = run(3, tmp_path / "two.ckpt")
    assert first + rest == seen
    assert all(torch.equal(one, other) for one, other in zip(weights(resumed), weights(whole), strict=True))


def test_a_run_that_is_resumed_within_an_epoch_has_batches_of_that_epoch(tmp_path):
    def run(start: Path | None = None, **settings: Any) -> list[int]:
        loader, seen = batches(batches=4), []
        take = loader.batch_sampler.share_of
        loader.batch_sampler.share_of = lambda numbers: (seen.append(numbers[0]), take(numbers))[1]
        module = MetricModule(embedder_of(), sm.ShadowLoss(0.2), SGD)
        trainer_of(**settings).fit(module, loader, ckpt_path=start, weights_only=False)
        return seen

    class Saving(lightning.Callback):
        def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
            if trainer.global_step == 6:  # in the second epoch
                trainer.save_checkpoint(tmp_path / "six.ckpt")

    whole = run(max_epochs=2, callbacks=[Saving()])
    rest = run(tmp_path / "six.ckpt", max_epochs=2)
    assert rest
    assert set(rest) <= set(whole[4:])


def two_ranks(rank: int, folder: str) -> None:
    """Train as one of two processes; one has no more than its share of each batch."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"GROUP_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "0", "TORCHELASTIC_RUN_ID": "test"}
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    trainer = trainer_of(max_steps=3, precision="64-true", strategy="ddp", devices=2, use_distributed_sampler=False)
    module = module_of(7)
    trainer.fit(module, batches(rank=rank, ranks=2))
    (figures,) = trainer.validate(module, DataLoader(digits("test"), 100), verbose=False)
    torch.save((weights(module), figures), Path(folder) / f"{rank}.pt")


def test_two_processes_train_what_one_does_and_measure_the_same(tmp_path):
    subprocess.run([sys.executable, __file__, tmp_path], check=True, capture_output=True, timeout=600)
    one = fitted(None, max_steps=3)
    figures = trainer_of(precision="64-true").validate(one, DataLoader(digits("test"), 100), verbose=False)
    for rank in range(2):
        found, measured = torch.load(tmp_path / f"{rank}.pt", weights_only=False)
        assert_same(found, weights(one))
        assert measured == pytest.approx(figures[0])


if __name__ == "__main__":
    torch.multiprocessing.start_processes(two_ranks, (sys.argv[1],), nprocs=2, start_method="fork")
