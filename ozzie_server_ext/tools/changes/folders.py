"""Making the folders that were announced as missing, and nothing else."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.outcome import FileChanged, told_in_words
from ozzie_server_ext.tools.changes.seen import Seen, identity
from ozzie_server_ext.tools.rooted import FOLDER, closing, open_deepest


def make_folders(root: Path, seen: Seen) -> Seen:
    """Makes `seen.missing`, 0755 less the umask; what is seen then: the same, with nothing missing.

    Raises FileChanged where something else is there by now, ToolFailed; then those that it made are gone again.
    """
    made = 0
    try:
        with told_in_words(seen.path):
            descriptor, missing = open_deepest(root, seen.parts[:-1])
            try:
                if identity(descriptor) != seen.anchor or len(missing) != len(seen.missing):
                    raise FileChanged(f"The folders on the way to {seen.path} have changed; look at it again.")
                for path, name in zip(seen.missing, missing, strict=True):
                    deeper = _make(descriptor, name, path)
                    made += 1
                    os.close(descriptor)
                    descriptor = deeper
                anchor = identity(descriptor)
            finally:
                os.close(descriptor)
            _check(root, seen, anchor)
    except BaseException:
        remove_folders(root, seen.missing[:made])
        raise
    return replace(seen, anchor=anchor, missing=())


def remove_folders(root: Path, paths: tuple[str, ...]) -> None:
    """Removes folders that were made for a change which did not come about; one that is not empty stays."""
    for path in reversed(paths):
        *above, name = path.split("/")
        with suppress(OSError, ToolFailed):
            descriptor, missing = open_deepest(root, tuple(above))
            with closing(descriptor):
                if not missing:
                    os.rmdir(name, dir_fd=descriptor)


def _make(descriptor: int, name: str, path: str) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=descriptor)
    except FileExistsError:
        raise FileChanged(f"{path} was not there when it was looked at, and now it is; look at it again.") from None
    try:
        os.fsync(descriptor)
        return os.open(name, FOLDER, dir_fd=descriptor)
    except OSError as error:
        with suppress(OSError):
            os.rmdir(name, dir_fd=descriptor)
        raise FileChanged(f"{path} was made and could not be opened: {error.strerror}.") from None


def _check(root: Path, seen: Seen, anchor: tuple[int, int]) -> None:
    descriptor, missing = open_deepest(root, seen.parts[:-1])
    with closing(descriptor):
        if missing or identity(descriptor) != anchor:
            raise FileChanged(f"The folders on the way to {seen.path} were moved while they were made.")
