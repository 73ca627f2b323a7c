"""The command from outside, on small files: figures, names, galleries, samples, JSON, and every mistake."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import shadowmetric as sm
from shadowmetric.app.cli import evaluate as command
from shadowmetric.app.cli import main, screen
from shadowmetric.app.cli.evaluation import table as evaluate_table
from shadowmetric.app.cli.evaluation.input import Evaluated
from shadowmetric.app.cli.evaluation.worst import print_worst
from shadowmetric.app.data.own.arrays import LabeledRows
from shadowmetric.evaluation import MEASURES, Interval
from shadowmetric.evaluation.collapse import Collapse

NAMES = np.array(["cat", "[red]dog[/red]", "bell\x1b[31m\x07", "a name that is much longer than its column is", "emu"])
RETRIEVAL_ONLY = ("--measures", "recall_at", "map_at_r")


def sample(rows=60, dim=8, classes=5, seed=0, noise=1.0):
    """Return embeddings around class centers, and labels."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    centers = np.random.default_rng(99).normal(size=(classes, dim))
    return (centers[labels] + noise * generator.normal(size=(rows, dim))).astype("f4"), labels


EMBEDDINGS, LABELS = sample()
LABELS[7] = 77  # a lone query
GALLERY, GALLERY_LABELS = sample(40, seed=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with some files in it."""
    monkeypatch.chdir(tmp_path)
    np.save("e.npy", EMBEDDINGS)
    np.save("l.npy", LABELS)
    np.save("names.npy", NAMES[LABELS % 5])
    np.save("g.npy", GALLERY)
    np.save("gl.npy", GALLERY_LABELS)
    np.savez("set.npz", embeddings=EMBEDDINGS, labels=LABELS)
    np.savez("gallery.npz", embeddings=GALLERY, labels=GALLERY_LABELS)
    np.savez("both.npz", embeddings=EMBEDDINGS, labels=LABELS, gallery=GALLERY, gallery_labels=GALLERY_LABELS)
    return tmp_path


def result(capsys, *tokens):
    """Run the command in this process; return its exit code, output and errors."""
    try:
        main(("evaluate", *tokens))
        code = 0
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


def printed(capsys, *tokens):
    """Return what a run prints that must succeed."""
    code, out, errors = result(capsys, *tokens)
    assert (code, errors) == (0, "")
    return out


def read_json(text):
    """Return JSON, and refuse NaN and infinity, which only Python reads."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def terminal(width):
    """Return a terminal of so many columns, without colors."""
    return Console(width=width, highlight=False, force_terminal=True, color_system=None)


def cells(out, start):
    """Return the cells of the first line that starts so."""
    line = next(line for line in out.splitlines() if line.lstrip().startswith(start))
    return re.split(r"\s{2,}", line.strip())


def test_the_tables_hold_the_figures_of_the_library(capsys, folder):
    out = printed(capsys, "e.npy", "l.npy")
    scores = sm.evaluate(EMBEDDINGS, LABELS)
    assert out.startswith("e.npy: 60 rows × 8, 6 classes, each query against all other rows (leave-one-out)\n")
    assert "1 query has no relevant item and is in no retrieval figure.\n" in out
    for name, value in {
        "Recall@1": scores.recall_at[1],
        "Recall@8": scores.recall_at[8],
        "Precision@10": scores.precision_at[10],
        "IR recall@10": scores.ir_recall_at[10],
        "R-precision": scores.r_precision,
        "MAP@R": scores.map_at_r,
        "MRR": scores.reciprocal_rank,
        "Accuracy, k = 5": scores.accuracy,
        "NMI": scores.nmi,
        "AMI": scores.ami,
        "AUC": scores.verification.roc_auc,
        "EER": scores.verification.equal_error_rate,
        "TAR@FAR 10 %": scores.verification.true_accepts[0.1],
    }.items():
        assert cells(out, name)[1] == f"{100 * value:.2f} %"
    assert cells(out, "Silhouette")[1] == f"{scores.silhouette:.3f}"
    assert cells(out, "TAR@FAR 10 %")[2] == f"{scores.verification.thresholds[0.1]:.3f}"
    assert cells(out, "Effective rank")[1] == f"{scores.collapse.effective_rank:.1f} of 8"
    interval = scores.interval("map_at_r")
    assert cells(out, "MAP@R")[2] == f"{100 * interval.low:.2f} to {100 * interval.high:.2f}"
    worst = scores.hardest_queries(1)[0]
    assert cells(out, str(worst.row))[1:] == [
        str(worst.label),
        f"{100 * worst.value:.2f} %",
        str(worst.nearest),
        str(worst.nearest_label),
        f"{worst.similarity:.3f}",
    ]
    assert "Looks collapsed" not in out


def test_settings_reach_the_library_and_are_printed(capsys, folder):
    out = printed(
        capsys,
        *("e.npy", "l.npy", "--recall-at", "1", "3", "--precision-at", "2", "--neighbors", "3"),
        *("--silhouette-distance", "cosine", "--no-interval", "--worst", "0", "--scratch-mb", "1"),
    )
    scores = sm.evaluate(
        EMBEDDINGS, LABELS, recall_at=(1, 3), precision_at=(2,), neighbors=3, silhouette_distance="cosine"
    )
    assert cells(out, "Recall@3")[1] == f"{100 * scores.recall_at[3]:.2f} %"
    assert cells(out, "Precision@2")[1] == f"{100 * scores.precision_at[2]:.2f} %"
    assert cells(out, "Macro-F1, k = 3")[1] == f"{100 * scores.macro_f1:.2f} %"
    assert cells(out, "Silhouette, cosine")[1] == f"{scores.silhouette:.3f}"
    assert "Recall@2" not in out
    assert "interval" not in out.lower()
    assert "Worst" not in out


def test_only_the_measures_asked_for_are_made(capsys, folder):
    out = printed(capsys, "e.npy", "l.npy", "--measures", "map-at-r", "collapse", "--worst", "1")
    assert "MAP@R" in out
    assert "Effective rank" in out
    for absent in ("Recall", "Verification", "NMI", "F1", "nearest"):
        assert absent not in out


def test_string_labels_are_shown_by_name_and_printed_safely(capsys, folder):
    out = printed(capsys, "e.npy", "names.npy", "--classes", "--confusion")
    assert "cat" in out
    assert "[red]dog[/red]" in out
    assert "bell\\x1b[31m\\x07" in out
    assert "a name that …lumn is" in out
    assert "\x1b" not in out
    assert "\x07" not in out
    named = read_json(printed(capsys, "e.npy", "names.npy", "--json", "--classes", "--confusion"))
    assert named["class_names"] == sorted(set(NAMES.tolist()))
    plain = read_json(printed(capsys, "e.npy", "l.npy", "--json", "--classes"))
    assert plain["class_names"] is None
    assert {row["label"] for row in plain["classes"]} == set(LABELS.tolist())
    assert {row["label"] for row in named["classes"]} == set(NAMES.tolist())
    for row in [*named["hardest_queries"], *named["hardest_classes"], *named["lowest_f1"]]:
        assert row["label"] in NAMES
    for row in named["hardest_queries"]:
        assert row["label"] == NAMES[LABELS % 5][row["row"]]
        assert row["nearest_label"] == NAMES[LABELS % 5][row["nearest"]]
    for cell in named["confusion"]:
        assert {cell["true"], cell["predicted"]} <= set(NAMES.tolist())
    assert sum(cell["queries"] for cell in named["confusion"]) == len(LABELS)


def test_names_and_numbers_give_the_same_figures(capsys, folder):
    np.save("l5.npy", LABELS % 5)
    by_name = read_json(printed(capsys, "e.npy", "names.npy", "--json", "--worst", "0"))
    by_number = read_json(printed(capsys, "e.npy", "l5.npy", "--json", "--worst", "0"))
    for name in ("recall_at_1", "map_at_r", "accuracy", "macro_f1", "silhouette"):
        assert by_name[name] == by_number[name]


@pytest.mark.parametrize(
    "tokens",
    [
        ("e.npy", "l.npy", "--gallery", "g.npy", "--gallery-labels", "gl.npy"),
        ("set.npz", "--gallery", "gallery.npz"),
        ("set.npz", "--gallery", "g.npy", "--gallery-labels", "gallery.npz"),
        ("both.npz",),
    ],
)
def test_a_gallery_is_searched_wherever_it_is(capsys, folder, tokens):
    scores = sm.evaluate(EMBEDDINGS, LABELS, gallery=GALLERY, gallery_labels=GALLERY_LABELS)
    found = read_json(printed(capsys, *tokens, "--json"))
    assert found["setting"]["protocol"] == "query-gallery"
    assert found["map_at_r"] == scores.map_at_r
    assert found["hardest_queries"][0]["nearest"] == scores.hardest_queries(1)[0].nearest
    out = printed(capsys, *tokens, *RETRIEVAL_ONLY)
    where = "its own gallery" if tokens == ("both.npz",) else f"the gallery {tokens[tokens.index('--gallery') + 1]}"
    assert out.splitlines()[0] == f"{tokens[0]}: 60 rows × 8, 6 classes, against {where} of 40 rows"


def test_gallery_names_share_the_numbers_of_the_queries(capsys, folder):
    np.save("gallery_names.npy", np.where(GALLERY_LABELS == 0, "aardvark", NAMES[GALLERY_LABELS]))
    tokens = ("e.npy", "names.npy", "--gallery", "g.npy", "--gallery-labels", "gallery_names.npy", "--json")
    found = read_json(printed(capsys, *tokens))
    lone = int((NAMES[LABELS % 5] == NAMES[0]).sum())
    assert found["class_names"] == sorted({*NAMES.tolist(), "aardvark"})
    assert found["setting"]["lone_queries"] == lone > 0


def test_a_sample_says_that_it_is_one_and_names_rows_of_the_file(capsys, folder):
    out = printed(capsys, "e.npy", "l.npy", "--queries", "10", "--seed", "3", *RETRIEVAL_ONLY)
    assert "A sample of 10 queries, seed 3; k-means and spread are of all rows.\n" in out
    found = read_json(printed(capsys, "e.npy", "l.npy", "--queries", "10", "--seed", "3", "--json", "--worst", "10"))
    scores = sm.evaluate(EMBEDDINGS, LABELS, queries=10, seed=3)
    assert (found["setting"]["queries"], found["setting"]["of_queries"]) == (10, 60)
    assert found["map_at_r"] == scores.map_at_r
    rows = [query["row"] for query in found["hardest_queries"]]
    assert set(rows) <= set(scores.query_rows.tolist())
    assert [query["label"] for query in found["hardest_queries"]] == LABELS[rows].tolist()
    assert "sample" not in printed(capsys, "e.npy", "l.npy", "--queries", "60", *RETRIEVAL_ONLY)


def test_json_is_all_there_is_on_standard_output(capsys, folder):
    found = read_json(printed(capsys, "e.npy", "l.npy", "--json"))
    scores = sm.evaluate(EMBEDDINGS, LABELS)
    for name, value in scores.figures().items():
        assert found[name] == value
    assert {"recall_at_1", "map_at_r", "r_precision", "silhouette", "macro_f1", "accuracy", "nmi"} <= set(found)
    assert found["embeddings"] == "e.npy"
    assert found["gallery"] is None
    assert found["hardest_by"] == "map_at_r"
    assert found["intervals"]["recall_at_1"] == vars(scores.interval("recall_at_1"))
    assert "macro_f1" in found["intervals"]
    assert found["verification"]["true_accepts"]["0.001"] == scores.verification.true_accepts[0.001]
    assert len(found["collapse"]["variance"]) == 8
    assert len(found["hardest_queries"]) == len(found["hardest_classes"]) == 5
    assert found["lowest_f1"][0]["f1"] == scores.report.worst(1)[0].f1
    assert "classes" not in found
    assert "confusion" not in found
    assert read_json(printed(capsys, "e.npy", "l.npy", "--json", "--no-interval"))["intervals"] == {}


def test_json_has_null_for_what_has_no_value(capsys, folder):
    np.save("one.npy", np.zeros(60, int))
    found = read_json(printed(capsys, "e.npy", "one.npy", "--json"))
    assert found["silhouette"] is None
    assert found["intervals"]["silhouette"]["low"] is None
    assert found["verification"]["roc_auc"] is None
    assert found["verification"]["true_accepts"]["0.1"] is None
    found = read_json(printed(capsys, "e.npy", "l.npy", "--json", *RETRIEVAL_ONLY))
    assert "accuracy" not in found
    assert {query["nearest_label"] for query in found["hardest_queries"]} == {None}


def test_out_writes_the_json_that_json_prints(capsys, folder):
    out = printed(capsys, "e.npy", "l.npy", "--out", "scores.json")
    assert "MAP@R" in out
    assert out.splitlines()[-1] == f"The JSON is {folder / 'scores.json'}"
    text = printed(capsys, "e.npy", "l.npy", "--json", "--out", "again.json")
    assert (folder / "scores.json").read_text() == (folder / "again.json").read_text() == text


@pytest.fixture
def calls(monkeypatch):
    """Return a list of the rows and settings that the library is called with."""
    made, real = [], command.scores_of

    def spy(rows, *more, **settings):
        made.append((rows, settings))
        return real(rows, *more, **settings)

    monkeypatch.setattr(command, "scores_of", spy)
    return made


@pytest.mark.parametrize("tokens", [("e.npy", "l.npy"), ("set.npz",)])
def test_the_library_is_given_the_mapped_file(capsys, folder, calls, tokens):
    before = (folder / tokens[0]).read_bytes()
    printed(capsys, *tokens, *RETRIEVAL_ONLY)
    assert isinstance(calls[0][0], np.memmap) == (tokens[0] == "e.npy")
    assert (folder / tokens[0]).read_bytes() == before


def test_the_library_is_called_once_with_the_scratch_that_was_asked_for(capsys, folder, calls):
    printed(capsys, "e.npy", "l.npy", "--scratch-mb", "3", "--classes", "--confusion", "--out", "scores.json")
    assert [settings["scratch_bytes"] for _, settings in calls] == [3 * 2**20]


def test_a_mapped_file_is_not_brought_into_memory(folder):
    rows, dim = 2**11, 2**15  # 256 MB
    file = np.lib.format.open_memmap("large.npy", mode="w+", dtype="f4", shape=(rows, dim))
    file[:, 0] = 1.0
    file.flush()
    np.save("labels.npy", np.arange(rows) % 2)
    code = (
        "import resource, sys; from shadowmetric.app.cli import main; import torch, rich, cyclopts;"
        "from shadowmetric.app.cli.evaluation.input import what_to_evaluate; from pathlib import Path;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "what_to_evaluate(Path('large.npy'), Path('labels.npy'));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 32 * 2**10  # kilobytes


@pytest.mark.parametrize("width", [50, 80, 120])
@pytest.mark.parametrize("labels", ["l.npy", "names.npy"])
def test_tables_fit_the_terminal(capsys, folder, monkeypatch, width, labels):
    monkeypatch.setattr(screen, "screen", lambda: terminal(width))
    lines = printed(capsys, "e.npy", labels, "--classes", "--confusion").splitlines()
    assert max(len(line) for line in lines) <= width
    if width >= 80:
        assert not [line for line in lines if "…" in line and "a name that …lumn is" not in line]
        figures = lines[lines.index("") + 3 : lines.index("", lines.index("") + 1)]
        assert [line.split()[0].split("@")[0] for line in figures[4:14]] == (
            ["Precision", "IR", "R-precision", "MAP", "MRR", "Silhouette", "Accuracy,", "Macro-F1,", "NMI", "AMI"]
        )  # none is folded
    else:
        assert "what it is" not in "\n".join(lines)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_long_paths_leave_room_for_the_figures_of_the_worst_queries(width):
    names = tuple(f"001.Black_footed_Albatross/[b]Black\x1bFooted_Albatross_{n:04}_796111.jpg" for n in range(60))
    classes = [f"{n:03}.Black_footed_Albatross_{n}" for n in range(LABELS.max() + 1)]
    what = Evaluated(Path("run"), LabeledRows(EMBEDDINGS, LABELS), None, None, classes, names)
    scores = sm.evaluate(EMBEDDINGS, LABELS, progress=False)
    console = Console(width=width, highlight=False, force_terminal=False, file=io.StringIO())
    print_worst(console, what, scores, 3)
    said = console.file.getvalue()
    lines = said[: said.index("Worst classes")].splitlines()[4:7]
    for line, query in zip(lines, scores.hardest_queries(3), strict=True):
        assert len(line) <= width
        assert f"{query.row:04}_796111.jpg"[-11:] in line
        assert f"{query.nearest:04}_796111.jpg"[-11:] in line
        assert line.endswith(f"{query.similarity:.3f}")
        assert f"{100 * query.value:.2f} %" in line
        assert line.count(".Black_fo") == 2  # the classes
        assert "\x1b" not in line


def test_without_a_terminal_there_are_no_colors_and_sentences_are_not_folded(capsys, folder):
    long = folder / ("x" * 120 + ".npy")
    np.save(long, EMBEDDINGS)
    out = printed(capsys, str(long), "l.npy", "--measures", "recall_at")
    assert "\x1b" not in out
    assert out.splitlines()[0].startswith(f"{long}: 60 rows × 8, 6 classes, each query")


def test_an_encoding_without_our_letters_is_no_traceback(folder):
    tokens = ("evaluate", "e.npy", "names.npy", "--measures", "recall_at", "accuracy")
    done = subprocess.run(
        [sys.executable, "-m", "shadowmetric", *tokens],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert b"e.npy: 60 rows ? 8" in done.stdout


def test_the_confusion_is_a_matrix_where_that_fits_and_a_list_elsewhere(capsys, folder, monkeypatch):
    tokens = ("e.npy", "l.npy", "--measures", "accuracy", "--confusion", "--worst", "0")
    out = printed(capsys, *tokens)
    dense = sm.evaluate(EMBEDDINGS, LABELS, measures=("accuracy",)).report.confusion.dense().tolist()
    matrix = out[out.index("Confusion: true classes down, predicted across") :].splitlines()
    assert matrix[1].split() == ["class", "0", "1", "2", "3", "4", "77"]
    for line, label, counts in zip(matrix[3:9], [0, 1, 2, 3, 4, 77], dense, strict=True):
        assert line.split() == [str(label), *(str(cell) if cell else "·" for cell in counts)]
    monkeypatch.setattr(screen, "screen", lambda: terminal(48))
    np.save("names.npy", np.array([f"class number {label}" for label in LABELS]))
    numbers = printed(capsys, "e.npy", "names.npy", *tokens[2:])
    matrix = numbers[numbers.index("Confusion") :].splitlines()
    assert matrix[1].split() == ["class", "1", "2", "3", "4", "5", "6"]
    assert matrix[8].startswith("6 class number 77 ")
    monkeypatch.setattr(screen, "screen", lambda: terminal(18))
    listed = printed(capsys, *tokens)
    shown = [int(line.split()[-1]) for line in listed.splitlines() if re.fullmatch(r"\d+ +\d+ +\d+ *", line)]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] > shown[-1]
    wrong = sum(cell > 0 for row, counts in enumerate(dense) for column, cell in enumerate(counts) if row != column)
    assert f"most frequent of {wrong} confusions" in " ".join(listed.split())


def test_every_class_with_classes(capsys, folder):
    out = printed(capsys, "e.npy", "l.npy", "--measures", "accuracy", "--classes", "--worst", "0")
    report = sm.evaluate(EMBEDDINGS, LABELS, measures=("accuracy",)).report
    table = out[out.index("Every class") :].splitlines()[3:]
    assert len(table) == len(report.labels) == 6
    for line, row in zip(table, report.rows(), strict=True):
        shares = (f"{100 * share:.2f} %" for share in (row.precision, row.recall, row.f1))
        assert re.split(r"\s{2,}", line.strip()) == [str(row.label), *shares, str(row.support), str(row.predicted)]


def test_nothing_is_the_worst_of_a_perfect_set(capsys, folder):
    np.save("perfect.npy", np.eye(5, dtype="f4")[LABELS % 5])
    np.save("l5.npy", LABELS % 5)
    assert "Worst" not in printed(capsys, "perfect.npy", "l5.npy")


def test_no_query_with_a_relevant_item_is_said(capsys, folder):
    np.save("ids.npy", np.arange(60))
    out = printed(capsys, "e.npy", "ids.npy")
    assert "No query has a relevant item, so retrieval has no figures; each class needs two rows.\n" in out
    assert cells(out, "Recall@1")[1:3] == ["–", "–"]
    assert "relevant item" not in printed(capsys, "e.npy", "ids.npy", "--measures", "accuracy")
    two = printed(capsys, "e.npy", "ids.npy", "--gallery", "g.npy", "--gallery-labels", "gl.npy", *RETRIEVAL_ONLY)
    assert "55 queries have no relevant item and are in no retrieval figure.\n" in two


def test_one_row_is_a_set_too(capsys, folder):
    np.save("e1.npy", EMBEDDINGS[:1])
    np.save("l1.npy", LABELS[:1])
    out = printed(capsys, "e1.npy", "l1.npy")
    assert out.startswith("e1.npy: 1 row × 8, 1 class, ")
    assert "Looks collapsed" not in out


def test_rates_that_the_impostors_cannot_measure_are_marked(capsys, folder):
    out = printed(capsys, "e.npy", "l.npy", "--measures", "verification")
    pairs = sm.evaluate(EMBEDDINGS, LABELS, measures=("verification",)).verification
    assert 1_000 < pairs.impostor_pairs < 10_000
    assert f"Verification: genuine pairs {pairs.genuine_pairs:,}, impostors {pairs.impostor_pairs:,}" in out
    assert cells(out, "TAR@FAR 0.1 %")[3] == "genuine accepted, 1 impostor in 1,000"
    assert cells(out, "TAR@FAR 0.01 %")[3] == "not measurable: needs 10,000 impostors"


def test_the_bound_of_the_auc_is_shown_where_it_changes_a_digit(capsys, folder):
    assert "give or take" not in printed(capsys, "e.npy", "l.npy", "--measures", "verification")
    np.save("same.npy", np.ones((60, 8), "f4"))
    out = printed(capsys, "same.npy", "l.npy", "--measures", "verification")
    assert cells(out, "AUC")[1:] == ["50.00 %", "a genuine pair is closer than an impostor, give or take 50.00 %"]


def test_an_interval_of_macro_f1_that_does_not_hold_it_is_not_shown():
    def words(name, mean):
        return evaluate_table.interval_words(name, {name: Interval(mean, 0.8, 0.9, 0.95, 1000, 60)})

    assert words("macro_f1", 0.85) == words("accuracy", 0.95) == "80.00 to 90.00"
    assert words("macro_f1", 0.95) == words("macro_f1", 0.75) == "classes too small"
    assert words("silhouette", 0.85) == "0.800 to 0.900"
    assert evaluate_table.interval_words("nmi", {}) == ""


@pytest.mark.parametrize(
    ("rank", "dead", "cosine", "classes", "words"),
    [
        (60.0, 0.0, 0.1, 100, ""),
        (5.0, 0.0, 0.1, 100, "Looks collapsed: rows use 5.0 of 64 directions for 100 classes;"),
        (5.0, 0.0, 0.1, 6, ""),  # six classes need five directions
        (60.0, 0.0, 0.95, 100, "Looks collapsed: the mean cosine of two rows is 0.95;"),
        (60.0, 0.5, 0.1, 100, "Looks collapsed: 32 of 64 dimensions are the same in every row;"),
        (0.0, 1.0, 1.0, 100, "Looks collapsed: the mean cosine of two rows is 1.00;"),
    ],
)
def test_the_verdict_on_collapse(rank, dead, cosine, classes, words):
    found = Collapse(torch.ones(64), 0.01, rank, dead, cosine)
    verdict = evaluate_table.collapse_verdict(found, 1000, classes)
    assert verdict.startswith(words)
    assert bool(verdict) == bool(words)


def test_the_verdict_is_printed(capsys, folder):
    np.save("cone.npy", EMBEDDINGS + 50)
    out = printed(capsys, "cone.npy", "l.npy", "--measures", "collapse")
    assert "Looks collapsed: the mean cosine of two rows is 1.00; look at the learning rate, " in out


def test_control_c_is_one_line_and_exit_code_130(capsys, folder, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "scores_of", interrupted)
    code, out, errors = result(capsys, "e.npy", "l.npy", "--out", "scores.json")
    assert (code, out) == (130, "")
    assert errors == "Stopped before the end; nothing was written.\n"
    assert not (folder / "scores.json").exists()


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (
            "",
            "no run or embeddings were named; give a run's folder or a file before the options, "
            "such as embeddings.npy.",
        ),
        ("e.npy", "e.npy holds no labels; name the file of its labels after it."),
        ("missing.npy l.npy", "missing.npy does not exist; give a .npy or .npz file, or the folder of a run."),
        (
            "l.npy e.npy",
            "l.npy has shape (60,); embeddings must be (rows, dim); "
            "if these are the labels, name the embeddings first.",
        ),
        (
            "e.npy e.npy",
            "e.npy has shape (60, 8); give one label for each row: save labels.argmax(1), if they are one-hot.",
        ),
        ("e.npy gl.npy", "e.npy has 60 rows and gl.npy 40 labels; give one label for each row."),
        (
            "nan.npy l.npy",
            "nan.npy: embeddings has NaN or infinity in 2 of 60 rows, the first is row 7; look for a division by "
            "zero, a learning rate too high or an overflow in half precision.",
        ),
        (
            "e.npy l.npy --gallery nan.npy --gallery-labels l.npy",
            "nan.npy: gallery has NaN or infinity in 2 of 60 rows, the first is row 7; look for a division by "
            "zero, a learning rate too high or an overflow in half precision.",
        ),
        ("e.npy l.npy --gallery g.npy", "g.npy holds no labels; name the file of its labels with --gallery-labels."),
        ("e.npy l.npy --gallery-labels gl.npy", "--gallery-labels was given without --gallery; give both or neither."),
        (
            "e.npy l.npy --gallery ./e.npy --gallery-labels l.npy",
            "--gallery e.npy is the file of the queries, so that each would find itself; "
            "leave --gallery out to compare each with the others.",
        ),
        (
            "e.npy l.npy --gallery narrow.npy --gallery-labels gl.npy",
            "e.npy has rows of 8 numbers and the gallery narrow.npy of 4; they must match.",
        ),
        (
            "e.npy names.npy --gallery g.npy --gallery-labels gl.npy",
            "the labels of the queries and of the gallery are strings and integers; give both as the same kind.",
        ),
        (
            "e.npy l.npy --measures recall",
            "--measures has 'recall'; choose from recall_at, precision_at, r_precision, map_at_r, reciprocal_rank, "
            "silhouette, accuracy, nmi, verification, collapse.",
        ),
        (
            "e.npy l.npy --measures",
            "--measures names none; choose from recall_at, precision_at, r_precision, map_at_r, reciprocal_rank, "
            "silhouette, accuracy, nmi, verification, collapse.",
        ),
        (
            "--measures nmi e.npy l.npy",
            "--measures has 'e.npy', which looks like a file; name files before the options.",
        ),
        ("e.npy l.npy --classes --measures nmi", "--classes needs the measure accuracy; add it to --measures."),
        ("e.npy l.npy --confusion --measures nmi", "--confusion needs the measure accuracy; add it to --measures."),
        ("e.npy l.npy --recall-at 1 0", "--recall-at is 0; it must be 1 or more."),
        ("e.npy l.npy --precision-at -1", "--precision-at is -1; it must be 1 or more."),
        ("e.npy l.npy --neighbors 0", "--neighbors is 0; it must be 1 or more."),
        ("e.npy l.npy --queries 0", "--queries is 0; it must be 1 or more."),
        ("e.npy l.npy --scratch-mb 0", "--scratch-mb is 0; it must be 1 or more."),
        ("e.npy l.npy --worst -1", "--worst is -1; it must be 0 or more."),
        ("e.npy l.npy --seed -1", "--seed is -1; it must be from 0 to 2**63 - 1."),
        ("e.npy l.npy --seed 9223372036854775808", "--seed is 9223372036854775808; it must be from 0 to 2**63 - 1."),
        (
            "e.npy l.npy --silhouette-distance manhattan",
            "--silhouette-distance is 'manhattan'; choose one of euclidean, squared, cosine.",
        ),
        ("e.npy l.npy --out e.npy", "--out is 'e.npy'; its name must end in .json."),
        (
            "e.npy l.npy --out no/where.json",
            "--out 'no/where.json' cannot be written: No such file or directory; choose another file.",
        ),
        ("e.npy l.npy --qeries 3", "Unknown option: --qeries. Did you mean --queries?"),
        ("e.npy l.npy --recall-at 1 g.npy", 'Invalid value for --recall-at: unable to convert "g.npy" into int.'),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(capsys, folder, tokens, sentence):
    wrong = EMBEDDINGS.copy()
    wrong[[7, 9], 3] = np.nan
    np.save("nan.npy", wrong)
    np.save("narrow.npy", GALLERY[:, :4])
    before = sorted(folder.iterdir())
    code, out, errors = result(capsys, *tokens.split())
    assert (code, out) == (2, "")
    assert errors == sentence + "\n"
    assert sorted(folder.iterdir()) == before


def test_help_names_every_option_and_ends_with_examples(capsys):
    out = printed(capsys, "--help")
    assert out.startswith("Usage: shadowmetric evaluate RUN | EMBEDDINGS [LABELS] [OPTIONS]")
    for option in command.EvaluateSettings.__dataclass_fields__:
        assert f"--{option.replace('_', '-')}" in out
    assert "shadowmetric evaluate e.npy l.npy" in out[out.index("Examples") :]
    for measure in MEASURES:
        assert measure in out
