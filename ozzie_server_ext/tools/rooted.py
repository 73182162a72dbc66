"""Opening files below one folder and nowhere else, component by component (THREATS 16).

Each folder on the way is opened relative to the one before with `O_NOFOLLOW`, so neither a symbolic link nor a
rename in between can lead outside; comparing path strings can't promise that.
"""

import os
import stat
from pathlib import Path, PurePosixPath

from ozzie_server_ext.tools.base import ToolFailed


class OutsideProject(ToolFailed):
    """The path leads out of the project, or to something that is not offered there."""

    code = "tool.outside_project"


def parts_below(path: str, *, hidden: bool = False) -> tuple[str, ...]:
    """The components of a path relative to the project's root.

    Raises OutsideProject for absolute paths, `..`, and, unless `hidden` is set, hidden files: credentials and settings
    are kept in those.
    """
    pure = PurePosixPath(path.strip() or ".")
    if "\0" in path:
        raise OutsideProject("The path contains a zero byte.")
    if pure.is_absolute() or str(pure).startswith("~"):
        raise OutsideProject(f"{path} is not below the project folder; give a path relative to it.")
    parts = tuple(part for part in pure.parts if part != ".")
    if ".." in parts:
        raise OutsideProject(f"{path} leads out of the project folder.")
    if not hidden and any(part.startswith(".") for part in parts):
        raise OutsideProject(f"{path} is hidden; hidden files and folders are not offered.")
    return parts


def open_below(root: Path, path: str, *, folder: bool, hidden: bool = False) -> int:
    """An open descriptor of the file (or folder) at `path` below `root`; the caller closes it. `hidden` is for who
    shows names to the user, and reads nothing.

    Raises OutsideProject, or ToolFailed where it is not there or is no plain file (folder).
    """
    parts = parts_below(path, hidden=hidden)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        # O_NONBLOCK: opening a FIFO must not wait for its other end.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        if folder or not last:
            flags |= os.O_DIRECTORY
        try:
            deeper = os.open(part, flags, dir_fd=descriptor)
        except OSError as error:
            raise _explain(path, part, descriptor, error) from None
        finally:
            os.close(descriptor)
        descriptor = deeper
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        os.close(descriptor)
        raise ToolFailed(f"{path} is not a {'folder' if folder else 'plain file'}.")
    return descriptor


def _explain(path: str, part: str, folder: int, error: OSError) -> ToolFailed:
    try:
        is_link = stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        is_link = False
    if is_link:
        return OutsideProject(f"{path} passes through a symbolic link, which may lead out of the project.")
    if isinstance(error, FileNotFoundError):
        return ToolFailed(f"{path} does not exist.")
    if isinstance(error, NotADirectoryError):
        return ToolFailed(f"{path}: {part} is not a folder.")
    return ToolFailed(f"{path} can't be opened: {error.strerror}.")
