"""What is refused at the door, each in one sentence: what is wrong, the value received, what to do.

Checks that read values (finite rows, row numbers in range) would make a GPU wait. They run on the
CPU always, elsewhere only when the loss or miner was made with `debug=True`, and never in a compiled graph.
"""

import math

import torch
from torch import Tensor

from shadowmetric.errors import NotFinite
from shadowmetric.types import AnyLabels, Place, Relation, Triplets

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


ELSEWHERE = "elsewhere"  # anchors_at of a batch that is not among its references
LARGEST_NUMBER = 1e300  # in float64: lengths of rows are still finite
LONGEST_ROW = {torch.float32: 1e18, torch.float64: 1e150}  # of rows that are compared as they are: squares stay finite


def reads_values(tensor: Tensor, *, debug: bool = False) -> bool:
    """Return whether values may be read to be checked: on a CPU, elsewhere to debug, never in a compiled graph."""
    return not torch.compiler.is_compiling() and (debug or tensor.device.type == "cpu")


def check_margin(margin: float, *, name: str = "margin", finite: bool = True) -> float:
    """Return the margin, or another setting that must be above 0; infinity only where it has a meaning."""
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not margin > 0:
        raise ValueError(f"{name} is {margin!r}; it must be a number above 0.")
    if finite and math.isinf(margin):
        raise ValueError(f"{name} is {margin!r}; it must be finite.")
    return float(margin)


def check_number(value: float, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return the value, or refuse what is no finite number, or is beyond the ends of its range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}; it must be a finite number.")
    if not least <= value <= most:
        above = "" if math.isinf(most) else f" and at most {most:g}"
        raise ValueError(f"{name} is {value!r}; it must be at least {least:g}{above}.")
    return float(value)


def check_scratch(scratch_bytes: int) -> int:
    """Return the scratch, or refuse one that is not a number of bytes."""
    if isinstance(scratch_bytes, bool) or not isinstance(scratch_bytes, int) or scratch_bytes < 1:
        raise ValueError(f"scratch_bytes is {scratch_bytes!r}; it must be a number of bytes, such as 32 * 2**20.")
    return scratch_bytes


def check_slots(slots: int | None) -> int | None:
    """Return the slots, or refuse what is no number of positives."""
    if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
        raise ValueError(f"slots is {slots!r}; it must be 1 or more: the most positives that a row has.")
    return slots


def refuse_few_slots(slots: int, most: int) -> None:
    """Refuse slots that some row of a batch has more positives than."""
    if most > slots:
        raise ValueError(
            f"slots is {slots}, and a row of this batch has {most} positives; give at least as many, which is "
            "per_class - 1 for batches with per_class rows of each class, or leave slots out."
        )


