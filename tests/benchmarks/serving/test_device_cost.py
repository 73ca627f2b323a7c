"""What a bundle costs: measured here with the Python that runs the tests, since an installation needs the network."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving import device_cost as module
from benchmarks.serving.device_cost import (
    check_bundle,
    install_words,
    main,
    make_environment,
    measure_search,
    one_call,
    size_mb,
    versions,
)
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.runtime.files import read_rows

pytest_plugins = ["exported_fixtures"]
HERE = Path(sys.executable)


def test_a_search_is_timed_and_its_memory_is_its_own(bundled, images):
    held = np.ones(50_000_000)  # 400 MB of this process, which a process that it starts must not be charged for
    found = measure_search(HERE, bundled.folder, images / "digit 3" / "0.png", calls=3)
    assert held.all()
    assert 0.05 < found["search_seconds"] < 120
    assert 20 < found["peak_resident_mb"] < 350
    assert found["bundle_mb"] == pytest.approx(bundled.bytes / 1e6, abs=0.5)


def test_seconds_and_bytes_are_those_of_the_command(tmp_path):
    small = one_call([sys.executable, "-c", "pass"], tmp_path)
    began = time.monotonic()
    large = one_call([sys.executable, "-c", "import time; x = b'x' * 100_000_000; time.sleep(0.5)"], tmp_path)
    assert 0.5 < large[0] < time.monotonic() - began
    assert 90e6 < large[1] - small[1] < 130e6


def test_a_search_that_fails_is_no_figure(bundled, tmp_path):
    with pytest.raises(Stopped, match=r"a search in .* failed: .*none\.png"):
        measure_search(HERE, bundled.folder, tmp_path / "none.png", calls=1)


def test_versions_are_those_of_the_environment():
    found = versions(HERE)
    assert found["python"].startswith("3.")
    assert found["numpy"] == np.__version__
    assert found["torch"] is True
    assert found.keys() == {"python", "onnxruntime", "numpy", "pillow", "torch"}


def test_a_size_is_that_on_disk_without_links(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"x" * 3_000_000)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "file")
    assert size_mb(tmp_path) == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("uv", [True, False])
def test_uv_installs_if_it_is_beside_python_else_pip(tmp_path, monkeypatch, uv):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if uv:
        (tmp_path / "uv").touch()
    make, install = install_words(tmp_path / "env", tmp_path / "env" / "bin" / "python", tmp_path / "requirements.txt")
    assert make[-1] == str(tmp_path / "env")
    assert install[:3] == ([str(tmp_path / "uv"), "pip", "install"] if uv else [str(tmp_path / "python"), "-m", "pip"])
    assert install[-2:] == ["-r", str(tmp_path / "requirements.txt")]
    assert str(tmp_path / "env" / "bin" / "python") in install


def test_an_environment_without_requirements_is_made_and_has_nothing(tmp_path):
    (tmp_path / "requirements.txt").write_text("")
    python = make_environment(tmp_path / "env", tmp_path / "requirements.txt")
    ended = subprocess.run([str(python), "-c", "import numpy"], capture_output=True, text=True)
    assert "No module named 'numpy'" in ended.stderr
    (tmp_path / "requirements.txt").write_text("./no-such-package\n")
    with pytest.raises(Stopped, match=r"^`.* failed: "):
        make_environment(tmp_path / "env", tmp_path / "requirements.txt")


def test_the_row_has_versions_and_figures(bundled, images, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "make_environment", lambda environment, requirements: HERE)
    monkeypatch.setattr(module, "versions", lambda python: versions(python) | {"torch": False})
    image = images / "digit 3" / "0.png"
    monkeypatch.setattr(sys, "argv", ["x", str(bundled.folder), str(image), "--csv", str(tmp_path / "row.csv")])
    main()
    (row,) = read_rows(tmp_path / "row.csv")
    figures = {"search_seconds", "peak_resident_mb", "bundle_mb", "environment_mb"}
    assert row.keys() == {"python", "onnxruntime", "numpy", "pillow"} | figures
    assert f"search_seconds {row['search_seconds']}" in capsys.readouterr().out


def test_torch_in_the_environment_and_other_folders_are_refused(bundled, images, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "make_environment", lambda environment, requirements: HERE)
    with pytest.raises(Stopped, match="the environment has torch"):
        module.device_cost(bundled.folder, images / "digit 3" / "0.png")
    with pytest.raises(Mistake, match=r"is no bundle: there is no model\.onnx in it; write one by"):
        check_bundle(tmp_path)
