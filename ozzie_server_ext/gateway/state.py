"""What the handlers of one server share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway.access import AccessTokens
from ozzie_server_ext.gateway.services import Services


@dataclass(slots=True)
class GatewayState:
    """`ozzie` is there while this server owns its home; otherwise `failure` says why it is not."""

    access: AccessTokens = field(default_factory=AccessTokens)
    ozzie: Services | None = None
    failure: OzzieError | None = None
    clients: int = 0
    headless: bool = False
    """Whether this server was started for Ozzie alone, so that it may be stopped by `ozzie gateway --stop`."""
    on_failure: Callable[[OzzieError], None] = lambda error: None
    """Told when Ozzie can't start in this server; a server that hosts nothing else ends then."""

    def fail(self, error: OzzieError) -> None:
        """Remember why there is no Ozzie here."""
        self.failure = error
        self.on_failure(error)

    def require(self) -> Services:
        """Raises the failure, or Unavailable while the gateway starts or stops."""
        if self.ozzie is None:
            raise self.failure or Unavailable("Ozzie is starting or stopping.", hint="Try again in a moment.")
        return self.ozzie
