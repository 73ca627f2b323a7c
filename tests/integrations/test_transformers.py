"""Hugging Face's Trainer trains our embedder: figures rise, logical batches are exact, resumed runs too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from datasets import Dataset
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import EvalPrediction

import shadowmetric as sm
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.integrations.transformers import MetricModel, compute_metrics
from shadowmetric.integrations.transformers_trainer import MetricTrainer

DIM, BATCH, PER_CLASS, RATE = 4, 60, 6, 0.5


def embedder_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, DIM))


def digits(part: str, dtype: torch.dtype = torch.float32) -> list[dict]:
    split = getattr(open_dataset("digits"), part)
    pairs = zip(split.images.pixels.to(dtype) / 255, split.labels.tolist(), strict=True)
    return [{"pixel_values": pixels, "labels": label} for pixels, label in pairs]


def trainer_of(model: nn.Module, folder: Path, kind: type[Trainer] = MetricTrainer, **settings) -> Trainer:
    dtype = next(model.parameters()).dtype
    quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "dataloader_pin_memory": False}
    chosen = {"per_device_train_batch_size": BATCH, "save_strategy": "no", "logging_strategy": "no"} | settings
    return kind(
        model,
        TrainingArguments(str(folder), **quiet | chosen),
        train_dataset=digits("train", dtype),
        eval_dataset=digits("test", dtype),
        compute_metrics=compute_metrics,
        **({"per_class": PER_CLASS} if kind is MetricTrainer else {}),
    )


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [value.detach().clone() for value in model.state_dict().values()]


def assert_same(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("kind", "micro_batch"), [(Trainer, None), (MetricTrainer, None), (MetricTrainer, 16)])
def test_training_raises_retrieval_far_above_the_untrained_embedder(kind, micro_batch, tmp_path):
    model = MetricModel(embedder_of(), sm.ShadowLoss(0.2), micro_batch)
    trainer = trainer_of(model, tmp_path, kind, num_train_epochs=3, learning_rate=1e-2)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_recall_at_1"] > before["eval_recall_at_1"] + 0.25
    assert after["eval_map_at_r"] > before["eval_map_at_r"] + 0.25
    items = digits("test")
    with torch.no_grad():
        rows = model.eval()(torch.stack([item["pixel_values"] for item in items]))["embeddings"]
    scores = sm.evaluate(rows, torch.tensor([item["labels"] for item in items]), progress=False)
    assert after["eval_recall_at_1"] == pytest.approx(scores.recall_at[1])


@pytest.mark.parametrize("micro_batch", [None, 7])
def test_accumulated_pk_batches_train_what_a_plain_loop_of_them_does(micro_batch, tmp_path):
    model = MetricModel(embedder_of().double(), sm.ShadowLoss(0.2), micro_batch)
    settings = {"optim": "sgd", "learning_rate": RATE, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    trainer_of(model, tmp_path, gradient_accumulation_steps=2, max_steps=2, seed=5, **settings).train()
    items, embedder = digits("train", torch.float64), embedder_of().double()
    sampler = iter(PKSampler([item["labels"] for item in items], BATCH, PER_CLASS, seed=5))
    optimizer = torch.optim.SGD(embedder.parameters(), lr=RATE)
    for _ in range(2):
        optimizer.zero_grad()
        for numbers in (next(sampler), next(sampler)):
            rows = embedder(torch.stack([items[number]["pixel_values"] for number in numbers]))
            labels = torch.tensor([items[number]["labels"] for number in numbers])
            (sm.ShadowLoss(0.2)(rows, labels) / 2).backward()
        optimizer.step()
    assert all(
        (one - two).abs().max() > 1e-4
        for one, two in zip(weights(embedder), embedder_of().state_dict().values(), strict=True)
    )
    assert_same(weights(model.embedder), weights(embedder))


def test_a_run_that_is_resumed_within_an_epoch_ends_as_the_uninterrupted_one(tmp_path):
    def run(folder: str, resumed: bool = False, **settings) -> nn.Module:
        model = MetricModel(embedder_of(), sm.CrossBatchMemory(sm.ShadowLoss(0.2), 128), 16)
        trainer = trainer_of(model, tmp_path / folder, num_train_epochs=2, learning_rate=1e-2, **settings)
        trainer.train(resume_from_checkpoint=resumed)
        return model

    whole = run("whole")
    steps = -(-len(digits("train")) // BATCH)
    run("stopped", save_strategy="steps", save_steps=steps + 3)  # in the second epoch
    saved = tmp_path / "stopped" / f"checkpoint-{steps + 3}"
    assert (saved / "model.safetensors").exists()
    resumed = run("stopped", resumed=True)
    assert all(torch.equal(one, other) for one, other in zip(weights(resumed), weights(whole), strict=True))


def test_what_a_loss_learns_has_its_own_rate_and_no_parameter_is_lost(tmp_path):
    model = MetricModel(embedder_of(), sm.GatheredLoss(sm.SoftTripleLoss(10, DIM, center_learning_rate=0.5)))
    groups = trainer_of(model, tmp_path, learning_rate=0.25, weight_decay=0.125).create_optimizer().param_groups
    found = {id(weight): group for group in groups for weight in group["params"]}
    assert len(found) == len(list(model.parameters())) == sum(len(group["params"]) for group in groups)
    centers = found[id(model.loss.loss.centers)]
    assert (centers["lr"], centers["weight_decay"]) == (0.5, 0.125)
    assert {found[id(weight)]["lr"] for weight in model.embedder.parameters()} == {0.25}


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, DIM)

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return (self.words(inputs["input_ids"]) * inputs["attention_mask"][:, :, None]).sum(1)


@pytest.mark.parametrize("micro_batch", [None, 3])
def test_several_inputs_reach_the_embedder_as_a_dictionary(micro_batch):
    torch.manual_seed(0)
    model = MetricModel(Words(), sm.ShadowLoss(0.2, miner="hard"), micro_batch)
    text = {"input_ids": torch.randint(9, (10, 4)), "attention_mask": torch.ones(10, 4, dtype=torch.int64)}
    found = model(**text, labels=torch.arange(10) // 2)
    torch.testing.assert_close(found["embeddings"], model.embedder(text))
    found["loss"].backward()
    assert model.embedder.words.weight.grad.abs().max() > 0
    assert set(model(**text)) == {"embeddings"}
    assert model.eval()(**text, labels=torch.arange(10))["loss"].isnan()


def test_the_metrics_are_those_of_evaluate():
    rows, labels = torch.randn(40, 3).numpy(), (torch.arange(40) % 4).numpy()
    wanted = sm.evaluate(rows, labels, progress=False)
    found = compute_metrics(EvalPrediction(rows, labels))
    assert found == {"recall_at_1": wanted.recall_at[1], "map_at_r": wanted.map_at_r}


def test_epochs_have_other_batches(tmp_path):
    trainer = trainer_of(MetricModel(embedder_of(), sm.ShadowLoss(0.2)), tmp_path, num_train_epochs=2)
    loader, seen = trainer.get_train_dataloader(), []
    for epoch in range(2):
        loader.set_epoch(epoch)
        seen.append([batch["pixel_values"].sum().item() for batch in loader])
    assert len(seen[0]) == len(seen[1]) > 10
    assert not set(seen[0]) & set(seen[1])


@pytest.mark.parametrize("name", ["label", "labels", "class"])
def test_the_labels_of_a_table_are_found_without_reading_its_images(name, tmp_path):
    data = Dataset.from_dict({"pixel_values": torch.zeros(12, 1, 8, 8).tolist(), name: [0, 1, 2] * 4})
    data = data.with_transform(lambda rows: pytest.fail("an image was read"))
    trainer = trainer_of(MetricModel(embedder_of(), sm.ShadowLoss(0.2)), tmp_path)
    trainer.train_dataset = data
    if name == "class":
        with pytest.raises(ValueError, match=r"train_dataset has the columns .*'class'.* give train_labels"):
            trainer._labels()
    else:
        assert trainer._labels() == [0, 1, 2] * 4


@pytest.mark.parametrize("name", ["labels", "label", "class"])
def test_labels_of_items_have_the_names_that_the_trainer_knows(tmp_path, name):
    trainer = trainer_of(MetricModel(embedder_of(), sm.ShadowLoss(0.2)), tmp_path)
    trainer.train_dataset = [{"pixel_values": torch.zeros(1, 8, 8), name: number % 3} for number in range(6)]
    if name == "class":
        with pytest.raises(ValueError, match=r"'pixel_values', 'class'\], and none is labels; give train_labels"):
            trainer._labels()
    else:
        assert trainer._labels() == [0, 1, 2] * 2


def test_checkpointing_is_passed_on_to_an_embedder_that_has_it(tmp_path):
    with pytest.raises(ValueError, match="no gradient checkpointing of its own; micro_batch saves more"):
        MetricModel(embedder_of(), sm.ShadowLoss()).gradient_checkpointing_enable()
    embedder, told = embedder_of(), []
    embedder.gradient_checkpointing_enable = lambda **named: told.append(named)
    MetricModel(embedder, sm.ShadowLoss()).gradient_checkpointing_enable(gradient_checkpointing_kwargs=None)
    assert told == [{"gradient_checkpointing_kwargs": None}]


def trained_here(folder: Path, ranks: int) -> list[torch.Tensor]:
    """Return the weights after three steps of 60 items in all."""
    model = MetricModel(embedder_of().double(), sm.GatheredLoss(sm.ShadowLoss(0.2)), 7)
    settings = {"optim": "sgd", "learning_rate": RATE, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    trainer_of(model, folder, max_steps=3, per_device_train_batch_size=BATCH // ranks, **settings).train()
    return weights(model)


def two_ranks(rank: int, folder: str) -> None:
    """Train as one of two processes, which meet in a file: a port that was free may be taken by now."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    torch.save(trained_here(Path(folder) / "two", 2), Path(folder) / f"{rank}.pt")


def test_two_processes_train_what_one_does(tmp_path):
    subprocess.run([sys.executable, __file__, tmp_path], check=True, capture_output=True, timeout=600)
    one = trained_here(tmp_path / "one", 1)
    for rank in range(2):
        assert_same(torch.load(tmp_path / f"{rank}.pt"), one)


if __name__ == "__main__":
    torch.multiprocessing.start_processes(two_ranks, (sys.argv[1],), nprocs=2, start_method="fork")
