"""What the handlers of one server share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway.access import AccessTokens
from ozzie_server_ext.gateway.page_notebooks import PageNotebooks
from ozzie_server_ext.gateway.relay import Relay
from ozzie_server_ext.gateway.services import Services

SERVICE_RESTART = 1012
"""The close code of a WebSocket whose gateway goes: another is there, or soon will be (RFC 6455, IANA's registry)."""


class Connection(Protocol):
    """An open WebSocket."""

    def close(self, code: int | None = None, reason: str | None = None) -> None: ...


class Teller(Protocol):
    """Where a server tells in sentences how it stands with Ozzie: its log, or the terminal that it runs in."""

    def say(self, sentence: str) -> None:
        """Something changed, and all is well."""
        ...

    def warn(self, sentence: str) -> None: ...

    def failed(self, error: OzzieError) -> None:
        """Ozzie does not run in this server. It may be tried again, and then this is told once for each reason."""
        ...


@dataclass(slots=True)
class GatewayState:
    """`ozzie` is there while this server owns its home, `relay` while it is attached to the one that does; otherwise
    `failure` says why neither is."""

    access: AccessTokens = field(default_factory=AccessTokens)
    ozzie: Services | None = None
    relay: Relay | None = None
    failure: OzzieError | None = None
    connections: set[Connection] = field(default_factory=set[Connection])
    pages: PageNotebooks = field(default_factory=PageNotebooks)
    headless: bool = False
    """Whether this server was started for Ozzie alone, so that it may be stopped by `ozzie gateway --stop`."""
    temporary: bool = False
    """Whether a kernel or a command started it for a while: it leaves its home to any server that a person starts, and
    is attached to none."""
    on_failure: Callable[[OzzieError], None] = lambda error: None
    """Told when Ozzie can't start in this server; a server that hosts nothing else ends then."""
    teller: Teller | None = None
    """Where to tell how this server stands; None for Jupyter's log."""

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self.connections)

    def own(self, ozzie: Services) -> None:
        """Answer from now on; who was connected elsewhere through this server connects anew."""
        self._leave()
        self.ozzie = ozzie

    def attach(self, relay: Relay) -> None:
        """Hand on from now on what is asked."""
        self._leave()
        self.relay = relay

    def fail(self, error: OzzieError) -> None:
        """Remember why there is no Ozzie here."""
        self._leave()
        self.failure = error

    def stop(self) -> None:
        """Answer no more; who is connected is told to go elsewhere."""
        self._leave()

    def require(self) -> Services:
        """Raises the failure, or Unavailable while the gateway starts or stops."""
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
