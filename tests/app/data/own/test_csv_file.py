"""Tables of images: columns, parts, queries and galleries, and every mistake with its line."""

import pytest
from PIL import Image

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT
from shadowmetric.app.data.own.csv_file import read_csv
from shadowmetric.errors import DataMistake


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a table beside some images."""
    for number in range(8):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"{number}.png")

    def write(*lines, encoding="utf-8"):
        path = tmp_path / "table.csv"
        path.write_text("\n".join(lines) + "\n", encoding=encoding)
        return path

    return write


def test_a_table_with_a_split(table):
    found = read_csv(table("label,extra,path,split", "b,?,0.png,train", "a,?,1.png,test", "", "a,?,2.png,TRAIN"))
    assert found.classes == ("a", "b")
    assert found.train.images.paths == ["0.png", "2.png"]
    assert found.train.labels.tolist() == [1, 0]
    assert found.test.images.read(0)[0, 0, 0] == 1
    assert found.kind == STANDARD
    assert found.gallery is None


def test_headings_in_any_case(table):
    found = read_csv(
        table(" Path ,LABEL,Split,Is_Query,IS_GALLERY", "0.png,A,Train,,", "1.png,b,TEST,1,0", "2.png,b,test,0,1")
    )
    assert found.train.images.paths == ["0.png"]
    assert found.classes == ("A", "b")  # what stands below them keeps its case
    assert found.test.images.paths == ["1.png"]
    assert found.gallery is not None


def test_other_classes_in_the_test_part_make_it_zero_shot(table):
    found = read_csv(table("path,label,split", "0.png,10,train", "1.png,9,test"))
    assert found.kind == ZERO_SHOT
    assert found.classes == ("9", "10")


def test_without_a_split_a_fifth_is_held_out(table):
    found = read_csv(table("path,label", *(f"{number}.png,{number % 2}" for number in range(8))))
    assert sorted(found.test.labels) == [0, 0, 1, 1]
    assert "No split is given" in found.notes[0]


@pytest.mark.parametrize("word", ["validation", "val"])
def test_validation_is_another_word_for_test(table, word):
    found = read_csv(table("path,label,split", "0.png,a,train", f"1.png,b,{word}"))
    assert found.test.images.paths == ["1.png"]


def test_a_mark_at_the_start_and_quotes_and_absolute_paths(table, tmp_path):
    first = f'"{tmp_path / "0.png"}","a, or b",train'
    found = read_csv(table("path,label,split", first, "1.png,c,test", encoding="utf-8-sig"))
    assert found.classes == ("a, or b", "c")
    assert found.train.images.read(0)[0, 0, 0] == 0


ROLES = "path,label,split,is_query,is_gallery"


def test_queries_and_gallery(table):
    lines = ("0.png,a,train,,", "1.png,b,test,True,False", "2.png,b,test,0,1", "3.png,c,test,no,yes")
    found = read_csv(table(ROLES, *lines))
    assert found.test.images.paths == ["1.png"]
    assert found.gallery.images.paths == ["2.png", "3.png"]
    assert found.gallery.labels.tolist() == [1, 2]
    assert found.kind == ZERO_SHOT


def test_test_images_that_are_all_both_are_searched_among_each_other(table):
    found = read_csv(table(ROLES, "0.png,a,train,,", "1.png,b,test,true,true", "2.png,b,test,true,true"))
    assert found.gallery is None
    assert found.test.images.paths == ["1.png", "2.png"]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["path,name", "0.png,a"], r"no column 'label' in its first line \(path, name\)"),
        ([""], r"no column 'path' in its first line"),
        (["path,label,path", "0.png,a,1.png"], "more than one column 'path'"),
        (["path,label,Path", "0.png,a,1.png"], r"more than one column 'path' in its first line \(path, label, Path\)"),
        (["path,label,split,Split", "0.png,a,train,test"], "more than one column 'split'"),
        (["path", "0.png"], r"no column 'label'"),
        (["path,label"], "has a header and no lines"),
        (["path,label", "0.png,a,b"], "line 2: 3 values for 2 columns"),
        (["path,label", "0.png,a", "1.png"], "line 3: 1 value for 2 columns"),
        (["path,label", "0.png,a", "1.png, "], "line 3: the label is empty"),
        (
            ["path,label", "0.png,a", "x.png,b", "y.png,b"],
            "names 2 files that are not there, of 3; the first, in line 3, is .*x.png",
        ),
        (["path,label", "0.png,a", "1.png,b", "0.png,b"], "line 4: 0.png is in line 2 already"),
        (["path,label,split", "0.png,a,train", "1.png,b,tset"], "line 3: the split is 'tset'; give train or test"),
        (["path,label,split", "0.png,a,train", "1.png,b,val", "2.png,b,test"], "splits test and val; give train and"),
        (["path,label,split", "0.png,a,train", "1.png,b,train"], "2 training images and no test images"),
        (["path,label,is_query,is_gallery", *(f"{n}.png,{n % 2},1,0" for n in range(8))], "only some of the columns"),
        (["path,label,split,is_query", "0.png,a,train,", "1.png,b,test,1"], "only some of the columns"),
        ([ROLES, "0.png,a,train,,", "1.png,b,test,maybe,1"], "line 3: is_query is 'maybe'; give true or false"),
        ([ROLES, "0.png,a,train,,", "1.png,b,test,0,0"], "line 3: a test line is neither"),
        ([ROLES, "0.png,a,train,,", "1.png,b,test,1,1", "2.png,b,test,1,0"], "line 3 is both"),
        ([ROLES, "0.png,a,train,,", "1.png,b,test,1,0", "2.png,b,test,1,0"], "one of the two has no lines"),
        (["path,label", '"0.png,a'], "is no CSV file in UTF-8"),
        (["path,label", "0.png,a", "1.png,a"], r"of 1 class \(a\)"),
    ],
)
def test_what_is_refused(table, lines, sentence):
    with pytest.raises(DataMistake, match=sentence):
        read_csv(table(*lines))


def test_files_that_are_no_tables(table, tmp_path):
    with pytest.raises(DataMistake, match="cannot be opened: No such file"):
        read_csv(tmp_path / "nothing.csv")
    with pytest.raises(DataMistake, match="is no CSV file in UTF-8"):
        read_csv(table("path,label", "0.png,é", encoding="latin-1"))
