"""What `memory` measured as tables, beside what the paper states."""

from typing import Any

from paper.quoted import find_quoted
from shadowmetric.app.report.tables import Table

NAMES = {"shadow_rows": "shadow, Algorithm 1 as printed", "triplet_rows": "triplet on gathered rows"}
FIGURES = {64: "peak_gb", 128: "peak_gb_d128"}  # of the paper, by dim
FLOAT = 4  # bytes


def tables(results: dict[str, Any]) -> list[Table]:
    """Return the peaks of steps, what losses keep by dimension, and what a loss could save."""
    return [peaks_table(results), make_kept_table(results), savings_table(results)]


def peaks_table(results: dict[str, Any]) -> Table:
    """Return the peak of a step with each loss, beside the paper's, and what of it the loss keeps."""
    setting = results["setting"]
    headings = ["loss"]
    for dim in setting["dims"]:
        headings += [f"paper, D = {dim}", f"step, D = {dim}", f"kept by the loss, D = {dim}"]
    rows = [
        (name_of(loss), *(cell for dim in setting["dims"] for cell in cells_of(results, loss, dim)))
        for loss in setting["losses"]
    ]
    alone = [("–", "–", f"{megabytes(one['kept_bytes'])} kept") for one in results["embedder"]]
    rows.append(("the embedder alone", *(cell for cells in alone for cell in cells)))
    kinds = tuple("control" if loss in NAMES else "loss" for loss in setting["losses"])
    where = "torch's allocator on " + results["device"] if results["device"] != "cpu" else "resident memory, CPU"
    caption = (
        f"{setting['backbone']}, {setting['size']} pixels, batch {setting['batch']}, {setting['per_class']} of a "
        f"class, {results['triplets']} triplets, random weights and images. Step: how far memory rises in one step, "
        f"{where}, least to most of {setting['repeats']} processes. Kept: for backward, besides the embeddings; for "
        "the embedder, besides weights and images. Beside these a run holds weights and Adam's moments, "
        f"{megabytes(3 * results['embedder'][0]['weights_bytes'])}. The paper's are over its datasets, on a K80."
    )
    return Table("Peak memory of a training step", caption, tuple(headings), tuple(rows), (*kinds, "floor"))


def cells_of(results: dict[str, Any], loss: str, dim: int) -> tuple[str, str, str]:
    """Return what the paper states of a loss, what was measured, and what the loss keeps."""
    peaks = [peak for one in results["step_peak"] if (one["loss"], one["dim"]) == (loss, dim) for peak in one["bytes"]]
    known = [peak / 1e6 for peak in peaks if peak is not None]
    measured = f"{between(known, 1)} MB measured" if known else "not known here"
    kept = [one["bytes"] for one in results["loss_kept"] if (one["loss"], one["dim"]) == (loss, dim)]
    return format_stated_peak(loss, dim), measured, f"{kept[0]:,} bytes" if kept else "–"


def make_kept_table(results: dict[str, Any]) -> Table:
    """Return the bytes that each loss keeps, by dimension."""
    dims = sorted({one["dim"] for one in results["loss_kept"]})
    losses = list(dict.fromkeys(one["loss"] for one in results["loss_kept"]))
    kept = {(one["loss"], one["dim"]): one["bytes"] for one in results["loss_kept"]}
    rows = tuple((name_of(loss), *(f"{kept[loss, dim]:,}" for dim in dims)) for loss in losses)
    caption = (
        f"Bytes for backward besides the embeddings and the loss's own parameters, {results['setting']['batch']} unit "
        f"rows, {results['triplets']} triplets, counted. Ours do not depend on D, whatever the loss. Algorithm 1 keeps "
        "three (triplets, D) tensors, and the gathered Triplet two, its differences: as printed, Shadow keeps more."
    )
    kinds = tuple("control" if loss in NAMES else "loss" for loss in losses)
    return Table("What a loss keeps, by dimension", caption, ("loss", *(f"D = {d}" for d in dims)), rows, kinds)


def savings_table(results: dict[str, Any]) -> Table:
    """Return what gathering costs at most, as a share of the step, beside what the paper's difference would take."""
    rows, kinds = [], []
    for one in results["embedder"]:
        dim, step = one["dim"], one["kept_bytes"]
        for words, count in (("mined", results["triplets"]), ("every one of the batch", results["every_triplet"])):
            size = bytes_of_gathered(count, dim)
            rows.append((f"D = {dim}, {words}", f"{count:,}", megabytes(size), f"{100 * size / (step + size):.4f} %"))
            kinds.append("loss")
        lost = differences(dim)
        if lost:
            counts = [gigabytes * 1e9 / bytes_of_gathered(1, dim) / 1e6 for gigabytes in lost]
            share = between([100 * (1 - low / high) for low, high in pairs(dim)], 1)
            words = (f"{between(counts, 1)} million needed", f"{between(lost, 2)} GB quoted", f"{share} % quoted")
            rows.append((f"D = {dim}, Triplet less Shadow in the paper", *words))
            kinds.append("control")
    caption = (
        "A loss that keeps three float32 rows of each triplet holds 12 × triplets × D bytes; of what the step keeps "
        "that is 12 T D / (embedder + 12 T D), and leaving them out saves no more. The matrix of all distances of the "
        f"batch is {FLOAT * results['setting']['batch'] ** 2:,} bytes. The paper's difference would take hundreds of "
        "times the triplets that a batch has; what else made it, the paper does not say."
    )
    headings = ("triplets", "how many", "bytes of gathered rows", "share of what is kept")
    return Table("What the loss could save", caption, headings, tuple(rows), tuple(kinds))


def bytes_of_gathered(triplets: int, dim: int) -> int:
    """Return the bytes of the three rows of each triplet."""
    return 3 * FLOAT * triplets * dim


def pairs(dim: int) -> list[tuple[float, float]]:
    """Return the paper's peaks of Shadow and of Triplet, for each dataset that has both."""
    low, high = ({one.dataset: one.value for one in stated_peaks(loss, dim)} for loss in ("shadow", "triplet"))
    return [(low[dataset], high[dataset]) for dataset in low if dataset in high]


def differences(dim: int) -> list[float]:
    """Return by how many GB the paper's Triplet is above its Shadow."""
    return [high - low for low, high in pairs(dim)]


def format_stated_peak(loss: str, dim: int) -> str:
    """Return the paper's peak of a loss in words, least to most over its datasets."""
    values = [one.value for one in stated_peaks(loss, dim)]
    return f"{between(values, 2)} GB quoted" if values else "–"


def stated_peaks(loss: str, dim: int) -> list[Any]:
    """Return the paper's peaks of a loss."""
    return find_quoted(table="memory", loss=loss, figure=FIGURES[dim]) if dim in FIGURES else []


def between(values: list[float], digits: int) -> str:
    """Return the least and the most of some values, or the one if they are alike."""
    least, most = (f"{value:,.{digits}f}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def megabytes(count: int) -> str:
    """Return bytes in MB."""
    return f"{count / 1e6:,.2f} MB"


def name_of(loss: str) -> str:
    """Return a loss as people read it."""
    return NAMES.get(loss, loss)
