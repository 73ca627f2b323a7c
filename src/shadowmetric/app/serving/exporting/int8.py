"""The exported model with 8-bit numbers: under a third of the bytes, and about twice as fast where the processor can.

Weights become int8 with a scale for each channel, activations uint8 with the smallest and largest value that were seen
on images of the training split (static quantization, QDQ). Rows differ from the float model's, so that the two must
not be mixed: the fingerprint is that of the run with `-int8-` and the first digits of the quantized graph's SHA-256.

Chosen on CUB-200 at 96 pixels with EfficientNet-Lite0, by the mean of 1 - cos to the float rows on 256 training
images that the ranges were not taken from; Recall@1 differed by half a point between settings with equal errors:

    ranges from smallest and largest, 64 / 256 / 512 images      0.0047 / 0.0047 / 0.0047
    first convolution in float / head / both                       0.0045 / 0.0047 / 0.0044    both, for 0.2 MB more
    percentile 99.999 / 99.99 / entropy                            0.0048 / 0.0049 / 0.0046    takes longer
    moving average of ranges / int8 / symmetric int8 activations   0.0046 / 0.0046 / 0.0056

On the test images, convolutions and head alone without what is between them were 17 times worse (0.096 for 0.0056), and
weights of 7 bits (`reduce_range`) 5 times. Those are meant for x86 processors without VNNI, where sums of 8-bit
products can overflow; the parity report tells whether that happens on the machine that exports.

Memory: the float model, and one batch of its activations.
"""

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shadowmetric.app.serving.exporting.onnx_file import INPUT, describe, save, silence
from shadowmetric.runtime.entries import About, about_from
from shadowmetric.runtime.model import METADATA
from shadowmetric.runtime.unfinished import temporary_folder

DIGITS = 16  # of the graph's SHA-256
HEADS = ("Gemm", "MatMul")


def write_int8(exported: Path, path: Path, batches: Iterator[np.ndarray]) -> None:
    """Write the 8-bit model of an exported one; batches: squares of training images."""
    import onnx

    model = onnx.load(exported)
    about = about_from(json.loads(metadata(model)[METADATA]), str(exported))
    graph = quantize_model(model, batches)
    describe(graph, replace(about, fingerprint=int8_fingerprint(about, graph), digest=""))
    save(graph, path)


def quantize_model(model: Any, batches: Iterator[np.ndarray]) -> Any:
    """Return the model with 8-bit convolutions, all but the first, and what lies between them."""
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Reader(CalibrationDataReader):
        def get_next(self) -> Any:
            batch = next(batches, None)
            return None if batch is None else {INPUT: batch}

    with temporary_folder() as folder, temporaries_in(folder), silence():
        place = folder / "int8.onnx"
        quantize_static(
            model,
            place,
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            nodes_to_exclude=float_nodes(model),
        )
        return onnx.load(place)


@contextlib.contextmanager
def temporaries_in(folder: Path) -> Iterator[None]:
    """Let the quantizer put its own temporary files into ours: it would leave them behind after a kill."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def float_nodes(model: Any) -> list[str]:
    """Return the names of the first convolution, which sees the pixels, and of the head."""
    convolutions = [node.name for node in model.graph.node if node.op_type == "Conv"]
    heads = [node.name for node in model.graph.node if node.op_type in HEADS]
    return [*convolutions[:1], *heads[-1:]]


def int8_fingerprint(about: About, graph: Any) -> str:
    """Return what tells the rows of a quantized graph from all others."""
    digest = hashlib.sha256(graph.graph.SerializeToString(deterministic=True)).hexdigest()
    return f"{about.fingerprint}-int8-{digest[:DIGITS]}"


def metadata(model: Any) -> dict[str, str]:
    """Return the metadata of a model by name."""
    return {one.key: one.value for one in model.metadata_props}
