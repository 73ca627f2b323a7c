"""Losses of triplets with every miner, compiled: a program, since typed functions under pytest do not compile."""

import torch
from compiled_rows import (
    ALL,
    SLOTS,
    batch,
    compare,
    compare_in_one_graph,
    compare_training_step,
    compare_with_references,
    main,
)

import shadowmetric as sm

MINERS = {
    "semi_hard": "semi_hard",
    "hard": "hard",
    "batch_hard": "batch_hard",
    "all": "all",
    "window": sm.SemiHardMiner(0.5, "all"),
    "fallback": sm.SemiHardMiner(0.1, fallback="farthest", unit="distance"),
    "nearest_positive": sm.SemiHardMiner(0.5, positives="nearest"),
    "free": sm.HardMiner(normalize=False),
    "gaps": sm.SemiHardMiner(0.5, unit="gap", normalize=False),
    "gap_window": sm.SemiHardMiner(0.5, "all", unit="gap", normalize=False),
    "angle": sm.SemiHardMiner(0.3, unit="angle"),
}
MINED = {
    f"shadow/{name}": lambda miner=miner, **s: sm.ShadowLoss(0.5, miner=miner, slots=SLOTS, **s)
    for name, miner in MINERS.items()
} | {
    "triplet": lambda **s: sm.TripletLoss(0.5, squared=False, slots=SLOTS, **s),
    "soft_margin": lambda **s: sm.SoftMarginTripletLoss(slots=SLOTS, reduction="sum", **s),
    "angular_triplet": lambda **s: sm.AngularTripletLoss(0.5, slots=SLOTS, reduction="mean_nonzero", **s),
}
ALL |= MINED


def draw_in_a_graph():
    """Assert that drawn negatives are in the window: the value is one of those that some draw has."""
    loss = sm.ShadowLoss(0.5, miner=sm.SemiHardMiner(0.5, "random"), slots=SLOTS, reduction="sum")
    least, most = (
        sm.ShadowLoss(0.5, miner=sm.SemiHardMiner(0.5, kind), slots=SLOTS, reduction="sum")(*batch())
        for kind in ("nearest", "all")
    )
    value = torch.compile(loss, fullgraph=True, backend="aot_eager")(*batch())
    assert 0 < float(value) <= float(least) + 1e-6 <= float(most) + 1e-6


def refuse_without_slots():
    try:
        torch.compile(sm.ShadowLoss(), fullgraph=True, backend="eager")(*batch())
    except Exception as error:
        message = str(error)
    else:
        message = "nothing was refused"
    if "give slots, which is per_class - 1" not in message:
        raise AssertionError(message)


WAYS = ("shadow/semi_hard", "shadow/batch_hard", "shadow/all")  # the others differ in what they compare, or keep
UNITS = ("shadow/semi_hard", "shadow/hard", "shadow/all", "triplet", "soft_margin", "angular_triplet")

CASES = {"without slots": refuse_without_slots, "drawn": draw_in_a_graph}
for name in MINED:
    CASES[f"{name}, one graph"] = lambda name=name: compare_in_one_graph(name)
    CASES[f"{name}, references"] = lambda name=name: compare_with_references(name, None)
for name in WAYS:
    CASES[f"{name}, the batch among references"] = lambda name=name: compare_with_references(name, 0)
for name in UNITS:
    CASES[f"{name}, rows as they are"] = lambda name=name: compare(ALL[name](normalize=False), "aot_eager", *batch())
for name in ("shadow/semi_hard", "shadow/all"):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        CASES[f"{name}, {dtype}"] = lambda name=name, dtype=dtype: compare(
            ALL[name](), "aot_eager", *batch(dtype=dtype)
        )
for name in ("shadow/semi_hard", "shadow/batch_hard"):  # every triplet in every block would unroll
    CASES[f"{name}, blocks"] = lambda name=name: compare(ALL[name](scratch_bytes=2**13), "aot_eager", *batch())
CASES["shadow/semi_hard, a training step"] = lambda: compare_training_step("shadow/semi_hard")
CASES["shadow/semi_hard, inductor"] = lambda: compare(ALL["shadow/semi_hard"](), "inductor", *batch())


if __name__ == "__main__":
    main(CASES)
