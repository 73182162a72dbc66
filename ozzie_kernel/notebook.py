"""The note that a notebook carries of its session, read from its file (NB-15). Only ever read: a page writes it."""

import json
from pathlib import Path
from typing import Any

from ozzie_server_ext.domain.ids import is_session_id

MAX_BYTES = 64 << 20
"""A larger notebook takes longer to read than a person waits for a kernel; it has its session by its path."""


def noted_session(path: str) -> str:
    """The session in the metadata of the notebook at `path`; empty where there is no such notebook or no such note."""
    try:
        file = Path(path)
        if not path.endswith(".ipynb") or not file.is_file() or file.stat().st_size > MAX_BYTES:
            return ""
        notebook: Any = json.loads(file.read_bytes())
        noted = notebook["metadata"]["ozzie"]["session"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return ""
    return noted if isinstance(noted, str) and is_session_id(noted) else ""
