"""A study at the scale of seconds: what is missing is trained, once; its record tells how it was made."""

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from paper import study as studying
from paper.bed import SCALES, Where
from paper.catalogue import STUDIES
from paper.claims.claims import CLAIMS
from paper.record import read_record, write_record
from paper.studies import tsne
from paper.studies.differences import WAYS
from paper.study import records_in, run_study
from shadowmetric.app.compare.plan import read_plan
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.settings import check_settings, with_recipe
from shadowmetric.errors import DataMistake, Interrupted, Mistake, Stopped

STUDY, BED = STUDIES["differences"], WAYS["free rows"]
COMMAND = "python -m paper differences --scale smoke"
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
        assert (settings.optimizer, settings.learning_rate, settings.weight_decay) == ("adam", 1e-4, 1e-4)
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
    assert record.facts["origins"] == [record.facts["origin"]]
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
            raise DataMistake("cars196: its images are not there.")

    trained = []
    monkeypatch.setattr(studying, "run_floors", floors)
    monkeypatch.setattr(studying, "run_cells", lambda cells, jobs, tell: trained.extend(cells) or {})
    study, where = STUDIES["fine-grained"], Where("smoke", tmp_path)
    assert run_study(study, where, COMMAND, quiet) == {"cars196": "cars196: its images are not there."}
    assert {cell.bed for cell in trained} == {"cub200"}
    with pytest.raises(DataMistake, match="not there"):
        run_study(study, where, COMMAND, quiet, only=("cars196",))


def test_what_is_measured_is_measured_once(tmp_path):
    calls = []
    study = replace(STUDY, name="one", beds=(), measure=lambda where, tell: calls.append(1) or {"found": 1.5})
    for _ in range(2):
        run_study(study, Where("smoke", tmp_path), COMMAND, quiet)
    with pytest.raises(Mistake, match="holds one at scale smoke, and --scale is small; name another --records"):
        run_study(study, Where("small", tmp_path), COMMAND, quiet)
    assert len(calls) == 1
    record = records_in(tmp_path / "records", study.record_names())["one"]
    assert record.found == {"found": 1.5}
    assert record.facts["scale"] == "smoke"


def test_two_that_measure_at_once_measure_once(tmp_path):
    calls = []

    def slowly(where, tell):
        calls.append(1)
        time.sleep(0.3)
        return {"found": 1.5}

    study = replace(STUDY, name="one", beds=(), measure=slowly)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: run_study(study, Where("smoke", tmp_path), COMMAND, quiet), range(2)))
    assert len(calls) == 1


def test_what_is_stale_is_measured_again(tmp_path):
    now = [1]
    study = replace(STUDY, name="one", beds=(), measure=lambda where, tell: {"of": now[0]})
    study = replace(study, stale=lambda where, found: found["of"] != now[0])
    for now[0] in (1, 2):
        run_study(study, Where("smoke", tmp_path), COMMAND, quiet)
    assert read_record(tmp_path / "records" / "one.json").found == {"of": 2}


def test_nothing_is_measured_on_trainings_that_failed(made, monkeypatch):
    monkeypatch.setattr(studying, "run_cells", lambda cells, jobs, tell: {"a/shadow-0": "it went wrong"})
    study = replace(STUDY, measure=lambda where, tell: pytest.fail("measured"), image=lambda found: "")
    assert run_study(study, made, COMMAND, quiet, only=(BED.name,)) == {"a/shadow-0": "it went wrong"}


def test_the_planes_are_stale_when_their_weights_are_others(tmp_path, monkeypatch):
    where = Where("smoke", tmp_path)
    files = [tsne.CIFAR10.plan(where).run(loss, 0).best_file for loss in tsne.SHOWN]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"weights")
    points = SimpleNamespace(x=[0.0], y=[0.0], labels=[0], perplexity=1.0, seed=0, of=1)
    monkeypatch.setattr(tsne, "showcase_of", lambda *given, **more: SimpleNamespace(points=points, classes=("a",)))
    found, stale = tsne.measure(where, quiet), tsne.STUDY.stale
    assert stale is not None
    assert not stale(where, found)
    files[0].write_bytes(b"others")
    assert stale(where, found)
    monkeypatch.setattr(tsne, "showcase_of", lambda *given, **more: SimpleNamespace(points=None))
    with pytest.raises(Stopped, match="one point"):
        tsne.measure(where, quiet)


def again(made, out, command="again", scale="smoke"):
    """Write the record of a folder of runs beside the one that was made; return the facts that are there then."""
    write_record(out, BED, BED.plan(replace(made, out=out)), scale, command)
    return read_record(out / f"{BED.name}.json").facts


@pytest.fixture
def copied(made, tmp_path):
    """A copy of the trainings, and of their record beside them."""
    shutil.copytree(made.out / BED.name, tmp_path / BED.name)
    shutil.copy(made.out / "records" / f"{BED.name}.json", tmp_path)
    return tmp_path


def test_a_record_names_every_origin_of_its_runs(made, copied):
    run = BED.plan(replace(made, out=copied)).run("triplet", 1)
    first, other = (run.scores() or {})["origin"], {"commit": "abc", "machine": "another"}
    run.write_scores((run.scores() or {}) | {"origin": other})
    facts = again(made, copied)
    assert facts["origins"] == [first, other]
    assert facts["origin"] == first


def test_the_first_command_stays_with_the_same_settings_only(made, copied):
    assert again(made, copied)["command"] == COMMAND
    path = copied / f"{BED.name}.json"
    path.write_text(path.read_text().replace('"margin": 0.2', '"margin": 0.3'))
    assert again(made, copied)["command"] == "again"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"facts": 3}', '{"facts": {}}', '{"facts": {"scale": "smoke"}, "runs": 3}']
)
def test_what_is_no_record_is_replaced_without_a_word(made, copied, text):
    (copied / f"{BED.name}.json").write_text(text)
    assert again(made, copied)["command"] == "again"


def test_a_record_never_loses_runs_and_never_changes_its_scale(made, copied):
    path = copied / f"{BED.name}.json"
    before = path.read_text()
    again(made, copied, scale="small")
    assert path.read_text() == before
    BED.plan(replace(made, out=copied)).run("triplet", 1).scores_file.unlink()
    again(made, copied)
    assert path.read_text() == before
    path.unlink()
    again(made, copied)
    assert len(read_record(path).runs) == 11


def test_records_of_another_scale_are_refused_before_anything_is_trained(made, tmp_path, monkeypatch):
    monkeypatch.setattr(studying, "run_cells", lambda *given: pytest.fail("trained"))
    where = Where("small", tmp_path)
    with pytest.raises(Mistake, match=f"holds {BED.name} at scale smoke, and --scale is small"):
        run_study(STUDY, where, COMMAND, quiet, only=(BED.name,), records=made.out / "records")
    assert list(tmp_path.iterdir()) == []


def test_tables_are_made_of_what_there_is(made):
    (table,) = STUDY.tables(records_in(made.out / "records", STUDY.record_names()))
    assert [row[0] for row in table.rows] == ["free rows"]
    records = records_in(made.out / "records", STUDY.record_names())
    assert all(claim.judge(records).evidence for claim in CLAIMS)


def test_a_file_that_is_no_record_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(Mistake, match=r"x\.json is no record"):
        read_record(tmp_path / "x.json")