def check_choice(value: object, choices: tuple[str, ...], name: str) -> str:
    """Return the value, or refuse one that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(choices)}.")
    return value


def check_rows(rows: Tensor, name: str = "embeddings", *, debug: bool = False) -> None:
    """Refuse anything but a non-empty (rows, dim) floating tensor of finite numbers."""
    if not isinstance(rows, Tensor):
        raise ValueError(f"{name} is a {type(rows).__name__}; it must be a tensor.")
    if rows.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(rows.shape)}; it must be (rows, dim).")
    if not rows.is_floating_point():
        raise ValueError(f"{name} is {rows.dtype}; it must be a floating type: call .float() first.")
    if 0 in rows.shape:
        raise ValueError(f"{name} is empty, of shape {tuple(rows.shape)}; give at least one row of one number.")
    if reads_values(rows, debug=debug):
        _check_finite(rows.detach(), name)


def check_labels(labels: Tensor, rows: Tensor, name: str = "labels", rows_name: str = "embeddings") -> Tensor:
    """Return the labels as int64, or refuse what is not one integer for each row."""
    if not isinstance(labels, Tensor):
        raise ValueError(f"{name} is a {type(labels).__name__}; it must be a tensor.")
    if labels.dtype not in INTEGERS:
        raise ValueError(f"{name} is {labels.dtype}; class labels must be integers: call .long() first.")
    if labels.ndim != 1 or len(labels) != len(rows):
        raise ValueError(
            f"{name} has shape {tuple(labels.shape)} for {len(rows)} rows of {rows_name}; give one label for each row"
            f"{', or sm.LabelSets(bits) for several' if labels.ndim == 2 else ''}."
        )
    if labels.device != rows.device:
        raise ValueError(f"{name} is on {labels.device} and {rows_name} on {rows.device}; move one to the other.")
    return labels.long()


def check_any_labels(labels: AnyLabels, rows: Tensor, name: str = "labels", rows_name: str = "embeddings") -> AnyLabels:
    """Return the labels as int64, or a relation as it is; refuse what is not one for each row."""
    if isinstance(labels, Relation):
        return _check_relation(labels, rows, name, rows_name)
    return check_labels(labels, rows, name, rows_name)


def one_label_each(labels: AnyLabels, what: str) -> Tensor:
    """Return the labels; refuse a relation, for `what` needs one label for each row."""
    if isinstance(labels, Relation):
        raise ValueError(f"labels is a {labels!r}, and {what} needs one label for each row; give a tensor of labels.")
    return labels


def _check_relation(relation: Relation, rows: Tensor, name: str, rows_name: str) -> Relation:
    if len(relation) != len(rows):
        raise ValueError(f"{name} is a {relation!r} for {len(rows)} rows of {rows_name}; give as many.")
    if relation.device != rows.device:
        raise ValueError(
            f"{name} is on {relation.device} and {rows_name} on {rows.device}; make it from tensors that are there."
        )
    return relation


def check_batch(
    embeddings: Tensor,
    labels: AnyLabels,
    references: Tensor | None,
    reference_labels: AnyLabels | None,
    *,
    other: str = "references",
    debug: bool = False,
) -> tuple[AnyLabels, AnyLabels | None]:
    """Check a batch and what it is compared with, called `other`; return both sets of labels as int64."""
    check_rows(embeddings, debug=debug)
    labels = check_any_labels(labels, embeddings)
    other_labels = f"{other.removesuffix('s')}_labels"
    if (references is None) != (reference_labels is None):
        argument, missing = (other, other_labels)[:: 1 if reference_labels is None else -1]
        raise ValueError(f"{argument} was given without {missing}; pass both or neither.")
    if references is None or reference_labels is None:
        return labels, None
    check_rows(references, other, debug=debug)
    if references.shape[1] != embeddings.shape[1]:
        raise ValueError(
            f"{other} has rows of {references.shape[1]} numbers and embeddings of {embeddings.shape[1]}; "
            "they must match."
        )
    if references.device != embeddings.device:
        raise ValueError(
            f"{other} is on {references.device} and embeddings on {embeddings.device}; move one to the other."
        )
    others = check_any_labels(reference_labels, references, other_labels, other)
    if isinstance(labels, Relation) or isinstance(others, Relation):
        _check_same_kind(labels, others, other_labels)
    return labels, others


def _check_same_kind(labels: AnyLabels, others: AnyLabels, name: str) -> None:
    if not isinstance(labels, Relation) or not labels.same_kind(others):
        raise ValueError(
            f"labels is a {type(labels).__name__} and {name} a {type(others).__name__} that says other things; "
            "give parts of one relation, as relation[rows] returns them."
        )


def check_anchors_at(
    anchors_at: Place | None, labels: AnyLabels, reference_labels: AnyLabels | None, *, debug: bool = False
) -> None:
    """Refuse a place at which the batch can't be among the references."""
    if anchors_at is None:
        return
    if reference_labels is None:
        raise ValueError(f"anchors_at is {anchors_at!r} without references; it is the batch's place among them.")
    if anchors_at == ELSEWHERE:
        return
    last = len(reference_labels) - len(labels)
    if isinstance(anchors_at, bool) or not isinstance(anchors_at, int) or not 0 <= anchors_at <= last:
        raise ValueError(
            f"anchors_at is {anchors_at!r}; {len(labels)} rows among {len(reference_labels)} references start at "
            f"0 to {last}, or {ELSEWHERE!r} if none of them is among these."
        )
    known, others = (side.rows if isinstance(side, Relation) else side for side in (labels, reference_labels))
    if reads_values(known, debug=debug):
        there = others[anchors_at : anchors_at + len(labels)]
        if not torch.equal(there, known):
            raise ValueError(f"anchors_at is {anchors_at}, but the references there have other labels than the batch.")


