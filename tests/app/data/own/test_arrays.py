"""Files as other tools leave them: what is read, what is not read at all, and the sentence for everything else."""

import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

from shadowmetric.app.data.own.arrays import is_npz, keys_of, number_labels, read_labels, read_rows, read_set

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
LABELS = np.array([3, -1, 3, 0])


@pytest.fixture
def saved(tmp_path):
    """Return a function that writes an array to a file and returns its path."""

    def save(array, name="file.npy", **arrays):
        path = tmp_path / name
        np.savez(path, **arrays) if arrays else np.save(path, array, allow_pickle=True)
        return path

    return save


def refusal(function, *arguments):
    """Return the sentence that a call is refused with."""
    with pytest.raises(ValueError, match=r".") as refused:
        function(*arguments)
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rows_of_an_npy_file_are_mapped_and_equal(saved, dtype):
    rows = read_rows(saved(ROWS.astype(dtype)))
    assert isinstance(rows, np.memmap)
    assert rows.dtype == dtype
    np.testing.assert_array_equal(rows, ROWS)
    assert not rows.flags.writeable


def test_rows_in_column_order_are_read_too(saved):
    np.testing.assert_array_equal(read_rows(saved(np.asfortranarray(ROWS))), ROWS)


def test_a_file_larger_than_memory_is_read_by_the_row(tmp_path):
    path, shape = tmp_path / "huge.npy", (2**28, 1024)  # a terabyte, of holes
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        start = file.tell()
        file.truncate(start + 4 * shape[0] * shape[1])
        file.seek(start + 4 * 1024 * (shape[0] - 1))
        file.write(np.full(1, 7.0, "<f4").tobytes())
    rows = read_rows(path)
    assert rows.shape == shape
    assert rows[-1, :2].tolist() == [7.0, 0.0]


def test_arrays_of_an_npz_file_are_read_by_name(saved):
    path = saved(None, "set.npz", embeddings=ROWS, labels=LABELS, gallery=2 * ROWS, gallery_labels=LABELS + 1)
    assert keys_of(path) == ["embeddings", "labels", "gallery", "gallery_labels"]
    found = read_set(path)
    np.testing.assert_array_equal(found.rows, ROWS)
    np.testing.assert_array_equal(found.labels, LABELS)
    gallery = read_set(path, rows="gallery", labels="gallery_labels")
    np.testing.assert_array_equal(gallery.rows, 2 * ROWS)
    np.testing.assert_array_equal(gallery.labels, LABELS + 1)


def test_a_second_file_of_labels_comes_before_those_of_the_first(saved):
    path = saved(None, "set.npz", embeddings=ROWS, labels=LABELS)
    np.testing.assert_array_equal(read_set(path, saved(LABELS + 5, "labels.npy")).labels, LABELS + 5)
    other = saved(None, "other.npz", labels=LABELS + 6)
    np.testing.assert_array_equal(read_set(path, other, rows="embeddings", labels="unused").labels, LABELS + 6)


def test_a_compressed_npz_file_and_a_file_under_another_name_are_read(tmp_path):
    np.savez_compressed(tmp_path / "set.npz", embeddings=ROWS, labels=LABELS)
    path = (tmp_path / "set.npz").rename(tmp_path / "set.npy")
    assert is_npz(path)
    np.testing.assert_array_equal(read_set(path).rows, ROWS)


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8"])
def test_integer_labels_of_any_kind_become_int64(saved, dtype):
    labels = read_labels(saved(np.array([0, 100, 7], dtype=dtype)))
    assert labels.dtype == np.int64
    assert labels.dtype.isnative
    assert labels.tolist() == [0, 100, 7]


def test_the_largest_and_smallest_labels_stay_what_they_are(saved):
    assert read_labels(saved(np.array([-(2**63), 2**63 - 1]))).tolist() == [-(2**63), 2**63 - 1]
    assert read_labels(saved(np.array([2**63 - 1], dtype=np.uint64))).tolist() == [2**63 - 1]


@pytest.mark.parametrize("names", [["cat", "ant", "über"], [b"cat", b"ant", "über".encode()]])
def test_labels_may_be_strings(saved, names):
    assert read_labels(saved(np.array(names))).tolist() == ["cat", "ant", "über"]


