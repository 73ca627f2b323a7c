"""Tensors by name, into an embedder: all of the backbone or nothing.

    a backbone's own names           conv1.weight, ...
    a whole embedder, as a run       backbone.conv1.weight, ..., head.weight, head.bias
    saves it

Every tensor of the backbone must be there, in its shape, and finite. Two things may differ: kernels for RGB are summed
for gray images (first_layer.py), and counts of batches may be missing, as they are in old files. The source's
classifier is not used; its head is, if it has the shape of ours. Half precision becomes the embedder's.
"""

import torch
from torch import Tensor

from shadowmetric.app.models.embedder import Embedder
from shadowmetric.app.models.first_layer import first_convolution, gray_kernels
from shadowmetric.app.models.wording import first_few
from shadowmetric.errors import ModelMistake

BACKBONE, HEAD = "backbone.", "head."


def load_matching(embedder: Embedder, tensors: dict[str, Tensor], source: str, classifier: tuple[str, ...] = ()) -> str:
    """Load the tensors into the embedder; return a sentence on what was used and what was not."""
    wanted = embedder.backbone.state_dict()
    state, outside = _parts(tensors, wanted)
    unused = [name for name in state if name not in wanted and name.startswith(tuple(f"{c}." for c in classifier))]
    state = {name: value for name, value in state.items() if name not in unused}
    _fit_first_layer(embedder, state, wanted)
    _check_names(state, wanted, source)
    for name, value in state.items():
        if not torch.isfinite(value).all():
            raise ModelMistake(f"weights {source} has numbers in {name} that are not finite; the file is damaged.")
    embedder.backbone.load_state_dict(wanted | state)
    head = {name.removeprefix(HEAD): value for name, value in outside.items() if name.startswith(HEAD)}
    used_head = _shapes(head) == _shapes(embedder.head.state_dict())
    if used_head:
        embedder.head.load_state_dict(head)
    unused += [name for name in outside if not (used_head and name.startswith(HEAD))]
    what = "the backbone and the head" if used_head else "the backbone"
    return f"Weights of {what} from {source}; " + (f"not used: {first_few(unused, 6)}." if unused else "all used.")


def _parts(tensors: dict[str, Tensor], wanted: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what belongs to the backbone, under its own names, and what does not."""
    prefixed = {name for name in tensors if name.startswith(BACKBONE)}
    if not prefixed or any(name.startswith(BACKBONE) for name in wanted):
        return dict(tensors), {}
    return (
        {name.removeprefix(BACKBONE): tensors[name] for name in tensors if name in prefixed},
        {name: tensors[name] for name in tensors if name not in prefixed},
    )


def _fit_first_layer(embedder: Embedder, state: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    if len(embedder.mean) == 3:
        return
    name = f"{first_convolution(embedder.backbone)[0]}.weight"
    kernels = state.get(name)
    if kernels is not None and kernels.ndim == 4 and kernels.shape[1] == 3:
        state[name] = gray_kernels(kernels.to(wanted[name].dtype))


def _check_names(state: dict[str, Tensor], wanted: dict[str, Tensor], source: str) -> None:
    missing = [name for name in wanted if name not in state and not name.endswith(".num_batches_tracked")]
    unexpected = [name for name in state if name not in wanted]
    misshaped = [
        f"{name} {tuple(state[name].shape)} for {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in state and state[name].shape != value.shape
    ]
    wrong = {"missing": missing, "unexpected": unexpected, "of another shape": misshaped}
    if any(wrong.values()):
        problems = "; ".join(f"{len(names)} {how}: {first_few(names)}" for how, names in wrong.items() if names)
        raise ModelMistake(f"weights {source} do not fit the backbone's {len(wanted)} tensors ({problems}).")


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in tensors.items()}
