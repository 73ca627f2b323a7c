"""Which images are indexed: classes by place, what is passed over and counted, tables and their mistakes."""

import os
from pathlib import Path

import pytest
from image_folders import HOSTILE, write_folder, write_image

from shadowmetric.app.serving.indexing.listing import Listed, list_images, too_wide
from shadowmetric.errors import Mistake


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder


def pairs(source):
    return [tuple(listed) for listed in list_images(source).images]


def refusal(source):
    with pytest.raises(Mistake) as refused:
        list_images(source)
    return str(refused.value)


def table(folder, text, name="t.csv", encoding="utf-8"):
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def test_a_class_is_the_first_folder(tmp_path):
    touch(tmp_path, "b/2.png", "a/deep/er/1.JPG", "a/0.webp", "loose.gif")
    assert pairs(tmp_path) == [("a/0.webp", "a"), ("a/deep/er/1.JPG", "a"), ("b/2.png", "b"), ("loose.gif", None)]
    assert list_images(tmp_path).root == tmp_path
    assert list_images(tmp_path).notes == []


def test_a_flat_folder_has_no_classes(tmp_path):
    touch(tmp_path, "2.png", "1.png")
    assert pairs(tmp_path) == [("1.png", None), ("2.png", None)]


def test_below_train_and_test_the_second_folder_is_the_class(tmp_path):
    touch(tmp_path, "train/a/1.png", "test/a/x/2.png", "test/b/3.png", "train/4.png", "5.png", "c/6.png")
    assert dict(pairs(tmp_path)) == {
        "train/a/1.png": "a",
        "test/a/x/2.png": "a",
        "test/b/3.png": "b",
        "train/4.png": None,
        "5.png": None,
        "c/6.png": "c",
    }


def test_train_alone_is_a_class(tmp_path):
    assert pairs(touch(tmp_path, "train/a/1.png")) == [("train/a/1.png", "train")]


def test_a_relative_folder_has_an_absolute_root(tmp_path, monkeypatch):
    touch(tmp_path, "photos/a/1.png")
    monkeypatch.chdir(tmp_path)
    assert list_images(Path("photos")).root == tmp_path / "photos"
    (tmp_path / "link").symlink_to("photos")
    assert list_images(Path("link")).root == tmp_path / "photos"


def test_hidden_files_and_folders_are_passed_over(tmp_path):
    touch(tmp_path, ".hidden.png", ".git/1.png", "a/.thumbs/2.png", "a/._3.png", "a/4.png")
    found = list_images(tmp_path)
    assert found.images == [Listed("a/4.png", "a")]
    assert found.notes == []


def test_other_files_are_counted(tmp_path):
    touch(tmp_path, "a/1.png", "a/notes.txt", "readme", "b.png.bak")
    assert list_images(tmp_path).notes == ["3 files that are no images by their endings were passed over."]


def test_links_are_followed_to_files_of_the_folder_alone(tmp_path):
    inside, outside = touch(tmp_path / "in", "a/1.png", "b/2.png"), touch(tmp_path / "out", "secret.png")
    (inside / "b" / "again.png").symlink_to(inside / "a" / "1.png")
    (inside / "b" / "secret.png").symlink_to(outside / "secret.png")
    (inside / "c").symlink_to(outside)
    (inside / "d").symlink_to(inside / "a")
    (inside / "up").symlink_to(inside)
    found = list_images(inside)
    assert [listed.path for listed in found.images] == ["a/1.png", "b/2.png", "b/again.png"]
    assert found.notes == ["4 links were not followed: b/secret.png, c, d, up."]


def test_links_to_nothing_and_to_each_other_do_no_harm(tmp_path):
    touch(tmp_path, "a/1.png")
    (tmp_path / "a" / "dangling.png").symlink_to("nothing.png")
    (tmp_path / "a" / "x.png").symlink_to("y.png")
    (tmp_path / "a" / "y.png").symlink_to("x.png")
    (tmp_path / "a" / "self.png").symlink_to("self.png")
    assert pairs(tmp_path) == [("a/1.png", "a")]


def test_pipes_sockets_and_folders_with_such_names_are_no_images(tmp_path):
    touch(tmp_path, "a/1.png", "folder.jpg/2.png")
    os.mkfifo(tmp_path / "a" / "pipe.png")
    (tmp_path / "a" / "device.png").symlink_to("/dev/zero")
    assert pairs(tmp_path) == [("a/1.png", "a"), ("folder.jpg/2.png", "folder.jpg")]


