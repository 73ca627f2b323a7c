"""Where datasets lie: the data root is what is given, else $SHADOWMETRIC_DATA, else ./data."""

import os
from pathlib import Path


def data_root(root: Path | None = None) -> Path:
    """Return the folder below which datasets lie."""
    return root if root is not None else Path(os.environ.get("SHADOWMETRIC_DATA") or "data")
