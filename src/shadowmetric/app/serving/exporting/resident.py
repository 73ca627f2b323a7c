"""How much memory a process takes that holds one model and nothing else.

It is measured in a process of its own, after one image was embedded. That of an .onnx file has a copy of the device
room alone on its path, as a small device has, so that torch is not there; that of a run loads torch.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import shadowmetric
from shadowmetric.errors import Stopped
from shadowmetric.runtime.unfinished import temporary_folder

HOUSE = Path(shadowmetric.__file__).parent

ONE_IMAGE = """
shape = model.about.shape
model.embed(np.zeros((1, shape.channels, shape.size, shape.size), np.uint8))
try:
    import os
    size = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
except OSError:
    import resource
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"bytes": size, "torch": "torch" in sys.modules}))
"""
START = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
"""
OF_ONNX = f"{START}from device.model import OnnxModel\nmodel = OnnxModel(Path(sys.argv[2]), threads=1)\n{ONE_IMAGE}"
OF_RUN = f"{START}from shadowmetric.app.serving.model import RunModel\nmodel = RunModel(Path(sys.argv[2]))\n{ONE_IMAGE}"


def resident_bytes(place: Path, of_run: bool) -> int:
    """Return the memory of a process that holds a model alone: that of a run, or of a file."""
    if of_run:
        return run_python(OF_RUN, HOUSE.parent, place)["bytes"]
    with temporary_folder() as folder:
        shutil.copytree(HOUSE / "runtime", folder / "device", ignore=shutil.ignore_patterns("__pycache__"))
        measurement = run_python(OF_ONNX, folder, place)
    if measurement["torch"]:
        raise Stopped("the device room imported torch; this is a defect, please report it.")
    return measurement["bytes"]


def run_python(code: str, *places: Path) -> dict[str, Any]:
    """Return what a Python process prints; it sees no settings and no folder of this one."""
    words = [sys.executable, "-I", "-c", code, *(str(place.resolve()) for place in places)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Stopped(f"a process that loads the model failed: {' '.join(ended.stderr.split())[-300:]}")
    return json.loads(ended.stdout.splitlines()[-1])
