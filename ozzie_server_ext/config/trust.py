"""The project files that a person has trusted, by the hash of their content.

A cloned folder can contain any file: it counts only while its content is the one that a person has trusted.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal, TypeAlias

from ozzie_server_ext.config.files import locked, replace_file
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, content_if_there

TrustState: TypeAlias = Literal["trusted", "changed", "unknown"]


def standing(home: Home, file: Path, content: bytes | None) -> TrustState:
    """Return the trust state of `file` with this content. The content is None if the file is missing or unreadable,
    which counts as a change of a trusted file.

    Raises ConfigError if the list of trusted files can't be read.
    """
    known = _trusted(home).get(_key(file))
    if known is None:
        return "unknown"
    return "trusted" if content is not None and known == _digest(content) else "changed"


def trust(home: Home, file: Path, content: bytes) -> None:
    """Trust this content of `file`; any change ends the trust. Raises ConfigError."""
    with locked(home.trusted_file):
        _write(home, _trusted(home) | {_key(file): _digest(content)})


def untrust(home: Home, file: Path) -> bool:
    """Stop trusting `file`, which need not exist; return False if it was not trusted. Raises ConfigError."""
    with locked(home.trusted_file):
        known = _trusted(home)
        found = known.pop(_key(file), None) is not None
        if found:
            _write(home, known)
    return found


def _key(file: Path) -> str:
    """Return one name for the file, whatever links lead to its project. Links inside the project, `.ozzie` and the
    file, are not followed: with one, a project could change its name and lose its trust record."""
    folder = file.absolute().parent
    return str(folder.parent.resolve() / folder.name / file.name)


def _trusted(home: Home) -> dict[str, str]:
    """Read the list. A damaged list is not an empty one: that would drop what trusted files forbid."""
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
            hint="Restore a backup of it, or move it away and trust your files again.",
        )
    return found


def _write(home: Home, known: dict[str, str]) -> None:
    replace_file(home.trusted_file, json.dumps(known, indent=1, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
