"""A run's embedder as one .onnx file: squares of pixels in, rows of length 1 out.

    pixels       (batch, channels, size, size) uint8, any batch
    embeddings   (batch, dim) float32, of length 1

Scaling, normalizing and unit length are in the graph, also for runs whose own rows keep their length: serving compares
by cosine. The metadata says what the file takes: `shadowmetric` is JSON for programs (`runtime/entries.py`), the other
keys are words for people. torch leaves stack traces with the folders of this machine in every node; they are removed.

The fingerprint is that of the run's weights: rows equal torch's but for rounding, so that an index of the run can be
searched with the file.

Memory: the weights, three times. Time: torch traces the model, seconds for a small one.
"""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.app.models import Embedder
from shadowmetric.app.serving.model import portable_name
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import About
from shadowmetric.runtime.files import write_whole
from shadowmetric.runtime.model import DIGEST, DIGITS, METADATA, seal_model

INPUT, OUTPUT = "pixels", "embeddings"
SHORTEST_ROW = 1e-12  # a zero row has no direction; dividing by this keeps it zero
MOST_BYTES = 2**31 - 1  # of one protobuf
EXAMPLE = 2  # images in the batch that is traced: torch takes a 1 for a constant


class Unit(nn.Module):
    """An embedder whose rows have length 1, whatever it was trained with."""

    def __init__(self, embedder: Embedder):
        super().__init__()
        self.embedder = embedder

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the embeddings of a batch."""
        rows = self.embedder.head(self.embedder.features(pixels)).to(torch.float32)
        return rows / rows.norm(dim=1, keepdim=True).clamp_min(SHORTEST_ROW)


def write_onnx(embedder: Embedder, about: About, path: Path) -> None:
    """Write the embedder with what is known of it."""
    graph = trace_embedder(embedder, about)
    without_traces(graph)
    describe(graph, portable(about))
    save(graph, path)


def trace_embedder(embedder: Embedder, about: About) -> Any:
    """Return the embedder as a graph of onnx, batch normalization folded into convolutions."""
    size = about.shape.size
    pixels = torch.zeros(EXAMPLE, about.shape.channels, size, size, dtype=torch.uint8)
    unit, was_training = Unit(embedder), embedder.training
    unit.eval()
    try:
        with silence(), torch.no_grad():
            program = torch.onnx.export(
                unit,
                (pixels,),
                dynamo=True,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
    finally:
        embedder.train(was_training)
    assert program is not None
    return program.model_proto


def portable(about: About) -> About:
    """Return what is known of a model without the folders of this machine; `folder:/a/b` becomes `folder:b`."""
    trained = dict(about.trained)
    trained["data"] = portable_name(trained.get("data", ""))
    return replace(about, model=(), root="", trained=trained, digest="")


def describe(graph: Any, about: About) -> None:
    """Write what is known of a model into its metadata, in place of what was there."""
    del graph.metadata_props[:]
    words = {
        METADATA: json.dumps(about.plain()),
        "preprocessing": preprocessing(about),
        "similarity": f"cosine: the dot product of two rows, which have length 1 and {about.dim} numbers",
        **{f"trained: {name}": value for name, value in about.trained.items()},
        DIGEST: DIGITS * "0",  # `save` puts it in
    }
    for name, value in words.items():
        graph.metadata_props.add(key=name, value=value)
    graph.producer_name = METADATA


def preprocessing(about: About) -> str:
    """Return what must be done to an image, in one sentence."""
    shape = about.shape
    return (
        f"upright, {'gray' if shape.channels == 1 else 'RGB'}, short side to {shape.resize} pixels (bilinear, "
        f"antialiased), middle square of {shape.size}, uint8 0 to 255 as (batch, {shape.channels}, {shape.size}, "
        f"{shape.size}); scaling and normalizing are inside"
    )


def without_traces(graph: Any) -> None:
    """Remove what torch notes beside nodes and values: names of Python code, and of the folders that it is in."""
    inside = graph.graph
    for part in (inside, *inside.node, *inside.value_info, *inside.initializer, *inside.input, *inside.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


def save(graph: Any, path: Path) -> None:
    """Write a graph into one file that takes its place at once."""
    if (size := graph.ByteSize()) > MOST_BYTES:
        raise Mistake(f"the model takes {size:,} bytes; one .onnx file holds at most {MOST_BYTES:,}.")
    stored = seal_model(graph.SerializeToString())
    write_whole(path, lambda place: place.write_bytes(stored))


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep the prints, warnings and log lines of exporter and quantizer from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
