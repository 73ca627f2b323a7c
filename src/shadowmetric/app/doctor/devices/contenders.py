"""Who does a step of metric learning: ours, a plain dense program, and pytorch-metric-learning (PML).

    ours          the loss as it is constructed
    ours, slots   the same, told how many positives a row has, where a loss can be told
    dense         an S×S matrix and a few masks (`dense.py`); the same triplets as ours
    pml           the loss of that name with its miner; for Shadow, the triplet loss. "Semi-hard" is every negative
                  in the window there, and miners of other losses are those that its documentation pairs with them.
                  Its N-pair loss takes one pair of a class, ours all of them, so it is not here

From 4,096 rows on the others are not run: their tensors of S×S, or of positive pairs × S, are what this table is about.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from shadowmetric.app.doctor.devices.dense import CHOICES, SCALES, dense_loss
from shadowmetric.app.doctor.devices.loss_steps import MARGIN, MINED, Case, takes_slots

PEER_ROWS = 2048  # the most rows that others are run with
PML_ROWS = {"lifted_structure": 128}  # of a loss that takes gigabytes sooner
OURS, SLOTS, DENSE, PML = "ours", "ours, slots", "dense", "pml"
PEERS = (DENSE, PML)

Program = Callable[[Tensor, Tensor], Tensor]  # (embeddings, labels) -> loss


class Contender(NamedTuple):
    """A program by its name; None with the reason if it is not run."""

    name: str
    program: Program | None
    reason: str = ""


def contenders(case: Case) -> list[Contender]:
    """Return who runs a case, those who are not run with the reason."""
    ours = case.build()
    own = [Contender(OURS, ours)]
    if takes_slots(ours):
        own.append(Contender(SLOTS, case.build(slots=True)))
    peers = [Contender(DENSE, *dense_program(case))] if case.loss in SCALES and case.miner in CHOICES else []
    if pml_recipe(case) is not None:
        peers.append(Contender(PML, *pml_program(case)))
    return own + peers


def contender_names(case: Case) -> list[str]:
    """Return the names that `contenders` gives, without importing a peer."""
    own = [OURS, SLOTS] if takes_slots(case.build()) else [OURS]
    dense = [DENSE] if case.loss in SCALES and case.miner in CHOICES else []
    return [*own, *dense, *([PML] if pml_recipe(case) else [])]


def dense_program(case: Case) -> tuple[Program | None, str]:
    """Return the dense program, or why it is not run."""
    if case.batch > PEER_ROWS:
        return None, f"not run beyond {PEER_ROWS:,} rows: its tensors grow with S×S"
    return partial(dense_loss, loss=case.loss, miner=case.miner, margin=MARGIN), ""


def pml_program(case: Case) -> tuple[Program | None, str]:
    """Return PML's loss with its miner, or why it is not run."""
    most = PML_ROWS.get(case.loss, PEER_ROWS)
    if case.batch > most:
        return None, f"not run beyond {most:,} rows: its tensors and lists grow with S×S and more"
    try:
        from pytorch_metric_learning import losses, miners
    except ImportError:
        return None, "not installed: pip install 'shadowmetric[peers]'"
    recipe = pml_recipe(case)
    assert recipe is not None
    loss, miner = recipe(losses, miners)
    if miner is None:
        return loss, ""

    def program(embeddings: Tensor, labels: Tensor) -> Tensor:
        return loss(embeddings, labels, miner(embeddings, labels))

    return program, ""


def pml_recipe(case: Case) -> Callable[[Any, Any], tuple[nn.Module, Any]] | None:
    """Return what makes PML's loss and miner of its two modules; None if it has none like them."""
    if case.loss in MINED:
        if case.loss not in SCALES:
            return None
        chooses = {
            "semi_hard": lambda miners: miners.TripletMarginMiner(margin=MARGIN, type_of_triplets="semihard"),
            "batch_hard": lambda miners: miners.BatchHardMiner(),
        }.get(case.miner)
        return chooses and (lambda losses, miners: (losses.TripletMarginLoss(margin=MARGIN), chooses(miners)))
    return {
        "multi_similarity": lambda losses, miners: (losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()),
        "contrastive": lambda losses, miners: (losses.ContrastiveLoss(), None),
        "lifted_structure": lambda losses, miners: (losses.LiftedStructureLoss(), None),
        "angular": lambda losses, miners: (losses.AngularLoss(), None),
    }.get(case.loss)
