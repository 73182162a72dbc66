"""Standing failures of the store: noted when something could not be written, removed once that works again."""

from collections.abc import Awaitable, Callable

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.disk import LITTLE, NONE_LEFT, free_bytes
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.store.log import DamagedStore, LogClosed, OwnerLost

Probe = Callable[[], Awaitable[None]]
"""Writes something meaningless; raises what prevents it."""


class Troubles:
    """The last failure of each part of the store."""

    def __init__(self) -> None:
        self._standing: dict[str, tuple[Unavailable, Probe]] = {}

    def failed(self, part: str, error: Exception, probe: Probe) -> None:
        """Note that `part` failed; `probe` finds out whether it works again."""
        if isinstance(error, Unavailable) and not isinstance(error, OwnerLost | LogClosed):
            self._standing[part] = error, probe

    def worked(self, part: str) -> None:
        """Note that `part` works."""
        if self._standing and part in self._standing and not isinstance(self._standing[part][0], DamagedStore):
            del self._standing[part]

    async def look(self) -> list[OzzieError]:
        """Try every part that failed again; return what still fails. Damage stands until the next start."""
        for part, (_, probe) in list(self._standing.items()):
            try:
                await probe()
            except Exception as error:
                self.failed(part, error, probe)
            else:
                self.worked(part)
        return [error for error, _ in self._standing.values()]


def space_warning(home: Home) -> str:
    """Return a warning that little room is left for `home`; "" if there is enough."""
    free = free_bytes(home.database.parent)
    if free is None or free >= LITTLE:
        return ""
    if free < NONE_LEFT:
        return f"The disk of {home.database.parent} is full: free some disk space."
    return f"The disk of {home.database.parent} has only {free / (1 << 20):.1f} MB left: free some disk space."
