"""The file of a certificate: JSON or Markdown, with times only where an accelerator was."""

import json
from pathlib import Path

import pytest

from shadowmetric.app.doctor.devices.certificate import DeviceCertificate, DeviceCheck
from shadowmetric.app.doctor.devices.certificate_file import check_file, write_certificate
from shadowmetric.app.doctor.environment import environment
from shadowmetric.errors import Mistake

COUNTED = DeviceCheck("loss", "shadow hard", 32, "equal", 0.0, 0.0, 3, 40, ("losses/mined.py:7",))
TIMED = DeviceCheck(
    "loss", "shadow hard", 4096, "close", 1.2e-7, 3e-6, 3, None, times_us={"ours": 1234.5, "pml": "not run"}
)
FAILED = DeviceCheck("loss", "angular", 32, "failed", reason="TypeError: no float64")
PRETENDED = DeviceCertificate("pretended", "a pretended accelerator", False, (COUNTED,))
GPU = DeviceCertificate("cuda", "Some GPU", True, (TIMED, FAILED))


def written(device, path, ranks=None):
    write_certificate(path, environment(), device, ranks)
    return path.read_text()


def test_json_has_everything_and_no_time_without_an_accelerator(tmp_path):
    found = json.loads(written(PRETENDED, tmp_path / "doctor.json", {"ok": True}))
    assert "No accelerator was there" in found["summary"][0]
    assert "nothing was timed on an accelerator" in found["summary"][0]
    assert found["device"]["checks"][0]["times_us"] is None
    assert found["device"]["checks"][0]["wait_lines"] == ["losses/mined.py:7"]
    assert found["packages"]["torch"]
    assert found["ranks"] == {"ok": True}


def test_a_page_has_a_row_for_each_check_and_the_measured_times(tmp_path):
    lines = written(GPU, tmp_path / "doctor.md").splitlines()
    assert lines[0] == "# shadowmetric on Some GPU"
    assert "Losses and miners ran on Some GPU (cuda)." in lines
    assert "1 of 2 checks give what the CPU gives, 0 of them to the bit." in lines
    assert "| loss shadow hard | 4,096 | close | 1e-07 | 3e-06 | 3 | – | ours 1,234 |" in lines
    assert "| loss angular | 32 | failed: TypeError: no float64 | – | – | – | – | – |" in lines


def test_a_device_whose_waits_torch_cannot_tell_says_so(tmp_path):
    text = written(GPU.__class__("mps", "mps", True, (TIMED,)), tmp_path / "doctor.md")
    assert "Torch does not report host waits on mps." in text


@pytest.mark.parametrize("device", [PRETENDED, GPU])
@pytest.mark.parametrize("name", ["doctor.json", "doctor.md"])
def test_no_folder_of_the_user_is_named(tmp_path, device, name):
    text = written(device, tmp_path / name)
    assert str(Path.home()) not in text
    assert str(tmp_path) not in text


def test_a_file_that_cannot_be_is_refused(tmp_path):
    check_file(tmp_path / "doctor.md")
    with pytest.raises(Mistake, match=r"doctor.txt'; name a file that ends in .json or .md"):
        check_file(tmp_path / "doctor.txt")
    with pytest.raises(Mistake, match="is not there: make it first"):
        check_file(tmp_path / "nowhere" / "doctor.md")
