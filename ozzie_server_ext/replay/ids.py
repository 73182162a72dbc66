"""The ids of a replay, which differ from those of the record, and which of them stands for which."""

import re
from collections.abc import Set

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Ids:
    """Which id of the replay (`now`) stands for which one of the record (`then`): one for one, as far as events of both
    were found to be equal. An id that both have stands for itself.

    Two texts are equal up to ids if they are equal once each id is replaced by the one that stands for it; the first
    event with a new id says which one that is.
    """

    def __init__(self, recorded: Set[str]) -> None:
        """`recorded` are all ids of the record."""
        self._recorded = recorded
        self._then: dict[str, str] = {}
        self._now: dict[str, str] = {}

    def then(self, text: str) -> str:
        """Return a text of the replay with the ids of the record."""
        return _ULID.sub(lambda found: self._then.get(found[0], found[0]), text) if self._then else text

    def now(self, text: str) -> str:
        """Return a text of the record with the ids of the replay."""
        return _ULID.sub(lambda found: self._now.get(found[0], found[0]), text) if self._now else text

    def compare(self) -> "Comparison":
        """Begin to compare the texts of one event with those of the recorded one."""
        return Comparison(self._recorded, self._then, self._now)


class Comparison:
    """What is learned of ids while two events are compared, on top of what is known."""

    def __init__(self, recorded: Set[str], then: dict[str, str], now: dict[str, str]) -> None:
        self._recorded = recorded
        self._known_then = then
        self._known_now = now
        self._then: dict[str, str] = {}
        self._now: dict[str, str] = {}

    def are_equal(self, now: str, then: str) -> bool:
        """Whether two texts are equal up to ids."""
        if now == then:  # an id that both have stands for itself
            return True
        if len(now) != len(then):
            return False
        of_now, of_then = list(_ULID.finditer(now)), list(_ULID.finditer(then))
        if not of_now or len(of_now) != len(of_then):
            return now == then
        if [each.start() for each in of_now] != [each.start() for each in of_then]:
            return False
        if _ULID.sub("", now) != _ULID.sub("", then):
            return False
        return all(self._stands_for(a[0], b[0]) for a, b in zip(of_now, of_then, strict=True))

    def keep(self) -> None:
        """Take the two events for equal, and so what was learned for true."""
        self._known_then |= self._then
        self._known_now |= self._now

    def _stands_for(self, now: str, then: str) -> bool:
        known = self._then.get(now) or self._known_then.get(now)
        if known is not None or now == then:
            return (known or now) == then
        if then in self._now or then in self._known_now or now in self._recorded:
            return False
        self._then[now], self._now[then] = then, now
        return True


def ids_in(text: str) -> set[str]:
    """Return all ids in a text."""
    return set(_ULID.findall(text))
