"""Paths below the project's folder, and the path of Ozzie's own folder."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ozzie_server_ext.domain.errors import Unavailable

MAX_PATH_CHARACTERS = 4096
MAX_PATH_COMPONENTS = 256
"""More than any real folder is deep, and few enough to be matched with every rule."""


def path_parts(path: str) -> tuple[str, ...] | None:
    """Split a path relative to the project's folder into components: none for the folder itself.

    Return None if the path is absolute, leads out of the folder, or can't be a path.
    """
    if "\0" in path or len(path) > MAX_PATH_CHARACTERS:
        return None
    path = path.strip()
    if path.startswith("/"):
        return None
    # Not by pathlib, which takes five times as long: a call may name hundreds of files.
    parts = tuple([part for part in path.split("/") if part not in ("", ".")])
    leads_out = ".." in parts or (bool(parts) and parts[0].startswith("~"))
    return None if leads_out or len(parts) > MAX_PATH_COMPONENTS else parts


def home_folder(env: Mapping[str, str], user_home: Callable[[], Path]) -> Path:
    """Return `$OZZIE_PATH` as an absolute path, or `.ozzie` in the user's home folder.

    `user_home` is called only if needed: a container's account may have no home. Raises Unavailable then.
    """
    named = env.get("OZZIE_PATH", "")
    if named and named != "~" and not named.startswith("~/"):
        return Path(named).absolute()
    try:
        return user_home() / (named[2:] if named else ".ozzie")
    except RuntimeError:
        raise Unavailable(
            "This account has no home folder, and OZZIE_PATH names no folder for Ozzie.",
            hint="Set OZZIE_PATH to a folder that is yours.",
            code="home.none",
        ) from None
