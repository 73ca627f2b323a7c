"""All that a small device needs in one folder: model, index, threshold and the device room as it is.

The images are embedded, and the threshold measured, with the bundle's own model: 8-bit rows and float rows must not
be mixed. No path of this machine is in the folder; images are known by their paths below the folder they came from,
and are not copied.

The folder is made beside its place and then renamed. A bundle that is there is moved aside first and removed last: a
kill between the two renames leaves it under a hidden name beside, from which the next export brings it back. A folder
that holds anything else is refused.

Memory: the rows in float16, and what `embedding.py` says.
"""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shadowmetric.app.serving.exporting.export import Exported
from shadowmetric.app.serving.exporting.parity import FLOAT, INT8
from shadowmetric.app.serving.exporting.resident import HOUSE
from shadowmetric.app.serving.indexing.build import Known, assemble_arrays
from shadowmetric.app.serving.indexing.embedding import embed_images
from shadowmetric.app.serving.indexing.listing import Listed, Listing, list_images
from shadowmetric.app.serving.places import check_writable
from shadowmetric.app.serving.verification.calibration import calibrate
from shadowmetric.app.serving.verification.catalog import catalog_threshold
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report
from shadowmetric.runtime.bundle import CALIBRATION, INDEX, MODEL
from shadowmetric.runtime.digests import RECORD, Digests
from shadowmetric.runtime.files import write_text
from shadowmetric.runtime.index_file import Contents, read_index, write_index
from shadowmetric.runtime.model import OnnxModel
from shadowmetric.runtime.unfinished import folder_beside

README, REQUIREMENTS, PROGRAM = "README.txt", "requirements.txt", "device"
ROOM = "runtime"  # of this house, which is the program of a bundle
OURS = {MODEL, INDEX, CALIBRATION, RECORD, README, REQUIREMENTS, PROGRAM}
NEEDS = ("numpy>=2.2", "onnxruntime>=1.22", "pillow>=11")
HOW = f"""\
Search and compare images, in this folder, with Python 3.11 or later (no torch):

    pip install -r {REQUIREMENTS}
    python -m {PROGRAM} search IMAGE...
    python -m {PROGRAM} verify IMAGE IMAGE        (also: add IMAGE..., info, --help)
"""


@dataclass(frozen=True)
class Bundled:
    """What was written."""

    folder: Path
    model: str  # fp32 or int8
    images: int
    bytes: int
    broken: list[str]  # a sentence for each image that was left out
    notes: list[str]


def write_bundle(
    run: Run,
    exported: Exported,
    out: Path,
    images: Path,
    *,
    data_root: Path | None = None,
    tell: Report | None = None,
) -> Bundled:
    """Write a bundle of the images of a folder or a table, with the 8-bit model if it was not refused."""
    check_place(out)
    listing = list_images(images)
    name = INT8 if INT8 in exported.files else FLOAT
    tell = tell or (lambda *_: None)
    with folder_beside(out) as folder:
        new = folder / out.name
        new.mkdir()
        digests = Digests(new)
        digests.write(new / MODEL, lambda place: shutil.copyfile(exported.files[name], place))
        model = OnnxModel(new / MODEL)
        broken: list[str] = []
        contents = build_bundle_index(model, listing, broken, tell)
        catalog = catalog_threshold(run, model, data_root=data_root, tell=tell, notes=(notes := []))
        write_index(new / INDEX, replace(model.about, model=(MODEL,), root="", catalog=catalog), contents)
        threshold = json.dumps(calibrate(run, model, data_root=data_root, tell=tell).plain(), indent=2) + "\n"
        digests.write(new / CALIBRATION, lambda place: place.write_text(threshold, encoding="ascii"))
        shutil.copytree(HOUSE / ROOM, new / PROGRAM, ignore=shutil.ignore_patterns("__pycache__"))
        write_text(new / README, HOW)
        write_text(new / REQUIREMENTS, "".join(f"{need}\n" for need in NEEDS))
        notes = [*listing.notes, *notes, *lost(out, contents)]
        take_place(new, out)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return Bundled(out, name, len(contents), size, broken, notes)


def check_place(out: Path) -> None:
    """Refuse a place that holds anything but a bundle, or cannot be written to."""
    bring_back(out)
    if not out.exists():
        check_writable(out.parent, "name another place by --bundle")
        return
    if not out.is_dir():
        raise Mistake(f"{out} is a file; name a folder by --bundle.")
    if out.resolve() == Path.cwd():
        raise Mistake("--bundle is the folder that you are in, which cannot be replaced; name one inside of it.")
    others = other_things(out)
    if others or ((names := {path.name for path in out.iterdir()}) and not {MODEL, INDEX, PROGRAM} <= names):
        what = f" (it has {', '.join(sorted(others)[:3])})" if others else ""
        raise Mistake(f"{out} is there and holds other things than a bundle{what}; name another --bundle.")
    check_writable(out.parent, "name another place by --bundle")


def build_bundle_index(model: OnnxModel, listing: Listing, broken: list[str], tell: Report) -> Contents:
    """Return the index of the images."""
    known, digests = Known(model.about.dim), dict[Listed, bytes]()
    for some in embed_images(model, listing.root, listing.images, broken=broken):
        known.learn((one.digest for one in some), np.stack([one.row for one in some]))
        digests.update((one.listed, one.digest) for one in some)
        tell("embedding", (len(digests) + len(broken)) / len(listing.images))
    if not digests:
        raise Mistake(f"none of the {len(listing.images):,} images can be read; the first: {broken[0]}")
    return assemble_arrays(sorted(digests.items()), known)


def lost(out: Path, contents: Contents) -> list[str]:
    """Say how many images of the bundle that was there, added on a device for instance, are not in the new one."""
    try:
        _, before = read_index(out / INDEX)
    except Mistake:  # there is none, or it is damaged
        return []
    gone = set(before.paths) - set(contents.paths)
    return [f"{len(gone):,} images of the index that was there are not in the new one."] if gone else []


def other_things(folder: Path) -> list[str]:
    """Return the names in a folder that no bundle has."""
    names = (path.name for path in folder.iterdir())
    return [name for name in names if name not in OURS and not name.startswith(f".{INDEX}")]


def moved_aside(out: Path) -> Path:
    """Return where a bundle is while another takes its place."""
    return out.with_name(f".{out.name}.before")


def take_place(new: Path, out: Path) -> None:
    """Rename a folder to its place, and remove the one that was there."""
    old = moved_aside(out)
    if out.exists():
        out.rename(old)
    try:
        new.rename(out)
    except OSError:
        if old.exists():
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def bring_back(out: Path) -> None:
    """Bring back a bundle that was moved aside by an export which was killed; remove it if another took its place."""
    old = moved_aside(out)
    if not old.is_dir() or old.is_symlink() or other_things(old):
        return
    if out.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.rename(out)
