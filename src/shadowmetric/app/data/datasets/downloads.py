"""Download a dataset through torchvision, which compares what comes with an md5 sum written in its own code."""

from pathlib import Path

from shadowmetric.app.data.manage.placing import stage_data_root
from shadowmetric.errors import DataMistake


def download_with_torchvision(name: str, folder: str, root: Path) -> None:
    """Download torchvision.datasets.NAME, which lies in a folder of its own below the root."""
    import torchvision.datasets

    with stage_data_root(root, folder) as fresh:
        try:
            getattr(torchvision.datasets, name)(fresh, download=True)
        except (OSError, RuntimeError) as error:  # a URLError is an OSError
            reason = " ".join(str(error).split()).rstrip(".")
            raise DataMistake(f"{name} could not be downloaded ({reason}); try again, or add its archive.") from None
