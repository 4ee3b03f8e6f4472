"""Where judged documents are kept between runs: plain JSON on disk."""

from pathlib import Path


class SpecCache:
    """A folder of judged documents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
