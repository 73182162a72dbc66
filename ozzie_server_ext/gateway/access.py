"""Who asks and how strong their answers are: Jupyter's own users, the handshake's token, and one for each kernel.

A kernel's token is bound to one kernel and one session, and ends with the kernel's connection.
"""

import getpass
import hmac
import re
import secrets
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

import msgspec

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.tasks.approvals import Answerer

_HEADER = re.compile(r"(?:token|bearer)\s+(\S{20,200})", re.IGNORECASE)
MAX_KERNEL_TOKENS = 1000
ON_BEHALF_OF = "Ozzie-User"
ROOT = "Ozzie-Root"
"""Headers by which an attached server names the user and the folder that its pages' paths are relative to (ADR 11).
They count only with the local token, and are percent-encoded UTF-8, because headers are ASCII."""
_MAX_NAME = 256


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated caller; a `client` is let in at `/ozzie/mcp` alone. `session_id` is the only session that a
    kernel may touch; None: any. `root` is the folder that paths from an attached server's page are relative to; None:
    the project folder."""

    kind: Literal["user", "local", "kernel", "client"]
    name: str
    kernel_id: str = ""
    session_id: SessionId | None = None
    root: Path | None = None


def answerer_of(principal: Principal) -> Answerer:
    """Return the caller as someone who answers approvals: a kernel for its own session only, others for all."""
    return Answerer(name=principal.name, way=_way(principal), session_id=principal.session_id)


def _way(principal: Principal) -> AuthStrength:
    match principal.kind:
        case "kernel" | "client":
            return AuthStrength.RELAY
        case "user":
            return AuthStrength.BROWSER
        case "local":
            # An attached server relays its pages with the gateway's own token and sends their root.
            return AuthStrength.CLI if principal.root is None else AuthStrength.BROWSER


class AccessTokens:
    """The tokens that this gateway issued. They exist in memory only."""

    def __init__(self) -> None:
        self.local_token = secrets.token_urlsafe(32)
        self._kernels: dict[str, Principal] = {}

    def issue_kernel_token(self, kernel_id: str, session_id: SessionId) -> str:
        """Issue a token for one kernel and one session; the kernel's earlier token ends."""
        self.revoke_kernel(kernel_id)
        while len(self._kernels) >= MAX_KERNEL_TOKENS:
            self._kernels.pop(next(iter(self._kernels)))
        token = secrets.token_urlsafe(32)
        self._kernels[token] = Principal(kind="kernel", name=account_name(), kernel_id=kernel_id, session_id=session_id)
        return token

    def revoke_kernel(self, kernel_id: str) -> None:
        for token in [token for token, holder in self._kernels.items() if holder.kernel_id == kernel_id]:
            del self._kernels[token]

    def revoke_kernels(self) -> None:
        """End all kernels' tokens: their sessions belong to an Ozzie that this server no longer has."""
        self._kernels.clear()

    def revoke(self, principal: Principal) -> None:
        """End the token that this kernel used; one issued since then stays."""
        for token in [token for token, holder in self._kernels.items() if holder is principal]:
            del self._kernels[token]

    def holder(self, authorization: str, *, on_behalf_of: str = "", root: str = "") -> Principal | None:
        """Return the caller behind an `Authorization` header, or None for a foreign token. `on_behalf_of` and `root`
        are the values of those headers."""
        match = _HEADER.fullmatch(authorization.strip())
        if match is None:
            return None
        given = match.group(1).encode()
        if hmac.compare_digest(given, self.local_token.encode()):
            return Principal(
                kind="local",
                name=unquote(on_behalf_of)[:_MAX_NAME] or account_name(),
                root=Path(unquote(root)) if root else None,
            )
        for token, principal in self._kernels.items():
            if hmac.compare_digest(given, token.encode()):
                return principal
        return None


def behalf_headers(name: str, root: Path) -> dict[str, str]:
    """Return the headers by which an attached server names a user."""
    return {
        ON_BEHALF_OF: quote(name[:_MAX_NAME], safe="", errors="replace"),
        ROOT: quote(str(root), safe="/", errors="replace"),
    }


def account_name() -> str:
    """Return the name of the account that the server runs as."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "user"
