"""Which files of project folders a person has trusted, by the hash of their content (DESIGN §2.14).

A cloned folder can carry any file: it counts once a person has trusted this very content, and no longer than it stays.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal, TypeAlias

from ozzie_server_ext.config.files import replace_file
from ozzie_server_ext.config.home import Home

Standing: TypeAlias = Literal["trusted", "changed", "unknown"]


def standing(home: Home, file: Path, content: bytes) -> Standing:
    """How `file` stands with this content: trusted, changed since it was, or never trusted."""
    known = _trusted(home).get(str(file.absolute()))
    if known is None:
        return "unknown"
    return "trusted" if known == _digest(content) else "changed"


def trust(home: Home, file: Path, content: bytes) -> None:
    """Remember that this content of `file` is trusted; any change of it ends the trust."""
    known = {**_trusted(home), str(file.absolute()): _digest(content)}
    replace_file(home.trusted_file, json.dumps(known, indent=1, sort_keys=True).encode())


def _trusted(home: Home) -> dict[str, str]:
    try:
        found = json.loads(home.trusted_file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