def test_strings_are_numbered_by_sorted_order_in_all_sets_alike():
    first, second = np.array(["cat", "ant", "cat"]), np.array(["dog", "a long name", "ant"])
    (one, two), names = number_labels(first, second)
    assert names == ["a long name", "ant", "cat", "dog"]
    assert one.dtype == two.dtype == np.int64
    assert one.tolist() == [2, 1, 2]
    assert two.tolist() == [3, 0, 1]


def test_integers_are_numbers_already():
    (labels,), names = number_labels(LABELS)
    assert names is None
    assert labels.tolist() == LABELS.tolist()


def test_strings_and_integers_do_not_mix():
    sentence = refusal(number_labels, np.array(["a"]), LABELS)
    assert sentence == (
        "the labels of the queries and of the gallery are strings and integers; give both as the same kind."
    )


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (
            ROWS[0],
            "has shape (3,); embeddings must be (rows, dim); if these are the labels, name the embeddings first.",
        ),
        (ROWS[None], "has shape (1, 4, 3); embeddings must be (rows, dim)."),
        (np.float32(1), "has shape (); embeddings must be (rows, dim)."),
        (ROWS.astype(int), "is int64; embeddings must be float16, float32, float64: save rows.astype('float32')."),
        (ROWS.astype("F"), "is complex64; embeddings must be float16, float32, float64: save an array of numbers."),
        (ROWS.astype(str), "is <U32; embeddings must be float16, float32, float64: save an array of numbers."),
        (ROWS.astype(">f4"), "has the byte order of another machine (>f4); save rows.astype('float32')."),
        (ROWS[:0], "is empty, of shape (0, 3); give at least one row of one number."),
        (ROWS[:, :0], "is empty, of shape (4, 0); give at least one row of one number."),
        (ROWS.astype(object), "holds Python objects, which are never unpickled; save numbers, or labels.astype(str)."),
    ],
)
def test_what_embeddings_cannot_be(saved, array, sentence):
    path = saved(array)
    assert refusal(read_rows, path) == f"{path} {sentence}"
    path = saved(None, "set.npz", embeddings=array, labels=LABELS)
    assert refusal(read_rows, path) == f"'embeddings' in {path} {sentence}"


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (LABELS[:, None], "has shape (4, 1); give one label for each row: save labels.ravel()."),
        (np.eye(4), "has shape (4, 4); give one label for each row: save labels.argmax(1), if they are one-hot."),
        (np.int64(3), "has shape (); give one label for each row: save labels.ravel()."),
        (LABELS.astype("f4"), "is float32; labels must be integers or strings: save labels.astype(int)."),
        (LABELS > 0, "is bool; labels must be integers or strings: save labels.astype(int)."),
        (np.array([1, 2.5]), "has 2.5 in row 1; labels must be integers or strings."),
        (np.array([1, 2, np.nan]), "has nan in row 2; labels must be integers or strings."),
        (np.array([np.inf]), "has inf in row 0; labels must be integers or strings."),
        (np.array([1, 2**63], dtype="u8"), f"has the label {2**63}; labels must be at most 2**63 - 1."),
        (np.array([b"\xff"]), "holds bytes that are no UTF-8; save the labels as strings."),
        (
            LABELS.astype(object),
            "holds Python objects, which are never unpickled; save numbers, or labels.astype(str).",
        ),
    ],
)
def test_what_labels_cannot_be(saved, array, sentence):
    path = saved(array)
    assert refusal(read_labels, path) == f"{path} {sentence}"
    path = saved(None, "set.npz", embeddings=ROWS, labels=array)
    assert refusal(read_labels, path) == f"'labels' in {path} {sentence}"


def test_every_row_has_a_label(saved):
    rows, labels = saved(ROWS), saved(LABELS[:3], "labels.npy")
    assert refusal(read_set, rows, labels) == f"{rows} has 4 rows and {labels} 3 labels; give one label for each row."
    path = saved(None, "set.npz", embeddings=ROWS, labels=LABELS[:3])
    assert refusal(read_set, path) == f"{path} has 4 rows and 'labels' in it 3 labels; give one label for each row."
    assert refusal(read_set, rows) == f"{rows} holds no labels; give a file with one label for each row beside it."


