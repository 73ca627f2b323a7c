"""A small run on the digits, what is exported from it, and a bundle; each made once for all tests of a process."""

import pytest
from exported_runs import IMAGES, quick_run, write_digits

from shadowmetric.app.serving.exporting import parity
from shadowmetric.app.serving.exporting.bundle import write_bundle
from shadowmetric.app.serving.exporting.export import export


@pytest.fixture(scope="session")
def made_in(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="session")
def digits_run(made_in):
    return quick_run(made_in / "a run")


@pytest.fixture(scope="session")
def exported(digits_run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "resident_bytes", lambda place, of_run: 5_000_000)
        patch.setattr(parity, "REPEATS", 3)
        return export(digits_run, images=IMAGES, limit=0.2)


@pytest.fixture(scope="session")
def images(made_in):
    return write_digits(made_in / "images")


@pytest.fixture(scope="session")
def bundled(made_in, digits_run, exported, images):
    return write_bundle(digits_run, exported, made_in / "bundle", images)
