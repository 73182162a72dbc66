"""Folders in folders, deeper than Python's own walks go: also than those that clean up behind tests."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEEP = 1500


@contextmanager
def deep_folders(root: Path) -> Iterator[None]:
    """DEEP folders called d below `root`, each in the one before; gone behind it."""
    at = os.open(root, os.O_RDONLY)
    try:
        for _ in range(DEEP):
            os.mkdir("d", dir_fd=at)
            deeper = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = deeper
        yield
    finally:
        os.close(at)
        subprocess.run(["rm", "-rf", str(root / "d")], check=True)
