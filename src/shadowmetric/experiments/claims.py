"""The paper's claims, one by one, each with a verdict that its record decides.

    holds | holds only if ... | does not hold | not testable here

A claim of a gain over Triplet is judged by the seeds' differences: it holds if their 95 % interval lies above 0. Where
it does not, the evidence says so with the interval, and whether the gain that the paper states lies inside it. That
Shadow and Triplet are one loss under the paper's protocol is proved (tests/losses/test_identities.py); the trainings
show how much noise hides it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shadowmetric.experiments.beside import Difference, difference, differing, said_difference
from shadowmetric.experiments.quoted import quoted_value
from shadowmetric.experiments.records import Record

HOLDS, ONLY_IF, FAILS, UNTESTABLE = "holds", "holds only if", "does not hold", "not testable here"
IDENTITIES = "`pytest tests/losses/test_identities.py`"
NOT_HERE = {
    "cars196": "No photographs here; `shadowmetric reproduce fine-grained --only cars196` is the command.",
    "sop": "No photographs here; `shadowmetric reproduce large-scale` is the command.",
}
Records = dict[str, Record]


@dataclass(frozen=True)
class Verdict:
    """What became of a claim."""

    verdict: str  # one of the four, ONLY_IF with its condition
    evidence: str
    command: str


@dataclass(frozen=True)
class Claim:
    """What the paper says, where, and how it is judged."""

    where: str
    words: str
    judge: Callable[[Records], Verdict]


def proved(verdict: str, evidence: str, command: str = IDENTITIES) -> Callable[[Records], Verdict]:
    """Return a verdict that needs no record."""
    return lambda records: Verdict(verdict, evidence, command)


def missing(what: str = "No finished trainings in `results/`.") -> Verdict:
    """Return the verdict where nothing was measured."""
    return Verdict(UNTESTABLE, what, "")


def gain(bed: str, table: str, figure: str, dataset: str | None = None, called: str | None = None):
    """Judge a gain over Triplet on one dataset."""

    def judge(records: Records) -> Verdict:
        record = records.get(bed)
        found = None if record is None else difference(record, figure)
        if record is None or found is None:
            return missing(NOT_HERE.get(bed, "No finished trainings in `results/`."))
        mine, theirs = (
            quoted_value(table, dataset or record.facts["data"], loss, called or figure)
            for loss in ("shadow", "triplet")
        )
        stated = None if mine is None or theirs is None else mine - theirs
        return Verdict(
            HOLDS if found.sign > 0 else FAILS, gain_words(record, figure, found, stated), command_of(record)
        )

    return judge


def gain_words(record: Record, figure: str, found: Difference, stated: float | None) -> str:
    """Say a difference from Triplet, beside the paper's and beside the control's."""
    paper = "" if stated is None else f"The paper: {stated:+.{3 if figure == 'silhouette' else 2}f}. "
    words = f"{paper}Ours: {said_difference(found, figure)}, {found.seeds} seed{'s' if found.seeds != 1 else ''}"
    if found.sign == 0:
        words += ", inside the noise"
        inside = (
            stated is not None and found.low is not None and found.low <= in_units(stated, figure) <= (found.high or 0)
        )
        words += ", which is wide enough to hold the paper's as well" if inside else ""
    control = difference(record, figure, "shadow", "triplet_control")
    if control is not None:
        words += f"; over Triplet at twice the margin, the same loss by algebra, {said_difference(control, figure)}"
    return words + "."


def in_units(stated: float, figure: str) -> float:
    """Return a stated figure as a record has it: per cent are fractions there."""
    return stated if figure in ("silhouette", "convergence_epoch") else stated / 100


def command_of(record: Record) -> str:
    """Return the command of a record."""
    return f"`{record.facts['command']}`"


def over_beds(beds: Sequence[str], figure: str, words: str, better: int = 1):
    """Judge a claim over several datasets: it holds if it holds on each."""

    def judge(records: Records) -> Verdict:
        found = {bed: difference(records[bed], figure) for bed in beds if bed in records}
        known = {bed: one for bed, one in found.items() if one is not None}
        if not known:
            return missing()
        signs = [better * one.sign for one in known.values()]
        parts = "; ".join(f"{bed} {said_difference(one, figure)}" for bed, one in known.items())
        count = sum(sign > 0 for sign in signs)
        verdict = HOLDS if count == len(signs) else FAILS
        return Verdict(
            verdict,
            f"{words}, Shadow less Triplet: {parts}. Better on {count} of {len(signs)} beyond the seeds' noise, "
            f"worse on {sum(sign < 0 for sign in signs)}.",
            " and ".join(dict.fromkeys(command_of(records[bed]) for bed in known)),
        )

    return judge


def convergence(records: Records) -> Verdict:
    """Judge the 1.5 to 2 times fewer epochs."""
    beds = [
        bed for bed in ("cifar10", "fashion_mnist", "cub200", "mnist", "cifar100", "tiny_imagenet") if bed in records
    ]
    ratios = []
    for bed in beds:
        mine, theirs = (records[bed].values(loss, "convergence_epoch") for loss in ("shadow", "triplet"))
        ratios += [theirs[seed] / mine[seed] for seed in mine.keys() & theirs.keys() if mine[seed]]
    if not ratios:
        return missing()
    mean = float(np.exp(np.mean(np.log(ratios))))
    low, high = (float(np.quantile(ratios, share)) for share in (0.1, 0.9))
    verdict = HOLDS if mean >= 1.5 else FAILS
    return Verdict(
        verdict,
        f"Epochs to the plateau, Triplet's over Shadow's: {mean:.2f} in the (geometric) mean of {len(ratios)} pairs of "
        f"runs on {len(beds)} datasets, eight of ten between {low:.2f} and {high:.2f}; the trainings are short. By "
        "algebra it is 1: Adam ignores a factor of the gradient.",
        " and ".join(dict.fromkeys(command_of(records[bed]) for bed in beds)),
    )


def architectures(records: Records) -> Verdict:
    """Judge the gains on every backbone."""
    beds = [bed for bed in records if bed.startswith("cifar10-") and "backbone" in records[bed].facts["settings"]]
    beds = [bed for bed in beds if bed.removeprefix("cifar10-") in ("resnet18", "vgg16", "googlenet", "small_cnn")]
    return over_beds(beds, "recall_at_1", "The paper: +9.36, +8.92, +8.53 points. Ours")(records)


def other_losses(records: Records) -> Verdict:
    """Judge Shadow against the losses that are no triplet losses."""
    record = records.get("cub200")
    found = (
        {}
        if record is None
        else {loss: difference(record, "recall_at_1", "shadow", loss) for loss in ("soft_triple", "multi_similarity")}
    )
    known = {loss: one for loss, one in found.items() if one is not None}
    if record is None or not known:
        return missing()
    words = "; ".join(f"{loss} {said_difference(one, 'recall_at_1')}" for loss, one in known.items())
    verdict = HOLDS if all(one.sign > 0 for one in known.values()) else FAILS
    return Verdict(
        verdict,
        f"Shadow's Recall@1 on CUB-200 less the other's: {words}. The paper: +1.74 and +4.44.",
        command_of(record),
    )


def gradient_norms(records: Records) -> Verdict:
    """Judge the 2.53 times longer gradients."""
    parts, commands = [], []
    for bed in ("cifar10", "cub200"):
        if bed in records:
            mine, theirs = (records[bed].values(loss, "anchor_gradient") for loss in ("shadow", "triplet"))
            ratios = [mine[seed] / theirs[seed] for seed in mine.keys() & theirs.keys()]
            parts += [f"{bed} {np.mean(ratios):.2f}"] if ratios else []
            commands += [command_of(records[bed])] if ratios else []
    words = f" Measured, mean over training: {', '.join(parts)}." if parts else ""
    return Verdict(
        FAILS,
        "On unit rows a triplet's gradient is half of Triplet's, in every batch: the ratio is 0.5 by algebra, and Adam "
        f"divides it out.{words}",
        " and ".join(dict.fromkeys([IDENTITIES, *commands])),
    )


def penalised(records: Records) -> Verdict:
    """Judge what a price on length does to both losses."""
    before, after = records.get("cifar10"), records.get("cifar10-penalty")
    if before is None or after is None:
        return missing()
    parts, changes = [], {}
    for loss in ("shadow", "triplet"):
        first, second = (list(record.values(loss, "mean_variance").values()) for record in (before, after))
        changes[loss] = float(np.mean(second) / np.mean(first))
        accuracy = said_difference(differing(after, before, loss, "accuracy"), "accuracy")
        parts.append(f"{loss} {np.mean(first):.4f} to {np.mean(second):.4f}, accuracy {accuracy}")
    verdict = HOLDS if changes["triplet"] < 0.5 < changes["shadow"] else FAILS
    return Verdict(
        verdict,
        f"Variance without and with the penalty, on CIFAR-10 (CARS196 cannot be had here): {'; '.join(parts)}.",
        " and ".join(dict.fromkeys((command_of(before), command_of(after)))),
    )


def memory_of_loss(records: Records) -> Verdict:
    """Judge O(S) against O(S D)."""
    kept = kept_bytes(records)
    if not kept:
        return missing("No measurement in `results/`.")
    printed, ours = ({dim: kept[loss, dim] for dim in (64, 4096)} for loss in ("shadow_rows", "shadow"))
    return Verdict(
        f"{ONLY_IF} rows are not gathered",
        f"Algorithm 1 as printed keeps {printed[64]:,} bytes at D = 64 and {printed[4096]:,} at D = 4,096, batch 32: "
        f"O(S·D). Ours keeps {ours[64]:,} at both: row numbers and a few numbers a triplet."
        if ours[64] == ours[4096]
        else f"Ours keeps {ours[64]:,} and {ours[4096]:,} bytes.",
        command_of(records["memory"]),
    )


def only_shadow(records: Records) -> Verdict:
    """Judge whether other triplet losses cannot have it."""
    kept = kept_bytes(records)
    if not kept:
        return missing("No measurement in `results/`.")
    return Verdict(
        FAILS,
        f"The squared Triplet, computed the same way, keeps {kept['triplet', 4096]:,} bytes at any D, Shadow "
        f"{kept['shadow', 4096]:,}: every triplet loss is a function of dot products and lengths. Gathered as usual, "
        f"Triplet keeps {kept['triplet_rows', 64]:,} at D = 64, less than Algorithm 1's {kept['shadow_rows', 64]:,}.",
        command_of(records["memory"]),
    )


def kept_bytes(records: Records) -> dict[tuple[str, int], int]:
    """Return the bytes that each loss keeps, by dimension."""
    found = records["memory"].found if "memory" in records else {}
    return {(one["loss"], one["dim"]): one["bytes"] for one in found.get("loss_kept", [])}


def peak(dim: int, stated: str) -> Callable[[Records], Verdict]:
    """Judge the peaks of whole steps."""

    def judge(records: Records) -> Verdict:
        found = records["memory"].found if "memory" in records else {}
        peaks = {one["loss"]: one["bytes"] for one in found.get("step_peak", []) if one["dim"] == dim}
        if not all(peaks.get(loss) and None not in peaks[loss] for loss in ("shadow", "triplet")):
            return missing("No measurement in `results/`.")
        shadow, triplet = (float(np.mean(peaks[loss])) / 1e6 for loss in ("shadow", "triplet"))
        rows = {loss: float(np.mean(peaks[loss])) / 1e6 for loss in ("shadow_rows", "triplet_rows") if peaks.get(loss)}
        gathered = ", ".join(
            f"{loss.replace('_rows', '')} on gathered rows {value:,.0f}" for loss, value in rows.items()
        )
        kept = kept_bytes(records)
        setting = found["setting"]
        return Verdict(
            FAILS if shadow > 0.9 * triplet else HOLDS,
            f"{stated} A step with {setting['backbone']} at {setting['size']} pixels, batch {setting['batch']}: shadow "
            f"{shadow:,.0f} MB, triplet {triplet:,.0f} MB, {gathered}. The loss's part is "
            f"{kept['triplet_rows', dim] / 1e3:,.0f} kB at most: no loss can save more.",
            command_of(records["memory"]),
        )

    return judge


CLAIMS: tuple[Claim, ...] = (
    Claim("abstract, Memory complexity", "The loss's own buffer is O(S) instead of O(S·D).", memory_of_loss),
    Claim("abstract, Related work", "Other triplet losses need O(S·D): only projections remove it.", only_shadow),
    Claim(
        "Triplet selection",
        "Mining reuses the similarity matrix and stores no S×S tensor.",
        proved(
            f"{ONLY_IF} it is streamed",
            "Written with a whole matrix it takes S² numbers; here blocks of rows pass through one buffer, and a test "
            "bounds the largest temporary.",
            "`pytest tests/test_memory.py`",
        ),
    ),
    Claim(
        "table of VRAM",
        "Peak memory is 16 to 17 % lower in the table (17 to 21 % in the text) at batch 32, D = 64.",
        peak(64, "The paper: 8.62 to 8.94 GB against 10.31 to 10.72."),
    ),
    Claim(
        "Memory efficiency validation",
        "At D = 128 peak memory is 26 % lower.",
        peak(128, "The paper: 9.17 GB against 12.41."),
    ),
    Claim(
        "Related work, first figure",
        "Shadow does away with the angle and measures something else than Triplet.",
        proved(
            f"{ONLY_IF} rows have free lengths",
            "On unit rows, the paper's protocol, the gap is 1 − cos: the angle and nothing else. Shadow at margin m is "
            "half the squared Triplet at margin 2m, value and gradient.",
        ),
    ),
    Claim(
        "Lipschitz continuity",
        "The loss is 2-Lipschitz in the unit anchor.",
        proved(HOLDS, "The gradient is (I − uuᵀ)(n − p), no longer than 2. So is Triplet's halved one."),
    ),
    Claim(
        "Gradient structure",
        "The gradient to the anchor is as printed.",
        proved(
            f"{ONLY_IF} ‖a‖ > u·x for both pairs",
            "The sign belongs to the whole of each term; the paper prints it on the first part only. Against finite "
            "differences in float64.",
        ),
    ),
    Claim(
        "Gradient structure",
        "Strong radial parts, which cancel less, make the signal stronger.",
        proved(
            FAILS,
            "On unit rows both signs are +1, so the two radial parts u − u are 0: the gradient is tangential, and "
            "exactly half of Triplet's.",
        ),
    ),
    Claim(
        "Gradient structure analysis",
        "Anchor gradients are 2.53 times as long as Triplet's (1.62 against 0.64), which explains faster learning.",
        gradient_norms,
    ),
    Claim(
        "Shadow loss",
        "Collapse costs the margin, so the optimiser is compelled to separate embeddings.",
        proved(FAILS, "With all rows equal the loss is the margin and its gradient is 0: it costs and pushes nowhere."),
    ),
    Claim(
        "Collapse prevention analysis",
        "Under a price on length (1e-3) Shadow keeps its variance (0.0078 to 0.0068, −0.8 points), Triplet's collapses "
        "(0.0015, −4.1 points).",
        penalised,
    ),
    Claim(
        "fine-grained table",
        "CUB-200: Recall@1 6.41 points above Triplet's.",
        gain("cub200", "fine-grained", "recall_at_1"),
    ),
    Claim("fine-grained table", "CUB-200: Recall@1 above SoftTriple's and Multi-Similarity's.", other_losses),
    Claim(
        "fine-grained table",
        "CARS196: Recall@1 3.37 points above Triplet's.",
        gain("cars196", "fine-grained", "recall_at_1"),
    ),
    Claim(
        "large-scale table",
        "SOP and In-Shop: Recall@1 0.98 and 2.52 points above Triplet's, in 2 to 3 times fewer epochs.",
        gain("sop", "large-scale", "recall_at_1"),
    ),
    Claim(
        "standard table", "CIFAR-10: Recall@1 0.29 points above Triplet's.", gain("cifar10", "standard", "recall_at_1")
    ),
    Claim(
        "standard table",
        "CIFAR-10: silhouette 0.051 above Triplet's.",
        gain("cifar10", "standard", "silhouette"),
    ),
    Claim(
        "standard table",
        "Fashion-MNIST: the same Recall@1 and a silhouette 0.034 above Triplet's.",
        gain("fashion_mnist", "standard", "silhouette"),
    ),
    Claim("Standard benchmarks", "MNIST: accuracy 2.0 points above Triplet's.", gain("mnist", "standard", "accuracy")),
    Claim("Standard benchmarks", "CIFAR-100: accuracy 2.82 points above.", gain("cifar100", "standard", "accuracy")),
    Claim(
        "Standard benchmarks",
        "Tiny-ImageNet: accuracy 10.6 points above.",
        gain("tiny_imagenet", "standard", "accuracy"),
    ),
    Claim("medical table", "HAM10000: macro-F1 2.25 points above.", gain("ham10000", "medical", "macro_f1")),
    Claim("medical table", "ODIR-5K: macro-F1 4.2 points above.", gain("odir5k", "medical", "macro_f1")),
    Claim("Convergence behaviour", "A plateau after 1.5 to 2 times fewer epochs on every dataset.", convergence),
    Claim(
        "Embedding quality",
        "Higher silhouette scores on every dataset.",
        over_beds(
            ("cifar10", "fashion_mnist", "mnist", "cifar100", "tiny_imagenet", "cub200", "ham10000", "odir5k"),
            "silhouette",
            "Silhouette",
        ),
    ),
    Claim("architectures table", "8.5 to 9.4 points above Triplet with any backbone.", architectures),
    Claim(
        "abstract",
        "No proxies, no learnt parameters, nothing to set but the margin; drops into existing pipelines.",
        proved(HOLDS, "`ShadowLoss` has no parameters; one margin. So has Triplet.", "`python examples/first_loss.py`"),
    ),
)
