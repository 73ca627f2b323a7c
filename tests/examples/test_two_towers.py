"""The example of two towers learns to match images and names, of numbers that it has not seen too."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch

PATH = Path(__file__).parents[2] / "examples" / "two_towers.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("two_towers", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_short_training_finds_names_by_images_and_images_by_names(example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(PATH), "--steps", "40", "--queries", "3"])
    example.main()
    printed = capsys.readouterr().out
    assert float(re.search(r"by (\S+) of its largest", printed)[1]) < 1e-4
    after = {line[:34].strip(): float(line.rsplit(None, 1)[-1].rstrip("%")) for line in printed.splitlines()[-8:]}
    assert len(after) == 8
    for way in ("image → name", "name → image"):
        assert after[f"{way}, seen, Recall@1"] > 40  # chance is 1 %
        assert after[f"{way}, unseen, Recall@1"] > 25
        assert after[f"{way}, unseen, Recall@5"] > 50


def test_names_are_english_and_images_show_tens_beside_ones(example):
    numbers = [0, 7, 12, 20, 47, 73, 99]
    found = [example.name(number) for number in numbers]
    assert found == ["zero", "seven", "twelve", "twenty", "forty-seven", "seventy-three", "ninety-nine"]
    assert len({example.name(number) for number in range(100)}) == 100
    assert bytes(example.letters(torch.tensor([47]))[0].tolist()).rstrip(b"\0") == b"forty-seven"
    images = example.Images("test", torch.Generator().manual_seed(0))
    whole = example.open_dataset("digits").test
    for number, drawn in zip(numbers, images.draw(torch.tensor(numbers)), strict=True):
        for digit, side in zip(divmod(number, 10), drawn.split(8, dim=2), strict=True):
            same = (whole.images.pixels / 255 == side).flatten(1).all(1)
            assert digit in whole.labels[same.numpy()]


def test_both_towers_receive_the_plain_gradient_in_micro_batches(example):
    torch.manual_seed(0)
    towers, seen = (example.ImageTower().double(), example.NameTower().double()), torch.arange(30)
    drawn = example.Images("train", torch.Generator().manual_seed(0)).draw(seen.repeat(example.PER_NUMBER)).double()
    for loss in example.LOSSES.values():
        assert 0 <= example.gradient_difference(towers, drawn, seen, loss()) < 1e-10
