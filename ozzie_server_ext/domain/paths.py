"""Paths below the project's folder, as their components: what rules are matched with and files are opened by."""

from pathlib import PurePosixPath

MAX_PATH_CHARACTERS = 4096
MAX_PATH_COMPONENTS = 256
"""More than any real folder is deep, and few enough to be matched with every rule (THREATS 15)."""


def path_parts(path: str) -> tuple[str, ...] | None:
    """The components of a path relative to the project's folder, none for the folder itself; None for one that is
    absolute, leads out of it, or can't be a path."""
    if "\0" in path or len(path) > MAX_PATH_CHARACTERS:
        return None
    pure = PurePosixPath(path.strip() or ".")
    if pure.is_absolute() or str(pure).startswith("~") or ".." in pure.parts:
        return None
    parts = tuple(part for part in pure.parts if part != ".")
    return parts if len(parts) <= MAX_PATH_COMPONENTS else None
