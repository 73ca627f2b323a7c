"""What each extra is for, in miniature. Run by the interpreter of an environment that has the extra and no other.

    python extra_features.py ENVIRONMENT app FOLDER       trains, evaluates, indexes, searches, verifies in FOLDER
    python extra_features.py ENVIRONMENT EXTRA FOLDER     does what EXTRA is for, with the run and index of FOLDER
    python extra_features.py ENVIRONMENT look FOLDER      prints what does not import and what is refused (see `look`)

ENVIRONMENT is where shadowmetric must come from.
"""

import contextlib
import importlib
import io
import json
import os
import pkgutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import shadowmetric as sm
from shadowmetric.app.cli import main

QUICK = ["--device", "cpu", "--epochs", "1", "--batches", "3", "--batch", "32", "--dim", "8"]
COMMANDS = {
    "report": ["report", "a run"],
    "export": ["export", "a run"],
    "approximate": ["index", "a run", "photos", "--approximate", "hnsw"],
    "serve": ["serve", "photos.shadowmx"],
    "qdrant": ["search", "qdrant:///nowhere/photos", "image.png"],
    "postgres": ["search", "postgresql://127.0.0.1:1/photos", "image.png"],
    "pytorch-metric-learning": ["train", "--data", "digits", "--loss", "pml:TripletMarginLoss", "--out", "new run"],
    "tensorboard": ["train", "--data", "digits", "--track", "tensorboard", "--out", "new run"],
}  # each is refused, in a sentence, where its extra is missing


