"""How the claims about memory are judged: by bytes that were counted, and peaks that were measured."""

import numpy as np

from paper.claims.judges import FAILS, HOLDS, ONLY_IF, Judge, Records, Verdict, command_of, missing


def kept_bytes(records: Records) -> dict[tuple[str, int], int]:
    """Return the bytes that each loss keeps, by dimension."""
    figures = records["memory"].found if "memory" in records else {}
    return {(one["loss"], one["dim"]): one["bytes"] for one in figures.get("loss_kept", [])}


def memory_of_loss(records: Records) -> Verdict:
    """Judge O(S) against O(S D)."""
    kept = kept_bytes(records)
    if not kept:
        return missing("No measurement in `paper/records/`.")
    printed, ours = ({dim: kept[loss, dim] for dim in (64, 4096)} for loss in ("shadow_rows", "shadow"))
    same = ours[64] == ours[4096]
    return Verdict(
        f"{ONLY_IF} rows are not gathered" if same else FAILS,
        f"Algorithm 1 as printed keeps {printed[64]:,} bytes at D = 64 and {printed[4096]:,} at D = 4,096, batch 32: "
        f"O(S·D). Ours keeps {ours[64]:,} and {ours[4096]:,}: row numbers and a few numbers a triplet.",
        command_of(records["memory"]),
        f"{ours[64] / 1e3:.0f} kB at D = 64 and 4,096",
    )


def only_shadow(records: Records) -> Verdict:
    """Judge whether other triplet losses cannot have it."""
    kept = kept_bytes(records)
    if not kept:
        return missing("No measurement in `paper/records/`.")
    return Verdict(
        FAILS if kept["triplet", 64] == kept["triplet", 4096] else HOLDS,
        f"The squared Triplet, computed the same way, keeps {kept['triplet', 64]:,} bytes at D = 64 and "
        f"{kept['triplet', 4096]:,} at D = 4,096: every triplet loss is a function of dot products and lengths. "
        f"Gathered as usual, Triplet keeps {kept['triplet_rows', 64]:,} at D = 64, and Algorithm 1 "
        f"{kept['shadow_rows', 64]:,}.",
        command_of(records["memory"]),
        f"Triplet: {kept['triplet', 64] / 1e3:.0f} kB at D = 64 and 4,096",
    )


def peak(dim: int, stated: str) -> Judge:
    """Judge the peaks of whole steps: a tenth less would be seen."""

    def judge(records: Records) -> Verdict:
        figures = records["memory"].found if "memory" in records else {}
        peaks = {one["loss"]: one["bytes"] for one in figures.get("step_peak", []) if one["dim"] == dim}
        if not all(peaks.get(loss) and None not in peaks[loss] for loss in ("shadow", "triplet")):
            return missing("No measurement in `paper/records/`.")
        means = {loss: float(np.mean(values)) / 1e6 for loss, values in peaks.items() if None not in values}
        words = ", ".join(f"{loss.replace('_rows', ' on gathered rows')} {means[loss]:,.0f}" for loss in means)
        most = max(size for (_, width), size in kept_bytes(records).items() if width == dim)
        setting = figures["setting"]
        return Verdict(
            FAILS if means["shadow"] > 0.9 * means["triplet"] else HOLDS,
            f"{stated} A step with {setting['backbone']} at {setting['size']} pixels, batch {setting['batch']}, MB: "
            f"{words}. No loss keeps more than {most / 1e3:,.0f} kB for backward, so none can save more.",
            command_of(records["memory"]),
            f"{means['shadow']:,.0f} and {means['triplet']:,.0f} MB",
        )

    return judge
