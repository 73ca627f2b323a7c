"""The cases of one format in a process of its own, on a copy of the files: what crashes it ends this format alone."""

import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.fuzz.formats import FORMATS, Format
from benchmarks.fuzz.trial import try_format

BY_NAME: dict[str, Format] = {one.name: one for one in FORMATS}


def count(originals: str, name: str, cases: int, seed: int) -> dict[str, Any]:
    """Return what came of the cases of a format."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pillow, on what is damaged in an image that it reads
        files = shutil.copytree(originals, Path(place) / "files")
        counts = try_format(BY_NAME[name], Path(files), range(cases), seed)
    return {"outcomes": dict(counts.outcomes), "examples": counts.examples}


if __name__ == "__main__":
    print(json.dumps(count(**json.loads(sys.argv[1]))))
