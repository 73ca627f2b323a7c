"""The page of a reproduction: tables and memory of its records, beside its runs or alone."""

import pytest
from browser_pages import OpenedPage, needs_chromium
from report_runs import quick_settings, write_images

from paper import report as reporting
from paper.command import main
from paper.record import write_found
from paper.report import records_of, report_studies
from shadowmetric.app.training.loop import train
from shadowmetric.errors import Mistake

MEMORY = {
    "setting": {
        "backbone": "small_cnn",
        "size": 8,
        "batch": 4,
        "per_class": 2,
        "repeats": 1,
        "dims": [64],
        "losses": ["shadow"],
    },
    "device": "cpu",
    "triplets": 6,
    "every_triplet": 12,
    "embedder": [{"dim": 64, "kept_bytes": 1000, "weights_bytes": 500}],
    "loss_kept": [{"loss": "shadow", "dim": 64, "bytes": 96}],
    "step_peak": [{"loss": "shadow", "dim": 64, "bytes": [2_000_000, 3_000_000, None]}],
}


def write_memory(folder):
    """Write what `python -m paper memory` leaves in its folder."""
    write_found(folder / "records" / "memory.json", MEMORY, "smoke", "python -m paper memory --scale smoke")
    return folder


def run(capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["report", *words])
    assert (ended.value.code or 0) == code
    return capsys.readouterr()


def test_records_are_found_in_a_folder_or_in_its_records(tmp_path):
    write_memory(tmp_path / "some")
    assert list(records_of(tmp_path / "some")) == list(records_of(tmp_path / "some" / "records")) == ["memory"]


@pytest.mark.parametrize("inside", ["", "records"])
def test_records_alone_give_tables_and_memory(tmp_path, inside):
    folder = write_memory(tmp_path / "only")
    report_studies([folder / inside, folder / "records"], tmp_path / "out.html", images=False)
    found = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "<h1>Peak memory of a training step and 2 more tables</h1>" in found
    assert found.count("<h3>What a loss keeps, by dimension</h3>") == 1
    assert "<td>3,000,000</td>" in found
    assert "<dt>commit</dt>" in found
    assert "<dt>runs</dt>" not in found
    assert "Images were not asked for." not in found


def test_records_of_a_reproduction_stand_beside_its_runs(tmp_path):
    data = f"npz:{write_images(tmp_path / 'data.npz')}"
    train(quick_settings(data, epochs=1), tmp_path / "some" / "run")
    write_memory(tmp_path / "some")
    report_studies([tmp_path / "some"], tmp_path / "out.html", images=False)
    found = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "<h1>normalized_softmax on data.npz (npz)</h1>" in found
    assert "<h3>What a loss keeps, by dimension</h3>" in found


def test_records_without_a_row_are_refused(tmp_path, monkeypatch):
    folder = write_memory(tmp_path / "only")
    monkeypatch.setattr(reporting, "tables_of", lambda records: [])
    monkeypatch.setattr(reporting, "memory_of", lambda records: [])
    with pytest.raises(Mistake, match="only has no finished training yet"):
        report_studies([folder], tmp_path / "out.html")


def test_a_folder_without_runs_and_records_is_refused(tmp_path):
    write_memory(tmp_path / "only")
    with pytest.raises(Mistake, match="is not there"):
        report_studies([tmp_path / "only", tmp_path / "nothing"], tmp_path / "out.html")


def test_the_command_writes_the_page_into_the_first_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_memory(tmp_path / "only")
    assert "The page is only/report.html" in run(capsys, "only").out
    assert "both.html" in run(capsys, "only/records", "--out", "both.html").out
    assert "no folder is named" in run(capsys, code=2).err


@needs_chromium
def test_a_page_of_records_alone_draws_its_memory(browser, tmp_path):
    report_studies([write_memory(tmp_path / "only")], tmp_path / "out.html")
    found = OpenedPage(browser, (tmp_path / "out.html").as_uri())
    assert found.said == []
    assert found.page.eval_on_selector_all(".plot .point", "bars => bars.length") == 1
    places = found.page.eval_on_selector_all(".contents a", "found => found.map(one => one.hash.slice(1))")
    assert places == ["tables", "memory", "environment"]
    found.context.close()
