"""What a page may say of places: names, never folders of the machine."""

import shlex
from pathlib import Path

import pytest

from shadowmetric.app.report.collect import Group, Member
from shadowmetric.app.report.portable import command, portable, sentence, setting
from shadowmetric.app.training.runs.run import Run


def member(data="folder:/home/ann/my photos", root="/home/ann/data", weights=None, folder="/home/ann/runs/one", **more):
    settings = {"data": data, "data_root": root, "weights": weights}
    return Member("shadow", 0, "loss", Run(Path(folder)), settings, [], None, more.get("replay", ""))


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("data", "folder:/home/ann/photos", "folder:photos"),
        ("data", "npz:a/b.npz", "npz:b.npz"),
        ("data", "digits", "digits"),
        ("weights", "/home/ann/start.pt", "start.pt"),
        ("weights", "pretrained", "pretrained"),
        ("weights", "–", "–"),
        ("backbone", "timm:a/b", "timm:a/b"),
    ],
)
def test_settings_have_the_last_part_of_a_path(name, value, shown):
    assert setting(name, value) == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("cifar10: x is not there (below /home/ann/data); go", "cifar10: x is not there (below DATA_ROOT); go"),
        ("/home/ann/data/cub/a.jpg is broken.", "DATA_ROOT/cub/a.jpg is broken."),
        ("/home/ann/data2/cub/a.jpg is broken.", "a.jpg is broken."),
        ("/mnt/home/ann/data/a.jpg is broken.", "a.jpg is broken."),
        ("/home/ann/my photos/cat/1.png is broken", "my photos/cat/1.png is broken"),
        ("folder:/home/ann/my photos.", "folder:my photos."),
        ("go on with `x --resume /home/ann/runs/one`", "go on with `x --resume one`"),
        ("from https://example.org/a/b or data/cub, and/or c", "from https://example.org/a/b or data/cub, and/or c"),
    ],
)
def test_sentences_have_names_instead_of_absolute_paths(words, shown):
    assert sentence(words, [member()]) == shown


def test_the_longest_path_wins_and_the_root_of_all_is_no_name():
    inside = member(data="csv:/data/list.csv", root="/data", weights="/data/w/start.pt")
    words = "/data/list.csv, /data/w/start.pt and /data/other"
    assert sentence(words, [inside]) == "list.csv, start.pt and DATA_ROOT/other"
    assert sentence("a/b is not there, 1 / 2", [member(root="/")]) == "a/b is not there, 1 / 2"


def test_quotes_of_a_path_go_where_its_name_needs_none():
    inside = member(folder="/home/ann/my runs/one")
    assert sentence("`x --resume '/home/ann/my runs/one'`", [inside]) == "`x --resume one`"
    inside = member(folder="/home/ann/runs/one again")
    assert sentence("`x --resume '/home/ann/runs/one again'`", [inside]) == "`x --resume 'one again'`"


def test_a_data_root_of_the_environment_is_known(monkeypatch):
    monkeypatch.setenv("SHADOWMETRIC_DATA", "/srv/all data")
    assert sentence("below /srv/all data.", [member(root=None)]) == "below DATA_ROOT."


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("x runs/one/s.yaml --out 'runs/a b'", "x runs/one/s.yaml --out 'runs/a b'"),
        ("x /p/all/c/one/s.yaml --out /p/all/c/one-again", "x c/one/s.yaml --out c/one-again"),
        ("x '/q/my runs/one/s.yaml' --out '/q/my runs/one-again'", "x one/s.yaml --out one-again"),
        ("x /p/all/s.yaml --out /p/all-again", "x all/s.yaml --out all-again"),
        ("x /q/r/one", "x one"),
        ("x 'unclosed", ""),
        ("", ""),
    ],
)
def test_commands_name_paths_from_the_page_or_from_where_they_part(words, shown):
    assert command(words, Path("/p/all")) == shown


def test_notes_and_commands_of_groups(tmp_path):
    one = member(replay=f"train --config {shlex.quote(str(tmp_path))}/one/settings.yaml")
    group = Group("digits", tmp_path, [one], [], None, ["/home/ann/runs/one is not finished."])
    (found,) = portable([group], tmp_path)
    assert found.notes == ["one is not finished."]
    assert found.members[0].replay == "train --config one/settings.yaml"
    assert found.members[0].settings == one.settings
