"""Which providers have just failed, so that the turns that follow ask others first (MD-4)."""

from dataclasses import dataclass

from ozzie_server_ext.domain.clock import Clock

MAX_COOL_DOWN_S = 3600.0


@dataclass(frozen=True, slots=True)
class CoolDown:
    """Until when, in monotonic seconds, a provider is asked last, and the code of the failure that told so. `told`: the
    provider itself has asked for that pause."""

    until: float
    code: str
    told: bool


class Health:
    """The cool-downs of all turns of this gateway. They are kept in memory: a new gateway asks everybody again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cooling: dict[str, CoolDown] = {}

    def failed(self, provider: str, code: str, *, for_s: float, told: bool = False) -> None:
        """Ask it last for so many seconds. What it was asked to wait before is never cut short."""
        until = self._clock.monotonic() + min(for_s, MAX_COOL_DOWN_S)
        before = self.cooling(provider)
        if before is None or before.until < until:
            self._cooling[provider] = CoolDown(until, code, told)

    def answered(self, provider: str) -> None:
        self._cooling.pop(provider, None)

    def cooling(self, provider: str) -> CoolDown | None:
        """Its cool-down; None where it may be asked."""
        found = self._cooling.get(provider)
        if found is not None and found.until <= self._clock.monotonic():
            del self._cooling[provider]
            return None
        return found

    def cooling_s(self, provider: str) -> float:
        """Seconds until its cool-down ends; 0 where it may be asked."""
        found = self.cooling(provider)
        return 0.0 if found is None else found.until - self._clock.monotonic()

    def busy_s(self, provider: str) -> float:
        """Seconds for which it has asked to be left alone; 0 where it has not."""
        found = self.cooling(provider)
        return self.cooling_s(provider) if found is not None and found.told else 0.0

    def forget(self) -> None:
        """The configuration or a key has changed: what failed before may work now."""
        self._cooling.clear()
