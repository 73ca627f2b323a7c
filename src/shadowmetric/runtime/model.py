"""An exported model: squares of pixels in, embeddings of length 1 out.

The file says itself what it takes. Its input is (batch, channels, size, size) uint8; scaling, normalizing and unit
length are inside the graph; the metadata `shadowmetric` is JSON: about the model (`entries.About`, without a folder).
The metadata `sha256` is the digest of the file with zeros in its own place: weights that were changed, by a damaged
disk or by a program that kept the metadata, are refused when the file is opened.

Memory: the weights, and onnxruntime's arena for one batch.
"""

import hashlib
import json
import mmap
from dataclasses import replace
from pathlib import Path

import numpy as np

from .entries import About, about_from
from .errors import Mistake

METADATA = "shadowmetric"
DIGEST = "sha256"
DIGITS = 64
SEAL = b"\n\x06" + DIGEST.encode() + b"\x12" + bytes([DIGITS])  # how protobuf writes that name, before the digits
AT_ONCE = 2**22  # bytes that are hashed at once


class OnnxModel:
    """An embedder in an .onnx file."""

    def __init__(self, path: Path, threads: int | None = None):
        import onnxruntime

        if not path.is_file():
            raise Mistake(f"{path} is not there; write it by `shadowmetric export RUN`.")
        digest = sealed_digest(path)
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
        self.about: About = replace(about_from(plain, str(path)), digest=digest or "")
        self.input = self.session.get_inputs()[0].name
        self.check(path)
        if digest is None:
            raise Mistake(f"{path} does not say which bytes it had, so it cannot be checked; export it again.")

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


def seal_model(model: bytes) -> bytes:
    """Return a model's bytes with their digest in place of the zeros that stand for it."""
    zeros = SEAL + DIGITS * b"0"
    if model.count(zeros) != 1:
        raise ValueError(f"the model has {model.count(zeros)} places for its digest; it must have one.")
    return model.replace(zeros, SEAL + hashlib.sha256(model).hexdigest().encode())


def sealed_digest(path: Path) -> str | None:
    """Return the digest that a model states, if its bytes have it; None if it states none."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, 2):
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stored:
                start = stored.find(SEAL) + len(SEAL)
                if start < len(SEAL):
                    return None
                stated = stored[start : start + DIGITS]
                digest = hashlib.sha256()
                for begin, end in ((0, start), (start + DIGITS, len(stored))):
                    if begin > start:
                        digest.update(len(stated) * b"0")
                    for place in range(begin, end, AT_ONCE):
                        digest.update(stored[place : min(place + AT_ONCE, end)])
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}).") from None
    if stated != digest.hexdigest().encode():
        raise Mistake(f"{path} is damaged: its bytes are not those that were exported; export it again.")
    return digest.hexdigest()


def short(error: BaseException) -> str:
    """Return the first words of an error that may have many."""
    return " ".join(str(error).split())[:200]
