"""How a change ended, where it is not what was asked for: not done, or nobody can say."""

from collections.abc import Iterator
from contextlib import contextmanager

from ozzie_server_ext.tools.base import ToolFailed


class FileChanged(ToolFailed):
    """What is there is not what was seen, so nothing was done."""

    code = "tool.file_changed"


class FileBusy(ToolFailed):
    """Another program has the file or its folder in use; nothing was done, and what was seen still holds."""

    code = "tool.file_busy"


@contextmanager
def told_in_words(path: str) -> Iterator[None]:
    """Turns what the system refuses, before anything was done, into a ToolFailed."""
    try:
        yield
    except OSError as error:
        raise ToolFailed(f"{path} was not changed: {error.strerror or error}.") from error
