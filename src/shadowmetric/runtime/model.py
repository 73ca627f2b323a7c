"""An exported model: squares of pixels in, embeddings of length 1 out.

The file says itself what it takes. Its input is (batch, channels, size, size) uint8; scaling, normalizing and unit
length are inside the graph; the metadata `shadowmetric` is JSON: about the model (`entries.About`, without a folder).

Memory: the weights, and onnxruntime's arena for one batch.
"""

import json
from pathlib import Path

import numpy as np

from .entries import About, about_from
from .errors import Mistake

METADATA = "shadowmetric"


class OnnxModel:
    """An embedder in an .onnx file."""

    def __init__(self, path: Path, threads: int | None = None):
        import onnxruntime

        if not path.is_file():
            raise Mistake(f"{path} is not there; write it by `shadowmetric export RUN`.")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a class for every reason, none of them public
            raise Mistake(
                f"{path} is no model that onnxruntime {onnxruntime.__version__} reads ({short(error)})."
            ) from None
        metadata = self.session.get_modelmeta().custom_metadata_map
        if METADATA not in metadata:
            raise Mistake(f"{path} does not say what it takes; give a model that `shadowmetric export` wrote.")
        try:
            plain = json.loads(metadata[METADATA])
        except (RecursionError, ValueError) as error:
            raise Mistake(f"{path} does not say what it takes ({error}); export it again.") from None
        self.about: About = about_from(plain, str(path))
        self.input = self.session.get_inputs()[0].name
        self.check(path)

    def check(self, path: Path) -> None:
        """Refuse a graph that does not take and give what its metadata say."""
        shape, inputs, outputs = self.about.shape, self.session.get_inputs(), self.session.get_outputs()
        taken = [(one.type, one.shape[1:]) for one in inputs]
        if taken != [("tensor(uint8)", [shape.channels, shape.size, shape.size])] or (
            [one.shape[1:] for one in outputs] != [[self.about.dim]]
        ):
            raise Mistake(f"{path} takes or gives something else than it says; export it again.")

    def embed(self, squares: np.ndarray) -> np.ndarray:
        """Return the embeddings, (batch, dim) float32 of length 1, of (batch, channels, size, size) uint8."""
        return np.asarray(self.session.run(None, {self.input: squares})[0])


def short(error: BaseException) -> str:
    """Return the first words of an error that may have many."""
    return " ".join(str(error).split())[:200]
