"""The outcome of a replay, as clients get it."""

from typing import Literal, TypeAlias

import msgspec

Cause: TypeAlias = Literal["prompt", "rules", "skill", "tools", "configuration", "code"]
"""What has changed since, as far as it explains the difference."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a replay of a session with so many `events`, of which the first `same` came out as they were.

    If one did not: it is of the turn `turn` (from 1), at `position` of the log (None if more would be recorded than
    was); its type was `then_type`, and would be `now_type`, empty if nothing was or would be recorded; `field` differs,
    from `then` to `now`, both as JSON, shortened; and `cause` explains it. `missing` says what the log lacks for the
    rest, or is empty. `sentence` is all of it in words.
    """

    events: int
    same: int
    sentence: str
    turn: int | None = None
    position: int | None = None
    then_type: str = ""
    now_type: str = ""
    field: str = ""
    then: str = ""
    now: str = ""
    cause: Cause | None = None
    missing: str = ""

    @property
    def is_same(self) -> bool:
        """Whether all came out as it was recorded."""
        return self.cause is None and not self.missing
