"""Folders into records: runs, comparisons, folders of both, and what is refused."""

import pytest
import torch
from safetensors.torch import save_file

from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.report.collect import collect
from shadowmetric.app.report.words import differing, environment, results
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import Mistake

LINE = {"epoch": 1, "recall_at_1": 0.5, "loss": 0.1, "warnings": []}


def write_run(folder, recall=0.5, finished=True, **settings):
    """Write a run as if it had been trained."""
    run = Run(folder)
    run.begin(TrainSettings(**{"data": "digits", **settings}))
    run.write_journal([LINE])
    if finished:
        scores = {"recall_at_1": recall, "notes": [], "version": "1.2", "torch": "2.9", "train_seconds": 60.0}
        run.write_scores(scores)
        values = {"recall_at_1": torch.tensor([recall, recall])}
        run.write(run.queries_file, lambda place: save_file(values, place))
    return run


def write_comparison(folder, losses=("shadow", "triplet"), seeds=1, **settings):
    plan = Plan(
        TrainSettings(**{"data": "digits", **settings}),
        folder,
        losses=losses,
        controls=False,
        floors=False,
        seeds=seeds,
    )
    plan.begin()
    return plan


def test_a_run_is_a_group_of_one(tmp_path):
    write_run(tmp_path / "one", loss="triplet", seed=4)
    (group,) = collect([tmp_path / "one"])
    (member,) = group.members
    assert (group.title, group.plan, group.notes) == ("digits", None, [])
    assert (member.name, member.seed, member.kind) == ("triplet", 4, "loss")
    assert member.journal == [LINE]
    assert member.replay.startswith("shadowmetric train --config")
    assert group.rows[0].mean("recall_at_1") == 0.5
    assert list(group.representatives()) == ["triplet"]


def test_runs_of_one_dataset_stand_together_and_say_that_they_are_no_comparison(tmp_path):
    for name, settings in {
        "a": {"loss": "shadow"},
        "b": {"loss": "shadow", "seed": 1},
        "c": {"loss": "triplet"},
        "d": {"data": "mnist"},
    }.items():
        write_run(tmp_path / name, **settings)
    digits, mnist = collect([tmp_path / name for name in "abcd"])
    assert digits.names() == ["shadow", "triplet"]
    assert [member.run.folder.name for member in digits.representatives().values()] == ["a", "c"]
    assert "no comparison" in digits.notes[-1]
    assert (mnist.title, mnist.notes) == ("mnist", [])


def test_runs_that_only_their_folders_tell_apart_are_named_by_them(tmp_path):
    for name in ("slow", "fast"):
        write_run(tmp_path / name)
    (group,) = collect([tmp_path])
    assert group.names() == ["fast", "slow"]


def test_a_folder_of_comparisons_and_runs(tmp_path):
    for name in ("x", "y"):
        plan = write_comparison(tmp_path / "all" / name)
        for loss in plan.losses:
            write_run(plan.run(loss, 0).folder, loss=loss)
    (tmp_path / "all" / "notes").mkdir()
    write_run(tmp_path / "all" / "z", data="mnist")
    groups = collect([tmp_path / "all", tmp_path / "all" / "x", tmp_path / "all" / "x" / "shadow-0"])
    assert [group.folder.name for group in groups] == ["x", "y", "z"]  # each once
    assert [len(group.members) for group in groups] == [2, 2, 1]


def test_a_title_that_several_have_is_put_behind_the_folders_name(tmp_path):
    for name, data in {
        "digits": "digits",
        "way-sgd": "digits",
        "way-free": "digits",
        "demo": "mnist",
        "other/way-sgd": "digits",
    }.items():
        plan = write_comparison(tmp_path / name, data=data)
        write_run(plan.run("shadow", 0).folder, data=data)
    (alone,) = collect([tmp_path / "way-sgd"])
    assert alone.title == "digits"
    assert [group.title for group in collect([tmp_path])] == [
        "mnist",
        "digits",
        "way-free (digits)",
        "way-sgd (digits)",
    ]
    here = tmp_path.name
    assert [group.title for group in collect([tmp_path, tmp_path / "other"])] == [
        "mnist",
        "digits",
        "way-free (digits)",
        f"{here}/way-sgd (digits)",
        "other/way-sgd (digits)",
    ]


