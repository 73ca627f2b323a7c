"""Files of a run that a test changes as a program would that wrote them: with their digests."""

from pathlib import Path

from shadowmetric.app.training.runs.run import Run


def rewrite(run: Run, file: Path, stored: bytes | str) -> None:
    """Put other bytes into a file of a run."""
    text = stored.encode() if isinstance(stored, str) else stored
    run.write(file, lambda place: place.write_bytes(text))