def check_triplets(
    triplets: object, anchors: int, others: int, device: torch.device, *, debug: bool = False
) -> Triplets:
    """Return three int64 tensors of row numbers, or refuse what is none."""
    if not isinstance(triplets, tuple | list) or len(triplets) != 3:
        size = f" of {len(triplets)}" if isinstance(triplets, tuple | list) else ""
        raise ValueError(
            f"triplets is a {type(triplets).__name__}{size}; "
            "give (anchor, positive, negative), three tensors of row numbers."
        )
    for name, numbers in zip(Triplets._fields, triplets, strict=True):
        if not isinstance(numbers, Tensor) or numbers.dtype not in INTEGERS or numbers.ndim != 1:
            what = (
                f"{numbers.dtype} of shape {tuple(numbers.shape)}"
                if isinstance(numbers, Tensor)
                else type(numbers).__name__
            )
            raise ValueError(f"triplets' {name} is {what}; it must be a one-dimensional tensor of row numbers.")
    if len({len(numbers) for numbers in triplets}) != 1:
        raise ValueError(
            f"triplets' tensors have lengths {[len(numbers) for numbers in triplets]}; they must be equal."
        )
    if reads_values(triplets[0], debug=debug or device.type == "cpu"):
        for name, numbers, limit in zip(Triplets._fields, triplets, (anchors, others, others), strict=True):
            _check_range(numbers, limit, f"triplets' {name}")
    return Triplets(*(numbers.to(device=device, dtype=torch.int64) for numbers in triplets))


def _check_finite(rows: Tensor, name: str) -> None:
    least, most = torch.aminmax(rows)
    largest = max(-float(least), float(most))
    if largest < LARGEST_NUMBER:  # false for NaN too
        return
    bad = (~torch.isfinite(rows).all(dim=1)).nonzero()
    if len(bad):
        raise NotFinite(
            f"{name} has NaN or infinity in {len(bad)} of {len(rows)} rows, the first is row {int(bad[0])}; "
            "look for a division by zero, a learning rate too high or an overflow in half precision."
        )
    raise NotFinite(
        f"{name} has a number of {largest:.2g}; numbers must stay below {LARGEST_NUMBER:.0e}: scale them down."
    )


def check_lengths(lengths: Tensor, dtype: torch.dtype, name: str) -> None:
    """Refuse rows that are compared as they are and too long for their squares; on the CPU only."""
    limit = LONGEST_ROW[torch.promote_types(dtype, torch.float32)]
    if reads_values(lengths) and len(lengths) and not float(lengths.max()) < limit:
        raise NotFinite(
            f"{name} has a row of length {float(lengths.max()):.2g}, row {int(lengths.argmax())}; "
            f"lengths must stay below {limit:.0e} where rows are compared as they are: scale the rows down, "
            "or leave normalize=True."
        )


def _check_range(numbers: Tensor, limit: int, name: str) -> None:
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < limit:
        wrong = int(numbers.min()) if int(numbers.min()) < 0 else int(numbers.max())
        raise ValueError(f"{name} names row {wrong}; the rows are 0 to {limit - 1}.")
