"""The state that all handlers of one server share."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway.access import AccessTokens
from ozzie_server_ext.gateway.page_notebooks import PageNotebooks
from ozzie_server_ext.gateway.relay import Relay
from ozzie_server_ext.gateway.services import Services

SERVICE_RESTART = 1012
"""Close code of a WebSocket whose gateway stops: another is or will be there (RFC 6455, IANA's registry)."""


class Connection(Protocol):
    """An open WebSocket."""

    def close(self, code: int | None = None, reason: str | None = None) -> None: ...


class Reporter(Protocol):
    """Reports this server's relation to Ozzie, in its log or on its terminal."""

    def say(self, sentence: str) -> None:
        """Report a change that needs no action."""
        ...

    def warn(self, sentence: str) -> None: ...

    def failed(self, error: OzzieError) -> None:
        """Report that Ozzie doesn't run in this server. After a retry, the same reason is reported once."""
        ...


class GatewayState(msgspec.Struct):
    """`ozzie` is set while this server owns its home, `relay` while it is attached to the owner; otherwise `failure`
    says why neither is."""

    access: AccessTokens = msgspec.field(default_factory=AccessTokens)
    ozzie: Services | None = None
    relay: Relay | None = None
    failure: OzzieError | None = None
    connections: set[Connection] = msgspec.field(default_factory=set[Connection])
    pages: PageNotebooks = msgspec.field(default_factory=PageNotebooks)
    headless: bool = False
    """Whether this server was started for Ozzie alone, so that `ozzie gateway --stop` may stop it."""
    temporary: bool = False
    """Whether a kernel or a command started it for a while: it gives way to any server that a person starts, and never
    attaches."""
    on_failure: Callable[[OzzieError], None] = lambda error: None
    """Called if Ozzie can't start in this server; a server that hosts nothing else then ends."""
    reporter: Reporter | None = None
    """Where to report; None: Jupyter's log."""

    @property
    def clients(self) -> int:
        """The number of open connections."""
        return len(self.connections)

    def own(self, ozzie: Services) -> None:
        """Answer requests from now on; clients that were connected through this server reconnect."""
        self._leave()
        self.ozzie = ozzie

    def attach(self, relay: Relay) -> None:
        """Relay requests from now on."""
        self._leave()
        self.relay = relay

    def fail(self, error: OzzieError) -> None:
        """Record why Ozzie is not here."""
        self._leave()
        self.failure = error

    def stop(self) -> None:
        """Stop answering; connected clients are told to reconnect elsewhere."""
        self._leave()

    def require(self) -> Services:
        """Return Ozzie. Raises the failure, or Unavailable while the gateway starts or stops."""
        if self.ozzie is None:
            raise self.failure or Unavailable("Ozzie is starting or stopping.", hint="Try again in a moment.")
        return self.ozzie

    def _leave(self) -> None:
        if self.relay is not None:
            self.relay.close()
        self.ozzie = self.relay = self.failure = None
        self.access.revoke_kernels()
        for connection in list(self.connections):
            connection.close(SERVICE_RESTART, "The gateway goes.")
