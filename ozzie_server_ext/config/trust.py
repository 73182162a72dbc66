"""Which files of project folders a person has trusted, by the hash of their content.

A cloned folder can carry any file: it counts once a person has trusted this very content, and no longer than it stays.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from ozzie_server_ext.config.files import replace_file
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, content_if_there

TrustState: TypeAlias = Literal["trusted", "changed", "unknown"]


def standing(home: Home, file: Path, content: bytes | None) -> TrustState:
    """How `file` stands with this content: trusted, changed since it was, or never trusted. The content is None where
    the file is not there or can't be read: what was trusted has changed then.

    Raises ConfigError where the list of trusted files can't be read.
    """
    known = _trusted(home).get(_key(file))
    if known is None:
        return "unknown"
    return "trusted" if content is not None and known == _digest(content) else "changed"


def trust(home: Home, file: Path, content: bytes) -> None:
    """Remember that this content of `file` is trusted; any change of it ends the trust. Raises ConfigError."""
    with _alone(home):
        _write(home, _trusted(home) | {_key(file): _digest(content)})


def untrust(home: Home, file: Path) -> bool:
    """Forget that `file` was trusted, whether or not it is there; False where it was not. Raises ConfigError."""
    with _alone(home):
        known = _trusted(home)
        found = known.pop(_key(file), None) is not None
        if found:
            _write(home, known)
    return found


def _key(file: Path) -> str:
    """One name for the file, by whichever links its project is reached. The links inside of the project, `.ozzie` and
    the file, are not followed: by making one, a project would get another name, and be rid of what was trusted."""
    folder = file.absolute().parent
    return str(folder.parent.resolve() / folder.name / file.name)


def _trusted(home: Home) -> dict[str, str]:
    """All of the list. A list that can't be read is not an empty one: with it would go what trusted files forbid."""
    content = content_if_there(home.trusted_file)
    if content is None:
        return {}
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(digest, str) for digest in found.values()):
        raise ConfigError(
            f"{home.trusted_file}: the list of trusted project files is damaged.",
            hint="Put back a copy of it. Or move it away, and trust again what you had trusted.",
        )
    return found


def _write(home: Home, known: dict[str, str]) -> None:
    replace_file(home.trusted_file, json.dumps(known, indent=1, sort_keys=True).encode())


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """No two processes change the list at once, so that neither loses what the other one adds."""
    lock = home.trusted_file.with_suffix(".lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # and with it the lock


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
