"""What features depend on, as one SHA-256: the backbone's tensors, how images become squares, and the images.

Images in memory are known by their pixels, files by their names below the dataset's folder, their sizes and when they
were last changed, as `make` and `git` know them: reading all bytes again would take as long as what is saved here.
A file that is changed within its size, and whose time is put back, is not noticed.
"""

import hashlib
import json
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.app.data.images import ArrayImages, FileImages, ImageSource
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.app.models import Embedder

FORMAT = 1  # of what is kept; another number makes every key another


def key_of(images: ImageSource, shape: Preprocessing, embedder: Embedder, name: str, *, skip_broken: bool) -> str:
    """Return the name under which features are kept. name: the backbone's."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "backbone": name,
        "weights": digest_of_weights(embedder.backbone),
        "pixels": [values.flatten().tolist() for values in (embedder.mean, embedder.std)],
        "shape": [shape.size, shape.resize, shape.channels],
        "images": digest_of_images(images),
        "skip_broken": skip_broken,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_weights(module: nn.Module) -> str:
    """Return the SHA-256 of all tensors of a module with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def digest_of_images(images: ImageSource) -> str:
    """Return the SHA-256 of what images are known by, in their order."""
    digest = hashlib.sha256()
    if isinstance(images, ArrayImages):
        digest.update(f"pixels {tuple(images.pixels.shape)}\n".encode())
        digest.update(bytes_of(images.pixels))
    elif isinstance(images, FileImages):
        digest.update(f"files, {images.channels} channels\n".encode())
        for path in images.paths:
            file = (images.root / path).stat()
            digest.update(f"{path}\0{file.st_size} {file.st_mtime_ns}\n".encode())
    else:
        for number in range(len(images)):
            image = images.read(number)
            digest.update(f"{tuple(image.shape)}\n".encode())
            digest.update(bytes_of(image))
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor, of whatever type and layout."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
