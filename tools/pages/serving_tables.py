"""Tables of what serving costs: exported models, a device without torch, search, a server under load.

Functions of rows of records; `measured_tables.py` says which page has which. Memory: the rows, some kilobytes.
"""

from typing import Any

from shadowmetric.app.report.tables import Table, plain_table

Rows = list[dict[str, str]]
MODELS = {"torch": "torch", "fp32": "ONNX, float32", "int8": "ONNX, int8"}


def parity_table(parity: dict[str, Any]) -> Table:
    """Return what is lost and won by exporting."""
    cells = [
        (
            MODELS[one["model"]],
            f"{100 * one['recall_at_1']:.2f} %",
            "" if one["model"] == "torch" else f"{one['largest_cosine_error']:.1g}",
            f"{one['bytes'] / 1e6:.1f}",
            *(f"{one['milliseconds'][threads]:.1f}" for threads in ("1", "2")),
            f"{one['images_per_second']:,.0f}",
            f"{one['resident_bytes'] / 1e6:.0f}",
        )
        for one in parity["models"]
    ]
    headings = ("model", "Recall@1", "largest 1 − cos to torch", "MB", "ms an image, 1 thread", "2 threads")
    caption = (
        f"*measured*: `shadowmetric export birds --images 6000`, {parity['images']:,} test images of CUB-200 at 96 "
        "pixels. Record: [export.json](../benchmarks/records/export.json)."
    )
    return plain_table(caption, (*headings, "images a second", "resident MB"), cells)


def device_table(rows: Rows) -> Table:
    """Return what a bundle takes on a machine without torch."""
    (row,) = rows
    packages = ", ".join(f"{name} {row[name]}" for name in ("onnxruntime", "numpy", "pillow"))
    cells = [
        ("bundle: model, index of 11,788 images, threshold, runner", f"{float(row['bundle_mb']):.1f} MB"),
        (f"environment: Python {row['python']}'s own venv with {packages}", f"{float(row['environment_mb']):.0f} MB"),
        ("a whole `python -m device search`, median of 5", f"{float(row['search_seconds']):.2f} s"),
        ("its memory at the peak", f"{float(row['peak_resident_mb']):.0f} MB"),
    ]
    caption = (
        "*measured*: `python -m benchmarks.serving.device_cost device photo.jpg`, in an environment made for it. "
        "Row: [device.csv](../benchmarks/records/device.csv)."
    )
    return plain_table(caption, ("without torch", ""), cells)


def search_table(rows: Rows) -> Table:
    """Return exact and approximate search beside faiss, all of one run."""
    cells = [
        (
            row["contender"],
            f"{float(row['build s']):.0f} s",
            f"{float(row['MB']):.0f}",
            f"{float(row['found %']):.1f} %",
            f"{float(row['one query ms']):.2f} ms",
            f"{float(row['p95 ms']):.2f} ms",
            f"{float(row['of 100 at once ms']):.2f} ms",
        )
        for row in rows
    ]
    caption = (
        "*measured* in one run: `python -m benchmarks search`, 1,000,000 rows of 64 numbers, 200 queries; ours float16 "
        "mapped from a file, faiss's flat index float32 in memory. Tests of this project ran beside it, more during "
        "the builds, whose times say little. Rows: [search.csv](../benchmarks/records/search.csv)."
    )
    headings = ("1,000,000 × 64", "built in", "MB", "found of the exact ten", "one query", "95 % within")
    return plain_table(caption, (*headings, "a query among 100 at once"), cells)


def load_table(rows: Rows) -> Table:
    """Return what `serve` answers under load."""
    cells = [
        (
            row["connections"],
            f"{float(row['answers_per_second']):.0f}",
            f"{float(row['refused_per_second']):.0f}",
            f"{float(row['p50_ms']):.0f} ms",
            f"{float(row['p99_ms']):.0f} ms",
            f"{float(row['resident_before_mb']):.0f} → {float(row['resident_after_mb']):.0f} MB",
        )
        for row in rows
    ]
    caption = (
        "*measured* on loopback by wrk, a JPEG of 43 kB, twelve neighbors, client and server on the same two cores: "
        "`python -m benchmarks.serving.server_load photo.jpg --connections 1 8 64 8 8`, one after the other from the "
        "server's start on. Rows: [load.csv](../benchmarks/records/load.csv)."
    )
    headings = ("connections", "answers a second", "503 a second", "half within", "99 % within", "resident memory")
    return plain_table(caption, headings, cells)


def connections_table(rows: Rows) -> Table:
    """Return what `serve` answers while silent and slow connections are kept at it."""
    cells = [
        (
            "as usual" if row["descriptors"] == "0" else row["descriptors"],
            row["idle"],
            row["slow"],
            row["busy"],
            f"{100 * float(row['good_share']):.1f} % of {int(row['asked']):,}",
            f"{float(row['p50_ms']):.0f} ms",
            f"{float(row['p99_ms']):.0f} ms",
            f"{int(row['log_bytes']):,}",
            f"{float(row['resident_mb']):.0f} MB",
        )
        for row in rows
    ]
    caption = (
        "*measured* on loopback for 30 seconds a row, a JPEG of 58 kB, twelve neighbors among 602 images, a small "
        "model in torch; client, server and other programs on the same two cores: "
        "`python -m benchmarks.serving.connection_load photos.shadowmx photo.jpg`, and again with `--descriptors 64`. "
        "Rows: [connections.csv](../benchmarks/records/connections.csv)."
    )
    headings = ("descriptors", "idle", "slow", "busy", "good answers", "half within", "99 % within", "log bytes")
    return plain_table(caption, (*headings, "resident memory"), cells)