def test_no_two_titles_are_the_same_whatever_the_groups_are(tmp_path):
    for name, settings in {
        "a/digits": {},
        "b/digits": {},
        "c/half": {"split": "classes"},
    }.items():
        plan = write_comparison(tmp_path / name, **settings)
        write_run(plan.run("shadow", 0).folder, **settings)
    for name, settings in {
        "single/x": {},
        "single/y": {"loss": "triplet"},
        "single/z": {"split": "classes"},
    }.items():
        write_run(tmp_path / name, **settings)
    half = "digits, first half of the classes against the second"
    assert [group.title for group in collect([tmp_path / name for name in ("a", "b", "c", "single")])] == [
        "a/digits (digits)",
        "b/digits (digits)",
        f"half ({half})",
        "x and 1 more (digits)",
        f"z ({half})",
    ]


def test_what_is_under_way_has_curves_and_no_row(tmp_path):
    plan = write_comparison(tmp_path / "c", seeds=2)
    write_run(plan.run("shadow", 0).folder, finished=False)
    (group,) = collect([plan.out])
    assert group.names() == ["shadow"]
    assert (group.rows, group.representatives(), results(group)) == ([], {}, None)
    write_run(tmp_path / "alone", finished=False)
    (alone,) = collect([tmp_path / "alone"])
    assert "is not finished; go on with `shadowmetric train --resume" in alone.notes[0]


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda folder: None, "is not there"),
        (lambda folder: folder.mkdir(), "holds no run"),
        (lambda folder: (folder / "records").mkdir(parents=True), "holds no run"),
        (lambda folder: write_comparison(folder), "no finished epoch yet"),
        (lambda folder: Run(folder).begin(TrainSettings()), "no finished epoch yet"),
        (lambda folder: folder.write_text("?"), "is a file"),
    ],
)
def test_folders_that_hold_nothing_are_refused_in_a_sentence(tmp_path, made, sentence):
    made(tmp_path / "some")
    with pytest.raises(Mistake, match=sentence):
        collect([tmp_path / "some"])


def test_a_finished_run_that_lost_a_file_is_named(tmp_path):
    plan = write_comparison(tmp_path / "c")
    for loss in plan.losses:
        write_run(plan.run(loss, 0).folder, loss=loss)
    plan.run("triplet", 0).queries_file.unlink()
    with pytest.raises(Mistake, match=r"triplet-0/queries\.safetensors"):
        collect([plan.out])


def test_settings_are_shared_or_differ(tmp_path):
    write_run(tmp_path / "a", loss="shadow", epochs=3)
    write_run(tmp_path / "b", loss="triplet", epochs=3)
    shared, others = differing(collect([tmp_path])[0])
    assert ("epochs", "3") in shared
    assert ("allow_partial", "no") in shared
    assert others.headings == ("run", "loss")
    assert others.rows == (("a", "shadow"), ("b", "triplet"))


def test_settings_show_no_folder_and_hide_no_difference(tmp_path):
    places = {"data": "folder:/home/ann/photos", "data_root": tmp_path}
    write_run(tmp_path / "a", loss="shadow", weights="/home/ann/one/start.pt", **places)
    write_run(tmp_path / "b", loss="shadow", weights="/home/ann/two/start.pt", **places)
    shared, others = differing(collect([tmp_path])[0])
    assert ("data", "folder:photos") in shared
    assert "data_root" not in dict(shared)
    assert others.headings == ("run", "weights")
    assert others.rows == (("a", "start.pt"), ("b", "start.pt"))
    write_run(tmp_path / "c" / "run", weights="pretrained", **places | {"data_root": None})
    assert ("weights", "pretrained") in differing(collect([tmp_path / "c"])[0])[0]


def test_the_environment_has_each_value_once(tmp_path):
    first, second = (write_run(tmp_path / name, loss=name) for name in ("shadow", "triplet"))
    second.write_scores({**second.scores(), "torch": "3.0", "origin": {"commit": "abc", "machine": None}})
    found = dict(environment(collect([tmp_path])[0].members))
    assert found["shadowmetric"] == "1.2"
    assert found["torch"] == "2.9 and 3.0"
    assert found["commit"] == "abc"
    assert "machine" not in found
    assert found["time of training"] == "2.0 minutes in all"
    assert first.scores()["torch"] == "2.9"
    assert environment([], [{"version": "1.2", "commit": "abc"}]) == [("shadowmetric", "1.2"), ("commit", "abc")]


def test_a_folder_may_be_empty_where_that_is_said(tmp_path):
    assert collect([tmp_path], may_be_empty=True) == []
