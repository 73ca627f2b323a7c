"""The page without a browser: its budget, what happens when images cannot be had, and what stands in scripts."""

import json
import shutil
from dataclasses import replace

import pytest
from changed_runs import rewrite
from report_runs import FEW as THREE
from report_runs import NASTY, quick_settings, write_images

from shadowmetric.app.report.charts import MemoryBar, memory_bars, plain, short
from shadowmetric.app.report.collect import collect
from shadowmetric.app.report.making import make_showcases, write_report
from shadowmetric.app.report.page import LEVELS, as_json, page, render_page, runs_with_budget
from shadowmetric.app.report.tables import Table
from shadowmetric.app.report.words import space_epochs
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake

FEW = replace(THREE, queries=4)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three losses on images that are large enough to have some weight."""
    folder = tmp_path_factory.mktemp("making")
    data = f"npz:{write_images(folder / 'data.npz', side=48)}"
    for loss in ("shadow", "triplet", "contrastive"):
        train(quick_settings(data, loss=loss, epochs=1), folder / "runs" / loss)
    return folder


@pytest.fixture(scope="module")
def shown(runs):
    groups = collect([runs / "runs"])
    showcases, notes = make_showcases(groups, FEW, None)
    assert notes == []
    return groups, showcases


def test_each_level_is_smaller_and_the_first_that_fits_is_taken(shown):
    groups, showcases = shown
    sizes = [len(render_page(groups, showcases, (), (), (), level).encode()) for level in LEVELS]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(LEVELS)
    for place, level in enumerate(LEVELS):
        found = page(groups, showcases, budget=sizes[place])
        assert len(found.encode()) == sizes[place]
        assert level.words in found
        assert ("To stay below the size of a page" in found) == (place > 0)
    with pytest.raises(Mistake, match="even without images; report fewer runs"):
        page(groups, showcases, budget=sizes[-1] - 1)


def test_what_is_left_out_is_left_out(shown):
    groups, showcases = shown
    text = [render_page(groups, showcases, (), (), (), level) for level in LEVELS]
    augmented = 1  # training images, as they were changed
    counts = [augmented + shown for shown in (3 * 108, 2 * 108, 2 * 81, 2 * 81)]
    assert [found.count("<img") for found in text] == [*counts, 0, 0]
    assert text[1].count("left out to keep the page small") == 3
    assert ['"sheet":{' in found for found in text] == [True, True, True, False, False, False]
    assert ["-confusion" in found.partition("<main")[0] for found in text] == [True] * 5 + [False]


def test_a_report_without_its_dataset_says_so(runs, tmp_path):
    shutil.copytree(runs / "runs" / "shadow", tmp_path / "run", ignore=shutil.ignore_patterns("showcase.json"))
    run = Run(tmp_path / "run")
    text = run.settings_file.read_text()
    rewrite(run, run.settings_file, text.replace("data.npz", "gone.npz"))
    write_report([run.folder], tmp_path / "out.html", choices=FEW)
    found = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "There are no images of run: " in found
    assert "gone.npz" in found
    assert str(runs) not in found
    assert str(tmp_path) not in found
    assert "<img" not in found
    assert "-curves" in found


def test_a_report_outlives_the_weights(runs, tmp_path):
    shutil.copytree(runs / "runs" / "shadow", tmp_path / "run", ignore=shutil.ignore_patterns("best.safetensors"))
    write_report([tmp_path / "run"], tmp_path / "out.html", choices=FEW)
    found = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "run has no best.safetensors yet; train on with <code>shadowmetric train --resume run</code>." in found


def test_weights_that_no_longer_give_the_scores_are_named(runs, tmp_path, shown):
    shutil.copytree(runs / "runs" / "shadow", tmp_path / "run")
    run = Run(tmp_path / "run")
    scores = run.scores()
    run.write_scores(scores | {"accuracy": scores["accuracy"] - 0.2})
    write_report([run.folder], tmp_path / "out.html", choices=FEW)
    assert "the images or the weights have changed since" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_page_names_no_folder_of_the_machine(runs, tmp_path, shown):
    write_report([runs / "runs"], runs / "runs" / "here.html", choices=FEW)
    write_report([runs / "runs"], tmp_path / "there.html", choices=FEW)
    here, there = ((place / name).read_text(encoding="utf-8") for place, name in
                   ((runs / "runs", "here.html"), (tmp_path, "there.html")))  # fmt: skip
    for found in (here, there):
        assert str(runs) not in found
        assert "<dd>npz:data.npz</dd>" in found
        assert "<dt>data_root</dt>" not in found
        assert "<code>shadowmetric train --config shadow/settings.yaml --out shadow-again</code>" in found


def test_captions_have_code_and_stress_and_nothing_else():
    caption = "*measured*: `run <script>alert(1)</script>`, 2*3*4 <b>*"
    found = page([], {}, tables=[Table("T", caption, ("loss",), (("a",),), ("",))])
    words = "<em>measured</em>: <code>run &lt;script&gt;alert(1)&lt;/script&gt;</code>, 2*3*4 &lt;b&gt;*"
    assert f'<p class="caption">{words}</p>' in found
    assert "<h1>T</h1>" in found


def test_no_images_are_made_unless_asked_for(runs, tmp_path):
    shutil.copytree(runs / "runs" / "shadow", tmp_path / "run", ignore=shutil.ignore_patterns("showcase.json"))
    write_report([tmp_path / "run"], tmp_path / "out.html", images=False)
    assert not (tmp_path / "run" / "showcase.json").exists()
    assert "Images were not asked for." in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_the_same_runs_give_the_same_page(shown):
    groups, showcases = shown
    assert page(groups, showcases) == page(groups, showcases)


@pytest.mark.parametrize("words", [*NASTY, "\u2028", "]]>"])
def test_no_tag_begins_in_the_json_of_a_script(words):
    text = as_json({words: [words]})
    assert not set(text) & set("<>&\u2028")
    assert text.isascii()
    assert json.loads(text) == {words: [words]}


def test_plotly_finds_no_html_in_words():
    assert plain("<b>&lt;") == "&lt;b&gt;&amp;lt;"
    assert short("<" * 30) == "&lt;" * 21 + "…"


def test_memory_bars_come_from_scores_and_from_whoever_gives_them(runs, tmp_path):
    shutil.copytree(runs / "runs" / "shadow", tmp_path / "run")
    run = Run(tmp_path / "run")
    assert runs_with_budget(collect([run.folder])) == []
    run.write_scores(run.scores() | {"memory_bytes": {"budget": 4_000_000, "predicted": None, "peak": 3_500_000}})
    bars = runs_with_budget(collect([run.folder]))
    assert [(bar.series, bar.bytes) for bar in bars] == [("budget", 4_000_000), ("measured peak", 3_500_000)]
    figure = memory_bars([*bars, MemoryBar("budget", "other", 1_000_000)])
    assert [trace["x"] for trace in figure["data"]] == [[4.0, 1.0], [3.5]]
    assert [trace["y"] for trace in figure["data"]] == [[0, 1], [0]]
    large = memory_bars([*bars, MemoryBar("budget", "other", 3_000_000_000)])
    assert [trace["x"] for trace in large["data"]] == [[0.004, 3.0], [0.0035]]
    assert large["layout"]["xaxis"]["title"]["text"].startswith("GB")


def test_long_curves_are_told_at_spaced_epochs():
    assert space_epochs(range(1, 26)) == list(range(1, 26))
    found = space_epochs(range(1, 1001))
    assert (len(found), found[0], found[-1]) == (25, 1, 1000)
    assert found == sorted(set(found))
