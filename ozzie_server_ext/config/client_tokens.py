"""The tokens of MCP clients. A token opens `/ozzie/mcp` and nothing else: who has it can answer no approval.

The file has their hashes alone.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping

from ozzie_server_ext.config.files import locked, replace_file
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, content_if_there
from ozzie_server_ext.domain.errors import InputError

BEGINNING = "ozzie-mcp-"
MOST_TOKENS = 100
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_HEADER = re.compile(rf"(?:token|bearer)\s+({BEGINNING}\S{{20,200}})", re.IGNORECASE)


def issue_token(home: Home, name: str) -> str:
    """Return a new token for the client of this name; an earlier one of that name ends. Raises InputError for a name
    that is none, ConfigError."""
    if _NAME.fullmatch(name) is None:
        raise InputError("A client's name has up to 32 small letters, digits and -.", hint="As in: claude-code")
    token = f"{BEGINNING}{secrets.token_urlsafe(32)}"
    home.create()
    with locked(home.client_tokens_file):
        known = token_hashes(home) | {name: _hash(token)}
        if len(known) > MOST_TOKENS:
            raise InputError(
                f"There are {MOST_TOKENS} tokens already.", hint="Revoke one: ozzie mcp token --revoke NAME"
            )
        _write(home, known)
    return token


def revoke_token(home: Home, name: str) -> bool:
    """End the token of this client; return False if there is none. Raises ConfigError."""
    with locked(home.client_tokens_file):
        known = token_hashes(home)
        found = known.pop(name, None) is not None
        if found:
            _write(home, known)
    return found


def client_of(home: Home, authorization: str) -> str | None:
    """Return the name of the client whose token this header has, or None. No file is read for other tokens."""
    match = _HEADER.fullmatch(authorization.strip())
    if match is None:
        return None
    given = _hash(match[1])
    try:
        known = token_hashes(home)
    except ConfigError:  # a damaged list lets nobody in
        return None
    return next((name for name, hashed in known.items() if hmac.compare_digest(hashed, given)), None)


def token_hashes(home: Home) -> dict[str, str]:
    """Return the hashes of all tokens by the names of their clients. Raises ConfigError for a damaged file."""
    content = content_if_there(home.client_tokens_file)
    if content is None:
        return {}
    try:
        found = json.loads(content)["clients"]
        return {str(name): str(hashed) for name, hashed in found.items()}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ConfigError(
            f"{home.client_tokens_file} is damaged.", hint="Remove it, and give the clients new tokens."
        ) from None


def _write(home: Home, known: Mapping[str, str]) -> None:
    document = {"clients": {name: known[name] for name in sorted(known)}}
    replace_file(home.client_tokens_file, json.dumps(document, indent=1).encode())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
