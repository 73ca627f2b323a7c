"""A study at the scale of seconds: what is missing is trained, once; its record tells how it was made."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from shadowmetric.data.dataset import DataMistake
from shadowmetric.experiments import study as studying
from shadowmetric.experiments.bed import SCALES, Where
from shadowmetric.experiments.catalogue import STUDIES
from shadowmetric.experiments.claims import CLAIMS
from shadowmetric.experiments.differences import WAYS
from shadowmetric.experiments.plan import read_plan
from shadowmetric.experiments.records import read_record
from shadowmetric.experiments.study import records_in, run_study
from shadowmetric.mistakes import Interrupted, Mistake
from shadowmetric.training.loop import train
from shadowmetric.training.settings import check_settings, with_recipe

STUDY, BED = STUDIES["differences"], WAYS["free rows"]
COMMAND = "shadowmetric reproduce differences --scale smoke"
NAMES = ("fine-grained", "large-scale", "standard", "medical", "memory", "architectures", "collapse", "gradients")
NAMES = (*NAMES, "geometry", "tsne", "differences")


def quiet(share, what):
    pass


def in_this_process(wanted, jobs, tell=None):
    torch.set_num_threads(1)
    for cell in wanted:
        train(cell.settings, cell.folder, resume=cell.run.settings_file.exists())
    return {}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The study, run in this process on one of its beds."""
    where = Where("smoke", tmp_path_factory.mktemp("study"))
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studying, "run_cells", in_this_process)
        assert run_study(STUDY, where, COMMAND, quiet, only=(BED.name,)) == {}
    torch.set_num_threads(threads)
    return where


def test_every_name_of_the_command_is_a_study():
    assert set(NAMES) == set(STUDIES)


@pytest.mark.parametrize("scale", SCALES)
def test_every_bed_of_every_study_makes_sense_at_every_scale(scale, tmp_path):
    for study in STUDIES.values():
        for bed in study.beds:
            plan = bed.plan(Where(scale, tmp_path))
            for cell in plan.cells():
                check_settings(cell.settings)
            settings = with_recipe(plan.settings)
            for name, value in bed.change.items():
                assert getattr(settings, name) == value
            assert (settings.batch, settings.per_class, settings.margin) == (32, 5, bed.change.get("margin", 0.2))
            assert bool(bed.reductions(scale)) == (scale != "paper")


def test_the_papers_scale_is_the_papers_protocol():
    for bed in STUDIES["fine-grained"].beds:
        settings = with_recipe(bed.settings("paper"))
        assert (settings.backbone, settings.weights, settings.size) == ("googlenet", "pretrained", 224)
        assert (settings.optimizer, settings.rate, settings.weight_decay) == ("adam", 1e-4, 1e-4)
        assert (settings.miner, settings.margin, settings.dim) == ("semi_hard", 0.2, 64)


def test_beds_of_one_name_are_one_bed():
    beds = {}
    for study in STUDIES.values():
        for bed in study.beds:
            assert beds.setdefault(bed.name, bed) == bed


def test_the_record_tells_how_it_was_made(made):
    record = read_record(made.out / "records" / f"{BED.name}.json")
    assert record.losses() == ["shadow", "triplet", "triplet_control", "double_shadow", "raw_pixels", "untrained"]
    assert record.losses("control") == ["triplet_control", "double_shadow"]
    assert record.facts["command"] == COMMAND
    assert record.facts["settings"]["unit_rows"] is False
    assert "epochs 2 instead of 30" in record.facts["reduced"]
    assert set(record.facts["origin"]) >= {"commit", "machine"}
    assert set(record.facts["differences"]) == set(record.losses()) - {"shadow"}
    shadow = [run for run in record.runs if run["name"] == "shadow"]
    assert [run["seed"] for run in shadow] == [0, 1]
    scores = json.loads((made.out / BED.name / "shadow-1" / "scores.json").read_text())
    assert record.values("shadow", "recall_at_1")[1] == scores["recall_at_1"]
    assert record.values("shadow", "mean_variance")[1] == scores["collapse"]["mean_variance"]
    assert len(shadow[0]["journal"]) == 2
    assert shadow[0]["figures"]["row_length"] != 1


def test_the_record_names_no_folder_of_the_machine(made):
    text = (made.out / "records" / f"{BED.name}.json").read_text()
    assert str(made.out) not in text
    assert str(Path.home()) not in text
    assert "data_root" not in text


def test_what_is_finished_is_not_trained_again(made, monkeypatch):
    trained = []
    monkeypatch.setattr(studying, "run_cells", lambda cells, jobs, tell: trained.extend(cells) or {})
    before = read_record(made.out / "records" / f"{BED.name}.json")
    run_study(STUDY, made, "another command", quiet, only=(BED.name,))
    assert [cell.run.scores() is None for cell in trained] == [False] * 8
    assert read_record(made.out / "records" / f"{BED.name}.json") == before


def test_a_folder_of_other_settings_is_refused(made):
    other = replace(BED, change=BED.change | {"margin": 0.3})
    with pytest.raises(Mistake, match="other settings"):
        other.plan(made).begin_or_go_on()
    BED.plan(replace(made, jobs=7)).begin_or_go_on()  # how many at a time is no setting of the trainings
    assert read_plan(made.out / BED.name).bed == ""


def test_stopped_by_the_user_it_keeps_what_is_finished_and_says_how_to_go_on(made, monkeypatch, tmp_path):
    def stopped(cells, jobs, tell):
        raise Interrupted

    monkeypatch.setattr(studying, "run_cells", stopped)
    with pytest.raises(Interrupted, match=COMMAND):
        run_study(STUDY, made, COMMAND, quiet, only=(BED.name,), records=tmp_path)
    assert (tmp_path / f"{BED.name}.json").exists()


def test_a_bed_without_data_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    def floors(plan, tell):
        if plan.bed == "cars196":
            raise DataMistake("cars196: its pictures are not there.")

    trained = []
    monkeypatch.setattr(studying, "run_floors", floors)
    monkeypatch.setattr(studying, "run_cells", lambda cells, jobs, tell: trained.extend(cells) or {})
    study, where = STUDIES["fine-grained"], Where("smoke", tmp_path)
    assert run_study(study, where, COMMAND, quiet) == {"cars196": "cars196: its pictures are not there."}
    assert {cell.bed for cell in trained} == {"cub200"}
    with pytest.raises(DataMistake, match="not there"):
        run_study(study, where, COMMAND, quiet, only=("cars196",))


def test_what_is_measured_is_measured_once(tmp_path):
    calls = []
    study = replace(STUDY, name="one", beds=(), measure=lambda where, tell: calls.append(1) or {"found": 1.5})
    for scale in ("smoke", "smoke", "small"):
        run_study(study, Where(scale, tmp_path), COMMAND, quiet)
    assert len(calls) == 2
    record = records_in(tmp_path / "records", study.record_names())["one"]
    assert record.found == {"found": 1.5}
    assert record.facts["scale"] == "small"


def test_tables_are_made_of_what_there_is(made):
    (table,) = STUDY.tables(records_in(made.out / "records", STUDY.record_names()))
    assert [row[0] for row in table.rows] == ["free rows"]
    records = records_in(made.out / "records", STUDY.record_names())
    assert all(claim.judge(records).evidence for claim in CLAIMS)


def test_a_file_that_is_no_record_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(Mistake, match=r"x\.json is no record"):
        read_record(tmp_path / "x.json")
