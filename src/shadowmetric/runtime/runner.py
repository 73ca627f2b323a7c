"""The commands of a bundle, for a device that has onnxruntime, numpy and pillow and nothing else.

    python -m device search IMAGE... [--top 10] [--class NAME] [--json]
    python -m device verify A B [--prior 0.5] [--false-accept-rate 0.01] [--explain] [--json]
    python -m device add IMAGE... [--class NAME]
    python -m device info

`add` embeds images and enters them into the bundle's index under the paths as they are given, with `./` and the like
removed; nothing is copied. The paths that came with the bundle are those below the folder that it was made of; an
image with the path of one that is in the index takes its place, if its content or class is another.

What was got wrong is one sentence on standard error and exit code 2. Images that cannot be read are named there, the
others are seen to, and the exit code is 1.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .bundle import Answer, Bundle, Image
from .counting import count
from .errors import BrokenImage, Mistake
from .threshold import EVEN, explanation, in_words
from .votes import verdict

HOME = Path(__file__).resolve().parent.parent


def main(words: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    options = arguments().parse_args(words)
    try:
        return options.run(Bundle(options.bundle), options)
    except Mistake as mistake:
        complain(str(mistake))
        return 2
    except ImportError as missing:
        complain(f"{missing.name} is not installed; run `pip install -r requirements.txt`.")
        return 2
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a folder that may not be written to
        complain(f"{error.filename or 'a file'}: {error.strerror}.")
        return 2
    except KeyboardInterrupt:
        complain("Stopped.")
        return 130


def arguments() -> argparse.ArgumentParser:
    """Return what the command line may say."""
    parser = argparse.ArgumentParser("python -m device", description="Search and compare images without torch.")
    parser.add_argument("--bundle", type=Path, default=HOME, help="the bundle's folder; default: the one this is in")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("search", help="find the most similar images of the index")
    one.add_argument("images", nargs="+", metavar="IMAGE")
    one.add_argument("--top", type=int, default=10, help="how many to find for each; default: 10")
    one.add_argument("--class", dest="label", metavar="NAME", help="search among the images of this class alone")
    one.add_argument(
        "--unknown-accept-rate",
        type=float,
        metavar="RATE",
        help="of images that show nothing of the index, the share that may pass; default: as many as are refused",
    )
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=search)

    one = commands.add_parser("verify", help="say whether two images show the same")
    one.add_argument("images", nargs=2, metavar="IMAGE")
    one.add_argument("--prior", type=float, default=EVEN, help="share of your pairs that show the same; default: 0.5")
    one.add_argument(
        "--false-accept-rate", type=float, help="decide by this: the share of pairs of two classes that may pass"
    )
    one.add_argument("--explain", action="store_true", help="say what the decision rests on")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=verify)

    one = commands.add_parser("add", help="enter images into the index, under the paths as they are given")
    one.add_argument("images", nargs="+", metavar="IMAGE")
    one.add_argument("--class", dest="label", metavar="NAME", help="the class of these images")
    one.set_defaults(run=add)

    one = commands.add_parser("info", help="say what the bundle holds")
    one.set_defaults(run=info)
    return parser


def search(bundle: Bundle, options: Any) -> int:
    """Print the nearest images of each image."""
    index = bundle.index()
    images, broken = read_all(bundle, options.images)
    rate = options.unknown_accept_rate
    results = [(one, bundle.search(one, options.top, options.label, index, rate)) for one in images]
    if options.json:
        show_json([plain(query, answer) for query, answer in results])
    else:
        for query, answer in results:
            words = verdict(answer.classes, answer.decision)
            print(printable(f"{query.name}: {words}" if words else query.name))
            for rank, hit in enumerate(answer.hits, start=1):
                print(
                    f"{rank:4}  {hit.similarity:6.3f}  {printable(hit.entry.label or '-')}  {printable(hit.entry.path)}"
                )
    return 1 if broken else 0


def plain(query: Image, answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON has it."""
    hits = [{**hit.entry._asdict(), "similarity": hit.similarity} for hit in answer.hits]
    decision = {} if answer.decision is None else answer.decision.__dict__
    return {"query": query.name, "hits": hits, **decision, "classes": [vote._asdict() for vote in answer.classes]}


def verify(bundle: Bundle, options: Any) -> int:
    """Print whether two images show the same."""
    images, broken = read_all(bundle, options.images)
    if broken:
        return 1
    decision = bundle.verify(images[0], images[1], options.false_accept_rate, options.prior)
    if options.json:
        show_json(decision.__dict__)
        return 0
    sentences = in_words(decision, options.false_accept_rate)
    if options.explain:
        sentences += explanation(decision, bundle.calibration(), options.false_accept_rate)
    for sentence in sentences:
        print(printable(sentence))
    return 0


def add(bundle: Bundle, options: Any) -> int:
    """Enter images into the index."""
    if options.label is not None and not options.label.strip():
        raise Mistake("the class is empty; name one, or leave --class out.")
    names = list(dict.fromkeys(Path(os.path.normpath(name)).as_posix() for name in options.images))
    images, broken = read_all(bundle, names)
    new, replaced, left_out = bundle.add(images, options.label) if images else (0, 0, [])
    for sentence in left_out:
        complain(sentence)
    print(f"{new} added, {replaced} replaced; the index has {count(len(bundle.index()[1]), 'image')}.")
    return 1 if broken or left_out else 0


def info(bundle: Bundle, options: Any) -> int:
    """Print what the bundle holds."""
    about, contents = bundle.index()
    calibration, shape = bundle.calibration(), about.shape
    images, classes = count(len(contents), "image"), count(len(contents.classes), "class")
    print(f"index        {images} of {classes}, rows of {count(about.dim, 'number')}")
    print(f"model        {shape.channels} x {shape.size} x {shape.size} pixels, {about.fingerprint}")
    print(f"threshold    measured on {printable(calibration.images)}")
    for name, value in about.trained.items():
        print(f"{printable(name)}: {printable(value)}")
    return 0


def read_all(bundle: Bundle, names: Sequence[str]) -> tuple[list[Image], int]:
    """Return the images that can be read, and how many cannot, each of which is named."""
    images, broken = [], 0
    for name in names:
        try:
            images.append(bundle.read(name))
        except BrokenImage as error:
            complain(str(error))
            broken += 1
    return images, broken


def show_json(payload: Any) -> None:
    """Print JSON in ASCII: names of files may hold anything."""
    print(json.dumps(payload, indent=2))


def printable(text: str) -> str:
    """Return a text that a terminal cannot take for its own commands."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def complain(sentence: str) -> None:
    """Print one line on standard error."""
    print(printable(" ".join(sentence.split())), file=sys.stderr)
