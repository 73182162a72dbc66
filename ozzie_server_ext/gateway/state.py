"""What the handlers of one server share."""

from dataclasses import dataclass, field

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway.access import AccessTokens


@dataclass(slots=True)
class GatewayState:
    """`ozzie` is there while this server owns its home; otherwise `failure` says why it is not."""

    access: AccessTokens = field(default_factory=AccessTokens)
    ozzie: Ozzie | None = None
    failure: OzzieError | None = None
    clients: int = 0

    def require(self) -> Ozzie:
        """Raises the failure, or Unavailable while the gateway starts or stops."""
        if self.ozzie is None:
            raise self.failure or Unavailable("Ozzie is starting or stopping.", hint="Try again in a moment.")
        return self.ozzie