def test_hostile_names_are_names(tmp_path):
    for name in HOSTILE:
        touch(tmp_path, f"a/{name}")
        touch(tmp_path, f"{name.removesuffix('.png')}/1.png")
    wanted = {(f"a/{name}", "a") for name in HOSTILE} | {
        (f"{name.removesuffix('.png')}/1.png", name.removesuffix(".png")) for name in HOSTILE
    }
    assert set(pairs(tmp_path)) == wanted
    assert pairs(tmp_path) == sorted(wanted)


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, lambda path: path.with_name("x").mkdir()])
def test_a_source_without_images_is_refused(tmp_path, make):
    make(tmp_path / "photos")
    assert refusal(tmp_path / "photos").startswith(f"{tmp_path / 'photos'} ")


def test_a_table_names_images_below_its_folder(tmp_path):
    touch(tmp_path, "a/1.png", "b/2.png", "c.tif")
    found = list_images(table(tmp_path, "path,label\nb/2.png,bird\n./a/../a/1.png,ant\nc.tif,\n"))
    assert found.root == tmp_path
    assert [tuple(one) for one in found.images] == [("a/1.png", "ant"), ("b/2.png", "bird"), ("c.tif", None)]


@pytest.mark.parametrize("text", ["path\n1.png\n", "other,path\nx,1.png\n", "path,label\n1.png\n"])
def test_a_table_needs_no_labels(tmp_path, text):
    assert pairs(table(touch(tmp_path, "1.png"), text)) == [("1.png", None)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_spaces_and_windows_line_ends_are_no_part_of_names(tmp_path, encoding):
    touch(tmp_path, "ü.png")
    found = table(tmp_path, "label , path\r\n bär , ü.png \r\n\r\n", encoding=encoding)
    assert pairs(found) == [("ü.png", "bär")]


def test_quoted_names_may_hold_commas_quotes_and_line_breaks(tmp_path):
    name = 'a,"b"\nc.png'
    touch(tmp_path, name)
    assert pairs(table(tmp_path, 'path,label\n"a,""b""\nc.png","x,\ny"\n')) == [(name, "x,\ny")]


def test_absolute_paths_widen_the_root(tmp_path):
    write_images(tmp_path, "one/1.png", "two/deep/2.png", "tables/3.png")
    found = list_images(
        table(tmp_path / "tables", f"path,label\n{tmp_path}/one/1.png,a\n../two/deep/2.png,b\n3.png,c\n")
    )
    assert found.root == tmp_path
    assert [listed.path for listed in found.images] == ["one/1.png", "tables/3.png", "two/deep/2.png"]
    assert all(".." not in listed.path for listed in found.images)


def write_images(folder, *names):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_image(folder / name, number)


def test_headings_of_a_table_in_any_case(tmp_path):
    touch(tmp_path, "1.png")
    assert list_images(table(tmp_path, "PATH, Label \n1.png,Bee\n")).images == [("1.png", "Bee")]
    assert list_images(table(tmp_path, "Class,Path\nBee,1.png\n")).images == [("1.png", "Bee")]


def test_absolute_paths_in_one_folder_have_that_root_wherever_the_table_is(tmp_path):
    write_images(tmp_path, "images/a/1.png", "images/b/2.png")
    (tmp_path / "images" / "a" / "broken.png").touch()
    (tmp_path / "far" / "tables").mkdir(parents=True)
    names = ("a/1.png", "a/broken.png", "b/2.png")
    text = "path\n" + "".join(f"{tmp_path}/images/{name}\n" for name in names)
    found = list_images(table(tmp_path / "far" / "tables", text))
    assert (found.root, found.notes) == (tmp_path / "images", [])
    assert tuple(listed.path for listed in found.images) == names  # the broken one is named when it is read


def test_a_file_elsewhere_that_is_refused_does_not_widen_the_root(tmp_path):
    touch(tmp_path, "words.txt", "shop/1.png", "broken.png", "deep/secret.png")
    (tmp_path / "links").mkdir()
    write_images(tmp_path.parent, f"{tmp_path.name}-out/secret.png")
    (tmp_path / "links" / "link.png").symlink_to(tmp_path.parent / f"{tmp_path.name}-out" / "secret.png")
    found = list_images(
        table(tmp_path / "shop", f"path\n1.png\n{tmp_path}/words.txt\n../broken.png\n../links/link.png\n")
    )
    assert (found.root, found.images) == (tmp_path / "shop", [Listed("1.png", None)])
    assert found.notes == [
        f"3 files outside of {tmp_path / 'shop'} are no images, or links, and were left out; the first is line 3, "
        f"{tmp_path / 'words.txt'}."
    ]


def test_a_root_that_home_folders_are_in_is_refused_by_the_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
    write_images(tmp_path / "home", "me/1.png", "you/2.png", "me/more/3.png")
    said = refusal(table(tmp_path / "home" / "me" / "more", "path\n3.png\n../1.png\n../../you/2.png\n"))
    assert said.startswith(
        f"{tmp_path}/home/me/more/t.csv, line 4: {tmp_path}/home/you/2.png shares only {tmp_path}/home"
    )
    assert said.endswith("; make a table for each folder, or bring the images into one.")
    found = list_images(table(tmp_path / "home" / "me", "path\n../you/2.png\n", "other.csv"))
    assert found.root == tmp_path / "home" / "you"
    assert too_wide(Path("/"))
    assert not too_wide(tmp_path / "home" / "me")
    elsewhere = table(tmp_path, f"path\n{tmp_path}/home/me/1.png\n{tmp_path}/home/you/2.png\n")
    assert list_images(elsewhere).root == tmp_path, "below the table's own folder nothing is widened"
    elsewhere = table(touch(tmp_path, "tables/x") / "tables", elsewhere.read_text())
    assert ", line 3: " in refusal(elsewhere)


def test_absolute_paths_below_the_table_leave_the_root(tmp_path):
    touch(tmp_path, "t/1.png")
    found = list_images(table(tmp_path / "t", f"path\n{tmp_path}/t/1.png\n"))
    assert (found.root, found.images) == (tmp_path / "t", [Listed("1.png", None)])


def test_links_in_tables_that_lead_out_are_not_followed(tmp_path):
    touch(tmp_path, "out/secret.png", "in/1.png")
    (tmp_path / "in" / "link.png").symlink_to(tmp_path / "out" / "secret.png")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "out")
    found = list_images(table(tmp_path / "in", "path\n1.png\nlink.png\nfolder/secret.png\n"))
    assert found.images == [Listed("1.png", None)]
    assert found.notes == [f"2 links lead out of {tmp_path / 'in'} and were not followed."]