def call(*words: object) -> str:
    """Run a command; return what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code, said = ending(words)
    assert code == 0, f"{words} ended with {code}: {said}"
    return printed.getvalue()


def app() -> None:
    """The commands that need no other extra."""
    from exported_runs import write_digits

    call("train", "--data", "digits", *QUICK, "--out", "run")
    assert "Recall@1" in call("evaluate", "run")
    one = write_digits(Path("images")) / "digit 3" / "0.png"
    call("index", "run", "images")
    assert "0.png" in call("search", "images.shadowmx", one, "--json")
    assert '"cosine"' in call("verify", "run", one, one, "--json")


def datasets() -> None:
    """Tables that are no text."""
    from openpyxl import Workbook
    from scipy.io import savemat

    from shadowmetric.app.data.datasets import cars196, odir5k

    savemat("labels.mat", {"labels": [1, 2, 3]})
    assert cars196._variable(Path("labels.mat"), "labels").tolist() == [1, 2, 3]
    book = Workbook()
    book.worksheets[0].append(["image", "class"])
    book.save("table.xlsx")
    assert odir5k._table(Path("table.xlsx")) == [("image", "class")]


def report() -> None:
    call("report", "run", "--out", "report.html")
    assert "plotly" in Path("report.html").read_text(encoding="utf-8").lower()


def export() -> None:
    call(
        "export",
        "run",
        "--images",
        100,
        "--accept-loss",
        "--out",
        "exported",
        "--bundle",
        "device",
        "--gallery",
        "images",
    )
    assert list(Path("exported").glob("*int8.onnx"))
    call("index", "exported/model.onnx", "images", "--out", "onnx.shadowmx")


def approximate() -> None:
    call("index", "run", "images", "--approximate", "hnsw", "--out", "hnsw.shadowmx")
    assert "0.png" in call("search", "hnsw.shadowmx", "images/digit 3/0.png", "--json")


def serve() -> None:
    words = [sys.executable, "-m", "shadowmetric", "serve", "images.shadowmx", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            with urllib.request.urlopen(f"{address}/health") as answer:
                assert answer.status == 200
            image = Path("images/digit 3/0.png").read_bytes()
            with urllib.request.urlopen(f"{address}/api/search?k=1", image) as answer:
                assert json.load(answer)["hits"][0]["path"].endswith(".png")
        finally:
            server.terminate()


def qdrant() -> None:
    in_store(f"qdrant://{Path.cwd()}/vectors/images")


def postgres() -> None:
    in_store(os.environ["POSTGRES_ADDRESS"])


def in_store(address: str) -> None:
    """Fill a vector store and search it."""
    call("index", "run", "images", "--to", address)
    assert "0.png" in call("search", address, "images/digit 3/0.png", "--json")


def tensorboard() -> None:
    call("train", "--data", "digits", *QUICK, "--track", "tensorboard", "--out", "tracked")
    assert list(Path("tracked").rglob("events.out.tfevents*"))


def pytorch_metric_learning() -> None:
    import torch
    from pytorch_metric_learning.reducers import AvgNonZeroReducer

    from shadowmetric.integrations.pytorch_metric_learning import InPML

    def fit(embedder, pixels, labels):
        InPML(sm.ShadowLoss(), AvgNonZeroReducer())(embedder(pixels), labels).backward()
        torch.optim.SGD(embedder.parameters(), 0.1).step()

    learns(fit)  # `train --loss pml:NAME` needs the extra `app` as well: tests/integrations/test_pml_losses.py


def sentence_transformers() -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    from shadowmetric.integrations.sentence_transformers import SentenceLoss

    tokens = Tokenizer(WordLevel({"?": 0, "red": 1, "green": 2, "apple": 3, "pear": 4}, unk_token="?"))
    tokens.pre_tokenizer = Whitespace()
    model = SentenceTransformer(modules=[StaticEmbedding(tokens, embedding_dim=8)], device="cpu")
    sentences = ["red apple", "green apple", "red pear", "green pear"]
    data = Dataset.from_dict({"sentence": sentences, "label": [0, 0, 1, 1]})
    before, loss = model.encode(sentences), SentenceLoss(model, sm.ShadowLoss(margin=2.0, miner="batch_hard"))
    SentenceTransformerTrainer(model=model, train_dataset=data, loss=loss).train()
    assert (before != model.encode(sentences)).any()


def lightning() -> None:
    from lightning import Trainer
    from torch.utils.data import DataLoader, TensorDataset

    from shadowmetric.integrations.lightning import MetricModule

    def fit(embedder, pixels, labels):
        trainer = Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False)
        trainer.fit(
            MetricModule(embedder, sm.ShadowLoss(), micro_batch=2), DataLoader(TensorDataset(pixels, labels), 8)
        )

    learns(fit)


def transformers() -> None:
    from transformers import TrainingArguments

    from shadowmetric.integrations.transformers import MetricModel
    from shadowmetric.integrations.transformers_trainer import MetricTrainer

    def fit(embedder, pixels, labels):
        data = [{"pixel_values": row, "labels": label} for row, label in zip(pixels, labels, strict=True)]
        settings = TrainingArguments("of transformers", max_steps=1, use_cpu=True, report_to="none")
        model = MetricModel(embedder, sm.ShadowLoss(), micro_batch=2)
        MetricTrainer(model, settings, train_dataset=data, per_class=2).train()

    learns(fit)


def learns(fit) -> None:
    """See that a training of an embedder on a labeled batch changes it."""
    import torch

    torch.manual_seed(0)
    embedder = torch.nn.Linear(4, 8)
    before = embedder.weight.detach().clone()
    fit(embedder, torch.randn(8, 4), torch.arange(8) // 2)
    assert (embedder.weight != before).any()


def peers() -> None:
    """The other columns of the benchmarks, which are those of the clone."""
    clone = str(Path(__file__).resolve().parent.parent)
    sys.path.insert(0, clone)
    os.environ["PYTHONPATH"] = clone
    from benchmarks import command

    def measure(*words: object) -> None:
        with contextlib.suppress(SystemExit):
            command.main([str(word) for word in words])

    measure("losses", "--batch", 30, "--dim", 8, "--repeats", 1, "--out", "bench.csv")
    measure("evaluation", "--rows", 200, "--dim", 8, "--classes", 10, "--out", "evaluation.csv")
    for table in ("bench.csv", "evaluation.csv"):
        assert "not installed" not in Path(table).read_text()


def ending(words: Sequence[object]) -> tuple[int, str]:
    """Return the exit code of a command, and what it said on standard error."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            return int(ended.code or 0), said.getvalue()
    return 0, said.getvalue()


def look() -> None:
    """Print as JSON what happens where no extra is installed.

    imported    packages that `import shadowmetric` loaded, and the command line with it
    loaded      the same, once every public name was asked for
    refusals    exit code and words of each of COMMANDS
    missing     files that do not import, and the package that they miss
    """
    imported = sorted({name.split(".")[0] for name in sys.modules})
    for name in sm.__all__:
        getattr(sm, name)
    loaded = sorted({name.split(".")[0] for name in sys.modules})
    refusals = {extra: ending(words) for extra, words in COMMANDS.items()}
    found = pkgutil.walk_packages(sm.__path__, "shadowmetric.", onerror=lambda _: None)
    names = [module.name for module in found if not module.name.endswith("__main__")]
    missing = {name: lacked for name in names if (lacked := lacks(name))}
    print(json.dumps({"imported": imported, "loaded": loaded, "refusals": refusals, "missing": missing}))


def lacks(module: str) -> str | None:
    """Return the package that a file cannot be imported without, if there is one."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return str(error.name).split(".")[0]
    return None


if __name__ == "__main__":
    environment, what, folder = sys.argv[1:]
    assert Path(environment).resolve() in Path(sm.__file__).resolve().parents, sm.__file__
    os.chdir(folder)
    globals()[what.replace("-", "_")]()
