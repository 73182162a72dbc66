"""Who is asking, beside Jupyter's own users: holders of the handshake's token, and kernels with one of their own.

A kernel's token is bound to one kernel and one session, and dies with the kernel's connection.
"""

import getpass
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.tasks.approvals import Answerer

_HEADER = re.compile(r"(?:token|bearer)\s+(\S{20,200})", re.IGNORECASE)
MAX_KERNEL_TOKENS = 1000
ON_BEHALF_OF = "Ozzie-User"
ROOT = "Ozzie-Root"
"""The headers in which an attached server says who asks, and in which folder the paths begin that its pages name
(ADR 11). They count with the local token only, and are percent-encoded UTF-8: headers are ASCII."""
_MAX_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller. `session_id` is the one session that a kernel may touch; None: any. `root` is where the
    paths begin that a page of an attached server names; None: in the project folder."""

    kind: Literal["user", "local", "kernel"]
    name: str
    kernel_id: str = ""
    session_id: SessionId | None = None
    root: Path | None = None


def answerer_of(principal: Principal) -> Answerer:
    """Who answers an approval: a kernel for its own session alone, anybody else for all of them."""
    return Answerer(name=principal.name, way=_way(principal), session_id=principal.session_id)


def _way(principal: Principal) -> AuthStrength:
    match principal.kind:
        case "kernel":
            return AuthStrength.RELAY
        case "user":
            return AuthStrength.BROWSER
        case "local":
            # An attached server relays its pages with the gateway's own token, and says where their paths begin.
            return AuthStrength.CLI if principal.root is None else AuthStrength.BROWSER


class AccessTokens:
    """The tokens that this gateway itself gave out. They live in memory only and end with the process."""

    def __init__(self) -> None:
        self.local_token = secrets.token_urlsafe(32)
        self._kernels: dict[str, Principal] = {}

    def issue_kernel_token(self, kernel_id: str, session_id: SessionId) -> str:
        """A fresh token for one kernel and one session; an earlier one of that kernel ends."""
        self.revoke_kernel(kernel_id)
        while len(self._kernels) >= MAX_KERNEL_TOKENS:
            self._kernels.pop(next(iter(self._kernels)))
        token = secrets.token_urlsafe(32)
        self._kernels[token] = Principal(kind="kernel", name=_user_name(), kernel_id=kernel_id, session_id=session_id)
        return token

    def revoke_kernel(self, kernel_id: str) -> None:
        for token in [token for token, holder in self._kernels.items() if holder.kernel_id == kernel_id]:
            del self._kernels[token]

    def revoke_kernels(self) -> None:
        """End those of all kernels: they stand for sessions of an Ozzie that this server does not have any more."""
        self._kernels.clear()

    def revoke(self, principal: Principal) -> None:
        """End the token that this kernel came with; one that it was given since stays."""
        for token in [token for token, holder in self._kernels.items() if holder is principal]:
            del self._kernels[token]

    def holder(self, authorization: str, *, on_behalf_of: str = "", root: str = "") -> Principal | None:
        """Who an `Authorization` header stands for; None where it is none of ours. `on_behalf_of` and `root` are what
        stands in those headers."""
        match = _HEADER.fullmatch(authorization.strip())
        if match is None:
            return None
        given = match.group(1).encode()
        if hmac.compare_digest(given, self.local_token.encode()):
            return Principal(
                kind="local",
                name=unquote(on_behalf_of)[:_MAX_NAME] or _user_name(),
                root=Path(unquote(root)) if root else None,
            )
        for token, principal in self._kernels.items():
            if hmac.compare_digest(given, token.encode()):
                return principal
        return None


def behalf_headers(name: str, root: Path) -> dict[str, str]:
    """What an attached server says of a user who asks it."""
    return {
        ON_BEHALF_OF: quote(name[:_MAX_NAME], safe="", errors="replace"),
        ROOT: quote(str(root), safe="/", errors="replace"),
    }


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "user"
