"""Pages say what the records say: `make results` would change nothing."""

from pathlib import Path

import pytest
from made_records import like_the_paper, made_record

from paper.catalogue import STUDIES
from paper.claims.claims import CLAIMS
from shadowmetric.app.training.runs.settings import as_plain, with_recipe
from tools.pages.claims_pages import EVIDENCE, claims_page, evidence_page
from tools.pages.results import (
    MARKS,
    headline_table,
    pages,
    records_of,
    short_ways_table,
    with_tables,
)

ROOT = Path(__file__).parents[3]


def test_pages_are_made_from_the_records():
    for path, text in pages(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: run make results"


def test_records_name_no_place_of_a_machine():
    for path in [*ROOT.glob("paper/records/**/*.json*"), *ROOT.glob("benchmarks/records/*.json")]:
        text = path.read_text(encoding="utf-8")
        for word in ("/tmp", "/home", "/root", "/work", "data_root"):
            assert word not in text, f"{path.name} names {word}"


def test_records_are_of_the_beds_as_they_are():
    beds = {bed.name: bed for study in STUDIES.values() for bed in study.beds}
    for name, record in records_of(ROOT / "paper/records/small").items():
        if record.runs:
            wanted = as_plain(with_recipe(beds[name].settings("small")))
            found = record.facts["settings"]
            differ = {key for key in found if found[key] != wanted[key] and key != "allow_partial"}
            assert not differ, f"{name}.json was made with another {differ}"
            assert record.facts["reduced"] == beds[name].reductions("small")
            assert set(record.losses("loss")) == set(beds[name].losses)


def test_another_figure_makes_another_page():
    records = records_of(ROOT / "paper/records/small")
    page = claims_page(records, {})
    assert all(claim.words.replace("|", "\\|") in page for claim in CLAIMS)
    assert all(f"({EVIDENCE}#claim-{number})" in page for number in range(1, len(CLAIMS) + 1))
    changed = records | {"cifar10": made_record(**like_the_paper(gain=0.3))}
    assert claims_page(changed, {}) != page
    assert evidence_page(changed, {}) != evidence_page(records, {})
    assert "80.00 ± 0.10" in headline_table(changed).rows[0][3]
    assert headline_table(changed).rows[0][2] == "97.31 / 97.02"


def test_the_ways_are_those_of_the_study():
    record = made_record("fashion_mnist", **like_the_paper(gain=-0.06))
    (row,) = short_ways_table({"way-free": record}).rows
    assert row[0] == "free rows"
    assert row[1] == "3"
    assert row[3] == "–"  # no floor was scored
    assert row[4].startswith("−6.00 (")


def test_the_readme_needs_its_marks():
    table = headline_table({"cifar10": made_record(**like_the_paper())})
    begin, end = (mark.format("one") for mark in MARKS)
    readme = f"before\n{begin}\nold\n{end}\nafter\n"
    found = with_tables(readme, "one", table)
    assert "old" not in found
    assert found.startswith("before\n")
    assert found.endswith("after\n")
    assert with_tables(found, "one", table) == found
    with pytest.raises(ValueError, match="marks"):
        with_tables(readme, "other", table)
