"""One head, trained and scored: rows -> a linear layer -> embeddings.

    embedding    W row; the loss compares it at length 1 (unit_rows), or as it is

The last step's weights are scored, with rates that have fallen to 0 as a cosine: nothing is chosen on the test split.
Every loss starts from the same weights and sees the same batches for one seed. A training of 300 batches of 64 takes
half a second of a core, and its scores a third.

Memory: the rows.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from paper.heads.features import Rows
from shadowmetric import convergence_epoch
from shadowmetric.app.training.steps.optimizer import share_of_peak
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.evaluation import evaluate
from shadowmetric.losses import TripletLoss
from shadowmetric.losses.catalogue import LOSSES, LossChoice
from shadowmetric.losses.length_penalty import LengthPenalty
from shadowmetric.losses.mined import MINERS, MinedLoss
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES

ALL = ("recall_at", "map_at_r", "silhouette", "collapse", "accuracy")
RECALL = ("recall_at",)
JUDGED = 20  # times in a training, on the images that settings are chosen on
DIRECTION_WINDOW = 0.2  # of the paper, in squared distance of unit rows
WARMUP = 0.05


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What decides a training but for its seed."""

    loss: str  # a name of the catalogue, or euclidean_triplet
    margin: float = 0.2
    miner: str = "semi_hard"
    mining: str = "own"  # what is compared: own, the loss's measure; euclid; direction, as in the paper's protocol
    unit_rows: bool = True
    length_penalty: float = 0.0
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    weight_decay: float = 1e-4
    dim: int = 256
    batch: int = 64
    per_class: int = 4
    steps: int = 300


def trial_loss(trial: Trial, classes: int) -> nn.Module:
    """Return the loss of a trial."""
    choice = LossChoice(trial.margin, trial.miner, classes, trial.dim, unit_rows=trial.unit_rows)
    if trial.loss == "euclidean_triplet":
        loss: nn.Module = TripletLoss(trial.margin, squared=False, miner=trial.miner, normalize=trial.unit_rows)  # pyright: ignore[reportArgumentType]
    else:
        loss = LOSSES[trial.loss](choice)
    if trial.mining != "own" and isinstance(loss, MinedLoss):
        loss.miner = other_miner(trial)
    return LengthPenalty(loss, trial.length_penalty) if trial.length_penalty else loss  # pyright: ignore[reportArgumentType]


def other_miner(trial: Trial) -> TripletMiner:
    """Return a miner that does not compare what the loss does."""
    make = MINERS[trial.miner]  # pyright: ignore[reportArgumentType]
    if trial.mining == "euclid":
        return make(trial.margin, "distance", False, SCRATCH_BYTES)
    if trial.mining == "direction":
        return make(DIRECTION_WINDOW, "squared", True, SCRATCH_BYTES)
    raise ValueError(f"mining is {trial.mining!r}; give own, euclid or direction.")


def train_head(
    trial: Trial, seed: int, rows: Rows, reduced: dict[str, Tensor], measures: tuple[str, ...] = ALL
) -> dict[str, Any]:
    """Return what a training reached: figures of the test split, and of the images that settings are chosen on."""
    began = time.process_time()
    train, labels = reduced["train"][rows.kept], dense(rows.labels["train"][rows.kept])
    head = first_head(trial, train.shape[1], seed)
    loss = trial_loss(trial, int(labels.max()) + 1)
    optimizer = optimizer_for(trial, head, loss)
    sampler = PKSampler(labels.numpy(), trial.batch, trial.per_class, seed=seed, batches=trial.steps)
    curve, dead = [], 0
    for step, numbers in enumerate(sampler.whole_batches()):
        share = share_of_peak(step, trial.steps, WARMUP)
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * share
        some = torch.tensor(numbers)
        value = loss(head(train[some]), labels[some])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        dead += float(value.detach()) == 0
        if (step + 1) % max(1, trial.steps // JUDGED) == 0:
            curve.append(validation_recall(head, rows, reduced))
    figures = {"validation": curve[-1], "convergence_epoch": convergence_epoch(curve), "dead": dead / trial.steps}
    if measures:
        with torch.no_grad():
            figures |= score({name: head(part) for name, part in reduced.items()}, rows, measures)
    return {"figures": figures, "curve": curve, "seconds": round(time.process_time() - began, 2)}


def first_head(trial: Trial, width: int, seed: int) -> nn.Linear:
    """Return a head that turns rows, as drawn by the seed: at 256 dimensions, with the cosines of the rows."""
    torch.manual_seed(seed)
    head = nn.Linear(width, trial.dim, bias=False)
    nn.init.orthogonal_(head.weight)
    return head


def optimizer_for(trial: Trial, head: nn.Module, loss: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of the head, and of the centers of a loss that has them at their own rate."""
    groups: list[dict[str, Any]] = [{"params": list(head.parameters()), "lr": trial.learning_rate}]
    own = getattr(loss, "parameter_groups", None)
    if callable(own):
        groups += cast("list[dict[str, Any]]", own())
    for group in groups:
        group["peak"] = group["lr"]
    if trial.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=0.9, weight_decay=trial.weight_decay)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[trial.optimizer]
    return kind(groups, weight_decay=trial.weight_decay, fused=True)


def dense(labels: Tensor) -> Tensor:
    """Return labels from 0 on without holes."""
    return labels.unique(return_inverse=True)[1]


@torch.no_grad()
def validation_recall(head: nn.Module, rows: Rows, reduced: dict[str, Tensor]) -> float:
    """Return Recall@1 of the images that settings are chosen on, each among the others."""
    embeddings = nn.functional.normalize(head(reduced["train"][rows.held]))
    similarity = (embeddings @ embeddings.T).fill_diagonal_(-2.0)
    labels = rows.labels["train"][rows.held]
    return float((labels[similarity.argmax(1)] == labels).float().mean())


def score(embeddings: dict[str, Tensor], rows: Rows, measures: tuple[str, ...]) -> dict[str, float]:
    """Return the figures of the test split; where training has its classes, those of a vote of the training images."""
    labels = rows.labels
    among = tuple(name for name in measures if name != "accuracy")
    scores = evaluate(embeddings["test"], labels["test"], measures=among, progress=False)
    figures = scores.figures() | ({"silhouette": scores.silhouette} if "silhouette" in measures else {})
    if scores.collapse is not None:
        figures |= {"mean_variance": scores.collapse.mean_variance, "effective_rank": scores.collapse.effective_rank}
    if not rows.unseen and "accuracy" in measures:
        vote = evaluate(
            embeddings["test"],
            labels["test"],
            gallery=embeddings["train"],
            gallery_labels=labels["train"],
            measures=("accuracy",),
            progress=False,
        )
        figures |= {"accuracy": vote.accuracy, "macro_f1": vote.macro_f1}
    return {name: float(value) for name, value in figures.items() if value is not None}


def plain_trial(trial: Trial) -> dict[str, Any]:
    """Return a trial as numbers and text."""
    return asdict(trial)
