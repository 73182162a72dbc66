"""The hosts that a person grants a server or a plugin."""

import msgspec

from ozzie_server_ext.policy.patterns import HostPattern, canonical_host

PORTS = (80, 443)
"""Those of the web, which a grant without a port is for."""


class HostGrant(msgspec.Struct, frozen=True):
    """`api.example.org`: this host at the ports of the web; `*.example.org`: all below it; `*`: any host of the
    internet; with a port, that port alone: `localhost:8080`. Only a grant of one host with its port (`is_exact`) leads
    into a private network."""

    pattern: HostPattern | None
    port: int | None

    @classmethod
    def of(cls, text: str) -> "HostGrant":
        """Raises ValueError with a message for whoever wrote it."""
        host, between, port = text.rpartition(":")
        if not between or not port.isdigit():
            host, port = text, ""
        if port and not 0 < int(port) < 65536:
            raise ValueError(f'"{text}" has no port between 1 and 65535')
        pattern = None if host == "*" else HostPattern.of(host)
        if pattern is not None and pattern.network is not None and pattern.network.num_addresses > 1:
            raise ValueError(f'"{text}" is a network: name hosts')
        return cls(pattern, int(port) if port else None)

    @property
    def is_exact(self) -> bool:
        return self.pattern is not None and not self.pattern.below and self.port is not None

    def covers(self, host: str, port: int) -> bool:
        """Whether a connection to this host and port was granted."""
        if port != self.port if self.port is not None else port not in PORTS:
            return False
        if self.pattern is None:
            return True
        found = canonical_host(host)
        return found is not None and self.pattern.matches(found)
