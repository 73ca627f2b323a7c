"""Which versions of pytorch-metric-learning (PML) the adapters know. Others are refused before any import of it."""

import importlib.metadata
import re

PACKAGE = "pytorch-metric-learning"
FIRST, BEYOND = (2, 9), (3,)  # as the extra in pyproject.toml has them


def check_pml_version() -> str:
    """Return what is wrong with the version of PML that is installed, in one sentence; nothing if it is absent."""
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return ""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if FIRST <= numbers < BEYOND:
        return ""
    first, beyond = (".".join(map(str, bound)) for bound in (FIRST, BEYOND))
    return (
        f"{PACKAGE} {version} is installed, and the adapter knows versions from {first} to before {beyond}; "
        f"install one with `pip install '{PACKAGE}>={first},<{beyond}'`."
    )
