"""Versions of pytorch-metric-learning that the adapters do not know are refused, by name and with the remedy."""

import importlib
import importlib.metadata
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from shadowmetric.errors import Mistake
from shadowmetric.integrations.pml_losses import check_pml_loss
from shadowmetric.integrations.pml_version import PACKAGE, check_pml_version

KNOWN = ("2.9.0", "2.9", "2.9.1", "2.10.0", "2.99.3")
UNKNOWN = ("3.0.0", "3", "3.0.0.dev2", "4.1", "2.8.1", "1.7.3", "0.9.99")
ADAPTER = "shadowmetric.integrations.pytorch_metric_learning"


@pytest.fixture
def installed(monkeypatch):
    """Return a function that lets a version seem to be installed."""
    real = importlib.metadata.version

    def pretend(version: str) -> None:
        monkeypatch.setattr(importlib.metadata, "version", lambda name: version if name == PACKAGE else real(name))

    return pretend


@pytest.mark.parametrize("version", UNKNOWN)
def test_importing_the_adapter_refuses_an_unknown_version_in_a_sentence(version, installed, monkeypatch):
    installed(version)
    monkeypatch.delitem(sys.modules, ADAPTER, raising=False)
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning.losses", None)  # refused before anything is looked for
    with pytest.raises(ImportError) as refused:
        importlib.import_module(ADAPTER)
    said = str(refused.value)
    assert said.startswith(f"{PACKAGE} {version} is installed, ")
    assert said.endswith(f"install one with `pip install '{PACKAGE}>=2.9,<3'`.")
    assert "\n" not in said


@pytest.mark.parametrize("version", UNKNOWN)
def test_a_training_refuses_it_too(version, installed):
    installed(version)
    with pytest.raises(Mistake, match=f"^{PACKAGE} {version} is installed, "):
        check_pml_loss("pml:TripletMarginLoss")


@pytest.mark.parametrize("version", KNOWN)
def test_known_versions_pass(version, installed):
    installed(version)
    assert check_pml_version() == ""


def test_where_it_is_absent_the_import_itself_says_so(monkeypatch):
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert check_pml_version() == ""


def test_the_extra_asks_for_what_is_known():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (asked,) = (Requirement(line) for line in project["optional-dependencies"][PACKAGE])
    assert all(asked.specifier.contains(version) for version in KNOWN)
    assert not any(asked.specifier.contains(version, prereleases=True) for version in UNKNOWN if "dev" not in version)
