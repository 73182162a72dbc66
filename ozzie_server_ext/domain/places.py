"""Where Ozzie's folder is: one rule for the gateway, the kernel and the command line (S1 "OZZIE_PATH")."""

from collections.abc import Callable, Mapping
from pathlib import Path


def home_folder(env: Mapping[str, str], user_home: Callable[[], Path]) -> Path:
    """`$OZZIE_PATH` as an absolute path, or `.ozzie` in the user's home folder.

    `user_home` is asked only where it is needed: an account of a container may have none.
    """
    named = env.get("OZZIE_PATH", "")
    if not named:
        return user_home() / ".ozzie"
    if named == "~" or named.startswith("~/"):
        return user_home() / named[2:]
    return Path(named).absolute()
