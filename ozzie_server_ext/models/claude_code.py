"""The token of a Claude Code that is installed here, for `"auth": {"type": "claude_code_token"}` (S0 §6.4).

It is read where that program keeps it, at each call, because the program renews it there. Ozzie never renews it: two
programs with one refresh token would log each other out.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"
"""Of a token that `claude setup-token` made; it goes before the file, as in Claude Code itself."""

FILE = ".credentials.json"
MAX_BYTES = 65_536
MARGIN_S = 60.0


class MissingToken(Exception):
    """There is no token that can be used; the text says why. `ended`: there was one."""

    def __init__(self, reason: str, *, ended: bool = False) -> None:
        super().__init__(reason)
        self.ended = ended


def token_file(env: Mapping[str, str]) -> Path:
    """Where Claude Code keeps its token on Linux; on macOS it lies in the keychain, and only the variable helps."""
    folder = env.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path(env.get("HOME") or Path.home()) / ".claude") / FILE


def claude_code_token(env: Mapping[str, str], *, now: Callable[[], float] = time.time) -> str:
    """Raises MissingToken."""
    if token := env.get(VARIABLE, "").strip():
        return token
    file = token_file(env)
    try:
        with file.open("rb") as opened:
            found: Any = json.loads(opened.read(MAX_BYTES))
    except FileNotFoundError:
        raise MissingToken(f"there is no {file}") from None
    except (OSError, ValueError, RecursionError):
        raise MissingToken(f"{file} can't be read") from None
    login: Any = found.get("claudeAiOauth") if isinstance(found, dict) else None
    kept: dict[str, Any] = login if isinstance(login, dict) else {}
    token, ends_ms = kept.get("accessToken"), kept.get("expiresAt")
    if not isinstance(token, str) or not token:
        raise MissingToken(f"{file} holds none")
    if isinstance(ends_ms, int | float) and ends_ms / 1000 < now() + MARGIN_S:
        raise MissingToken(f"the one in {file} has ended", ended=True)
    return token
