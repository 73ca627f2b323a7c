"""The example of product search, at a small size: it learns, finds, and writes its page."""

import math
import runpy
import shutil
from pathlib import Path

from shadowmetric.runtime.images import open_image

EXAMPLE = Path(__file__).parents[2] / "examples" / "product_search.py"


def test_training_on_a_drawn_folder_beats_no_training_and_ends_in_a_page(tmp_path, capsys):
    found = runpy.run_path(str(EXAMPLE))["main"](["--out", str(tmp_path), "--epochs", "10", "--photos", "12"])
    assert found.after > found.before + 0.1
    assert open_image(found.query).size == (32, 32)
    assert len(found.answers) == 5
    cosines = [cosine for _, _, cosine in found.answers]
    assert cosines == sorted(cosines, reverse=True)
    assert not any(found.query.match(path) for _, path, _ in found.answers)  # the query itself is left out
    page = found.page.read_text(encoding="utf-8")
    assert page.count("<img ") == 7  # the query and six hits, the query among them
    assert found.answers[0][0] in page
    said = capsys.readouterr().out
    assert f"untrained {100 * found.before:.1f}, after" in said
    assert "24 held-out photos of 12 products" in said


def test_a_folder_of_ones_own_is_left_as_it_is_and_few_photos_are_enough_to_search(tmp_path, capsys):
    example = runpy.run_path(str(EXAMPLE))
    example["draw_folder"](tmp_path / "own", 3)
    for product in sorted((tmp_path / "own").iterdir())[3:]:
        shutil.rmtree(product)  # with four products two whole ones would be held out
    before = sorted(tmp_path.rglob("*"))
    found = example["main"](["--folder", str(tmp_path / "own"), "--out", str(tmp_path / "out"), "--epochs", "1"])
    assert sorted((tmp_path / "own").rglob("*")) == [path for path in before if path != tmp_path / "own"]
    assert found.query.is_relative_to(tmp_path / "own")
    assert math.isnan(found.after)
    assert "four photos of each are enough" in capsys.readouterr().out
    assert len(found.answers) == 5
