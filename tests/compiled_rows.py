"""Losses over whole rows and over centers, compiled: a program, since typed functions under pytest do not compile.

It runs every case and prints, as JSON, the error of each that has one.
"""

import json
import sys
import traceback
from functools import partial

import pytest
import torch
from every_loss import CENTERS, ENTRIES, maker
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

DIM, CLASSES, SLOTS = 12, 8, 4


def made(name: str, own: dict, **settings):
    """Return a loss of the table; one that can be told is told its slots."""
    build = maker(ENTRIES[name], own, of_centers=name in CENTERS)
    loss = build(DIM, CLASSES, **settings)
    if hasattr(loss, "slots"):
        loss.slots = SLOTS
    return loss


FORMS = {name: (entry, {"": {}} | entry.forms) for name, entry in ENTRIES.items()}
ALL = {
    f"{name}/{form}" if form else name: partial(made, name, own)
    for name, (entry, forms) in FORMS.items()
    for form, own in forms.items()
    if not (form and entry.light)
}
LOSSES = {name: make for name, make in ALL.items() if name.partition("/")[0] not in CENTERS}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def batch(seed=0, dtype=torch.float32, rows=SLOTS * CLASSES):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % CLASSES
    return torch.randn(rows, DIM, generator=generator).to(dtype), labels[torch.randperm(rows, generator=generator)]


def value_and_gradients(loss, module, embeddings, labels, **against):
    leaves = [embeddings.clone().requires_grad_()]
    if "references" in against:
        leaves.append(against["references"].clone().requires_grad_())
        against = against | {"references": leaves[1]}
    value = loss(leaves[0], labels, **against)
    return value.detach(), torch.autograd.grad(value, [*leaves, *module.parameters()], allow_unused=True)


def compare(module, backend, embeddings, labels, **against):
    """Assert that the compiled loss has eager's value and gradients."""
    compare_compiled(torch.compile(module, fullgraph=True, backend=backend), module, embeddings, labels, **against)


def compare_compiled(compiled, module, embeddings, labels, **against):
    expected, slopes = value_and_gradients(module, module, embeddings, labels, **against)
    value, got = value_and_gradients(compiled, module, embeddings, labels, **against)
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=0)
    for slope, other in zip(slopes, got, strict=True):
        assert (slope is None) == (other is None)
        if slope is not None:
            error = TOLERANCE[embeddings.dtype] * float(slope.abs().max())
            torch.testing.assert_close(other, slope, rtol=0, atol=error)


def compare_with_references(name, anchors_at):
    embeddings, labels = batch()
    references, reference_labels = batch(1)
    reference_labels = labels if anchors_at == 0 else reference_labels
    against = {"references": references, "reference_labels": reference_labels, "anchors_at": anchors_at}
    compare(ALL[name](), "aot_eager", embeddings, labels, **against)


def compare_in_one_graph(name):
    """Assert that other values of the same shape are computed as well, and are no reason to compile again."""
    module, counter = ALL[name](), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(module, fullgraph=True, backend=counter)
    for seed in range(3):
        compare_compiled(compiled, module, *batch(seed))
    assert counter.frame_count == 1, counter.frame_count


def compare_training_step(name):
    torch.manual_seed(0)
    loss, model = ALL[name](), nn.Sequential(nn.Linear(DIM, 20), nn.ReLU(), nn.Linear(20, DIM))
    inputs, labels = batch()
    plain = loss(model(inputs), labels)
    expected = torch.autograd.grad(plain, list(model.parameters()))
    step = torch.compile(lambda inputs, labels: loss(model(inputs), labels), fullgraph=True, backend="aot_eager")
    value = step(inputs, labels)
    torch.testing.assert_close(value, plain)
    torch.testing.assert_close(torch.autograd.grad(value, list(model.parameters())), expected)


def refuse_without_slots(name):
    loss = ALL[name]()
    loss.slots = None
    with pytest.raises(Exception, match="give slots, which is per_class - 1"):
        torch.compile(loss, fullgraph=True, backend="eager")(*batch())


CASES = {}
for name in ALL:
    CASES[f"{name}, one graph"] = lambda name=name: compare_in_one_graph(name)
    if name not in ENTRIES or ENTRIES[name].light:
        continue  # a form, or a loss that goes another's way
    CASES[f"{name}, references"] = lambda name=name: compare_with_references(name, "elsewhere")
    if name in LOSSES:
        CASES[f"{name}, the batch among references"] = lambda name=name: compare_with_references(name, 0)
        CASES[f"{name}, rows as they are"] = lambda name=name: compare(
            ALL[name](normalize=False), "aot_eager", *batch()
        )
for name in ("multi_similarity", "n_pair", "arc_face"):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        CASES[f"{name}, {dtype}"] = lambda name=name, dtype=dtype: compare(
            ALL[name]().to(torch.promote_types(dtype, torch.float32)), "aot_eager", *batch(dtype=dtype)
        )
for name in ("multi_similarity", "contrastive", "lifted_structure", "arc_face"):
    CASES[f"{name}, blocks"] = lambda name=name: compare(ALL[name](scratch_bytes=2**15), "aot_eager", *batch())
for name in ("n_pair", "arc_face"):
    CASES[f"{name}, a training step"] = lambda name=name: compare_training_step(name)
for name in ("n_pair", "lifted_structure", "angular"):
    CASES[f"{name}, without slots"] = lambda name=name: refuse_without_slots(name)
CASES["multi_similarity, inductor"] = lambda: compare(ALL["multi_similarity"](), "inductor", *batch())


def main(cases):
    errors = {}
    for case, run in cases.items():
        torch._dynamo.reset()
        try:
            run()
        except Exception:
            errors[case] = traceback.format_exc()[-3000:]
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main(CASES)
