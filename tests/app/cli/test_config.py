"""`--config`: every key is an option of the command, or refused by name; and a run's own command trains it again."""

import shlex
import struct

import numpy as np
import pytest
import yaml
from PIL import Image

from shadowmetric.app.cli import COMMANDS, main
from shadowmetric.app.cli.config import without_config
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, as_plain
from shadowmetric.app.training.runs.yaml_text import parse_yaml
from shadowmetric.errors import Mistake

QUICK = ["--device", "cpu", "--epochs", "1", "--batches", "2", "--batch", "12", "--per-class", "2", "--dim", "8"]
RANDOM = np.random.default_rng(0)
PIXELS, LABELS = RANDOM.integers(0, 256, (60, 12, 12), dtype=np.uint8), np.arange(60) % 3

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code in (0, None)


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    assert "Traceback" not in said
    return said.strip().splitlines()[-1]


def write_folder(place):
    for number, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        (place / "photos" / f"class {label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / "photos" / f"class {label}" / f"{number}.png")
    return "folder:photos"


def write_csv(place):
    write_folder(place)
    paths = sorted((place / "photos").rglob("*.png"))
    lines = [f"{path.relative_to(place)},{path.parent.name}" for path in paths]
    (place / "table.csv").write_text("\n".join(["path,label", *lines]))
    return "csv:table.csv"


def write_npz(place):
    np.savez(place / "arrays.npz", images=PIXELS, labels=LABELS)
    return "npz:arrays.npz"


def write_idx(file, array):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def write_named(place):
    pixels, labels = RANDOM.integers(0, 256, (60, 28, 28), dtype=np.uint8), (np.arange(60) % 10).astype(np.uint8)
    for part in ("train", "t10k"):
        write_idx(place / "data" / "MNIST" / "raw" / f"{part}-images-idx3-ubyte", pixels)
        write_idx(place / "data" / "MNIST" / "raw" / f"{part}-labels-idx1-ubyte", labels)
    return "mnist"


@pytest.mark.parametrize("write", [write_folder, write_csv, write_npz, write_named])
def test_a_run_s_own_command_trains_on_the_same_data_to_the_same_bits(tmp_path, write, capsys):
    data = write(tmp_path)
    run("train", "--data", data, *QUICK, "--validation", "0.2", "--allow-partial", "--out", "first")
    first = Run(tmp_path / "first")
    program, *words = shlex.split((tmp_path / "first" / "replay.txt").read_text())
    assert program == "shadowmetric"
    run(*words)
    again = Run(tmp_path / "first-again")
    assert again.settings() == first.settings()
    assert again.settings().data.startswith(data.partition(":")[0])
    assert again.best_file.read_bytes() == first.best_file.read_bytes()
    assert again.queries_file.read_bytes() == first.queries_file.read_bytes()
    one, other = first.scores(), again.scores()
    assert {**one, "train_seconds": 0} == {**other, "train_seconds": 0}


def test_a_config_s_data_is_what_is_trained_on(capsys, tmp_path):
    (tmp_path / "c.yaml").write_text("data: nosuch\n")
    assert "there is no dataset 'nosuch'" in refused(capsys, "train", "--config", "c.yaml")
    assert "there is no dataset 'nosuch'" in refused(capsys, "compare", "--config", "c.yaml", *QUICK[:4], "--jobs", "1")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_key_named_after_a_command_is_an_option_or_refused(capsys, tmp_path, command):
    words = {"data": ["data", "check"]}.get(command, [command])
    for name in COMMANDS:
        if name == "data" and command in ("train", "compare", "evaluate"):
            continue  # they have such an option
        (tmp_path / "c.yaml").write_text(f"{name}: x\n")
        said = refused(capsys, *words, "--config", "c.yaml")
        assert "Unknown option" in said
        assert name in said
        assert "c.yaml" in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epochs: 1\nepochs: 2", "the name 'epochs' is there twice"),
        ("per-class: 2\nper_class: 3", "'per-class' and 'per_class', which are one option"),
        ("1: 2", "the name 1, which is no text"),
        ("9" * 500 + ": 2", "a number beyond 64 bits, which is no text"),
        ("epochs: " + "9" * 5000, "is no YAML of options"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: &a [1, 1]\nb: [*a, *a]", "repeats a value by `*`"),
        ("epochs: 0x" + "f" * 5000, "a number beyond 64 bits for 'epochs'"),
        ("epochs: {a: 1}", "has dict for 'epochs'"),
        ("epochs: [[1]]", "has list for 'epochs'"),
        ("data: 2024-01-01", "has date for 'data'"),
        ("a: !!python/object:os.system 1", "is no YAML of options"),
        ("epochs: null\nnothing: null", "nothing"),
        ("# " + 2**20 * "x", "settings take at most"),
    ],
)
def test_what_would_be_lost_is_refused(capsys, tmp_path, text, sentence):
    (tmp_path / "c.yaml").write_text(text)
    said = refused(capsys, "train", "--config", "c.yaml")
    assert sentence in said
    assert "c.yaml" in said
    assert len(said) < 1000


@pytest.mark.parametrize("text", ["2.5", "-0.5", "1.0000001", "2e0.5"])
def test_a_fraction_is_no_whole_number_on_the_command_line_or_in_a_file(capsys, tmp_path, text):
    assert "--batch" in refused(capsys, "train", "--batch", text)
    (tmp_path / "c.yaml").write_text(f"epochs: {text}\n")
    said = refused(capsys, "train", "--config", "c.yaml")
    assert "--epochs" in said or "epochs" in said
    assert "c.yaml" in said
    if text == "2.5":
        assert said == "--epochs is 2.5 in c.yaml; it must be a whole number."


def test_two_configs_are_refused():
    assert without_config(["a", "--config", "c", "--", "--config", "d"])[0] == ["a", "--", "--config", "d"]
    with pytest.raises(Mistake, match="names 'c' and another file"):
        without_config(["--config", "c", "--config=d"])


def test_a_run_s_settings_that_were_changed_are_refused_until_they_are_copied(capsys, tmp_path):
    Run(tmp_path / "run").begin(TrainSettings())
    file = tmp_path / "run" / "settings.yaml"
    file.write_text(file.read_text().replace("seed: 0", "seed: 1"))
    assert "run/settings.yaml is not as it was written" in refused(capsys, "train", "--config", "run/settings.yaml")
    (tmp_path / "c.yaml").write_text(file.read_text() + "epochz: 3\n")
    assert "epochz" in refused(capsys, "train", "--config", "c.yaml")


def test_names_that_are_no_utf_8_come_back():
    settings = as_plain(TrainSettings(data="folder:/a/b\udcff"))
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).encode()
    assert parse_yaml(text) == settings
