"""Where Ozzie's folder is: one rule for the gateway, the kernel and the command line (S1 "OZZIE_PATH")."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ozzie_server_ext.domain.errors import Unavailable


def home_folder(env: Mapping[str, str], user_home: Callable[[], Path]) -> Path:
    """`$OZZIE_PATH` as an absolute path, or `.ozzie` in the user's home folder.

    `user_home` is asked only where it is needed: an account of a container may have none. Raises Unavailable then.
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
