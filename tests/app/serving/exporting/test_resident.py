"""The memory of a process with one model."""

import pytest

from shadowmetric.app.serving.exporting.resident import resident_bytes
from shadowmetric.errors import Stopped

pytest_plugins = ["exported_fixtures"]


def test_a_process_with_a_model_alone_is_smaller_than_one_with_torch(digits_run, exported):
    small, large = resident_bytes(exported.files["int8"], False), resident_bytes(digits_run.folder, True)
    assert 20e6 < small < large / 2


def test_a_process_that_fails_is_one_sentence(tmp_path):
    with pytest.raises(Stopped, match=r"a process that loads the model failed: .*is not there"):
        resident_bytes(tmp_path / "nothing.onnx", False)