def test_what_is_missing_from_an_npz_file_and_what_is_there(saved, tmp_path):
    path = saved(None, "set.npz", emb=ROWS, labels=LABELS)
    assert refusal(read_rows, path) == (
        f"{path} has no array 'embeddings', it has 'emb', 'labels'; write it with numpy.savez(path, embeddings=...)."
    )
    zipfile.ZipFile(tmp_path / "empty.npz", "w").close()
    assert "it has nothing;" in refusal(read_rows, tmp_path / "empty.npz")


def test_files_that_are_not_ours(tmp_path):
    missing = f"{tmp_path}/no.npy does not exist; give a .npy or .npz file, or the folder of a run."
    assert refusal(read_rows, tmp_path / "no.npy") == missing
    assert refusal(read_rows, tmp_path) == f"{tmp_path} is a folder; give a .npy or .npz file."
    path = tmp_path / "file.npy"
    path.write_bytes(b"")
    assert refusal(read_rows, path) == f"{path} is an empty file; write it again with numpy.save."
    for foreign in (b"\x89PNG\r\n\x1a\n" + bytes(50), b"1,2,3\n4,5,6\n", b"\x80\x04\x95pickled", b"\x93NUM"):
        path.write_bytes(foreign)
        assert refusal(read_rows, path) == f"{path} is neither a .npy nor a .npz file; write one with numpy.save."
    torch.save(torch.ones(2, 2), path)
    assert refusal(read_rows, path) == (
        f"{path} was written by torch.save; write it with numpy.save(path, tensor.numpy())."
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("embeddings", b"no array")
    assert refusal(read_rows, path) == f"'embeddings' in {path} is no array; write the file with numpy.savez."


def test_a_path_through_a_file_cannot_be_opened(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "rows.npy"
    assert refusal(read_rows, path) == f"{path} cannot be opened: Not a directory; give a .npy or .npz file."


@pytest.mark.parametrize("kept", [8, 40, 130, 170])
def test_a_file_that_was_cut_short_is_damaged(saved, kept):
    path = saved(ROWS)
    assert path.stat().st_size == 128 + ROWS.nbytes
    path.write_bytes(path.read_bytes()[:kept])
    assert refusal(read_rows, path).startswith(f"{path} is damaged or cut short (")
    assert refusal(read_labels, path).startswith(f"{path} is damaged or cut short (")


def test_a_damaged_npz_file(saved):
    path = saved(None, "set.npz", embeddings=np.zeros((100, 8)), labels=np.arange(100))
    whole = path.read_bytes()
    path.write_bytes(whole[:3000])  # without the directory at the end
    assert refusal(read_set, path).startswith(f"{path} is damaged or cut short (")
    path.write_bytes(whole[:3000] + b"\x01" + whole[3001:])
    assert refusal(read_set, path).startswith(f"{path} is damaged or cut short (Bad CRC-32")


def test_nothing_is_unpickled(saved, tmp_path):
    class Trap:
        def __reduce__(self):
            return open, (str(tmp_path / "sprung"), "w")

    for path in (saved(np.array([Trap()])), saved(None, "set.npz", embeddings=np.array([Trap()]))):
        refusal(read_rows, path)
        refusal(read_labels, path)
    assert not (tmp_path / "sprung").exists()


def test_importing_the_library_does_not_load_this():
    code = "import sys, shadowmetric; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not [name for name in names if name.startswith("shadowmetric.app.data")]


@pytest.mark.parametrize(
    "shape", ["(-20, 4)", "(20, -4)", "(-20,-4)", "(1e9, 4)", "(" + "9" * 400 + ",)", "((((", "(20, 4"]
)
def test_a_header_with_a_shape_that_no_array_has_is_damage(tmp_path, shape):
    file = tmp_path / "rows.npy"
    np.save(file, np.zeros((20, 4), np.float32))
    stored = file.read_bytes()
    head = stored[:128].replace(b"(20, 4)", shape.encode())
    file.write_bytes(head[:8] + (len(head) - 10).to_bytes(2, "little") + head[10:] + stored[128:])
    with pytest.raises(ValueError, match="damaged or cut short"):
        read_rows(file)