def test_an_image_may_stand_there_twice_with_one_class(tmp_path):
    touch(tmp_path, "1.png")
    assert pairs(table(tmp_path, "path,label\n1.png,a\n./1.png,a\n")) == [("1.png", "a")]
    said = refusal(table(tmp_path, "path,label\n1.png,a\n./1.png,b\n"))
    assert "1.png stands there twice, as 'a' and 'b'; remove one." in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no column 'path' in its first line (empty)"),
        ("file,label\n1.png,a\n", "has no column 'path' in its first line (file, label)"),
        ("Path,path\n1.png,1.png\n", "has more than one column 'path' in its first line (Path, path)"),
        ("path,Class,class\n1.png,a,b\n", "has more than one column 'class' in its first line"),
        ("path,label\n", "has no images"),
        ("path,label\n,a\n", "line 2: the path is ''; fill it in or remove the line."),
        ("path\n1.png\na\0b.png\n", "line 3: the path is 'a\\x00b.png'"),
        ("path\n1.png\nmissing.png\ngone.png\n", "names 2 files that are not there, of 3; the first is "),
        ("path\n../../../../../../../../etc/none.png\n", "names 1 file that is not there, of 1; the first is"),
        ("path\n" + "x" * 300 + ".png\n", "names 1 file that is not there, of 1; the first is"),
        ("path\n" + "x/" * 3000 + ".png\n", "names 1 file that is not there, of 1; the first is"),
        ("path\n.\n", "names 1 file that is not there, of 1; the first is"),
        ('path\n"1.png\n', "is no CSV file in UTF-8"),
        ("path\n" + "x" * 200_000 + "\n", "is no CSV file in UTF-8"),
    ],
)
def test_tables_that_make_no_sense_are_refused(tmp_path, text, sentence):
    touch(tmp_path, "1.png")
    assert sentence in refusal(table(tmp_path, text))


def test_files_that_are_no_tables_are_refused(tmp_path):
    assert "is no CSV file in UTF-8" in refusal(write_image(tmp_path / "x.png", 0))
    assert "is no CSV file in UTF-8" in refusal(table(tmp_path, "path\nbär.png\n", encoding="latin-1"))


def test_a_pipe_in_a_table_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    assert "names 1 file that is not there, of 1; the first is" in refusal(table(tmp_path, "path\npipe.png\n"))


def test_the_order_does_not_depend_on_the_disk(tmp_path, monkeypatch):
    write_folder(tmp_path)
    wanted = list_images(tmp_path)
    walk = os.walk
    monkeypatch.setattr(os, "walk", lambda top, **_: reversed([(here, f[::-1], n[::-1]) for here, f, n in walk(top)]))
    assert list_images(tmp_path) == wanted
    assert len(wanted.images) == 12


def test_a_folder_that_cannot_be_read_is_named_and_not_passed_over(tmp_path, monkeypatch):
    write_folder(tmp_path)
    scan = os.scandir
    locked = sorted(folder for folder in tmp_path.iterdir())[1]

    def refuse(top):
        if os.fspath(top) == os.fspath(locked):
            raise PermissionError(13, "Permission denied", os.fspath(top))
        return scan(top)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(Mistake, match=f"{locked.name} cannot be read .Permission denied.; change its rights"):
        list_images(tmp_path)
