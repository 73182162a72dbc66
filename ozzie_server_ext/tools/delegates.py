"""The port by which a call is handed over to a skill (AG-3). What carries it out lies above the tools."""

from typing import Protocol

from ozzie_server_ext.domain.content import Provenance
from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.policy.reading import Reading


class Delegates(Protocol):
    """Those of one task."""

    @property
    def waiting(self) -> int:
        """How many calls wait for what they have handed over."""
        ...

    async def carry_out(
        self, skill: str, given: JsonObject, *, key: str, reading: Reading, provenance: Provenance
    ) -> ToolResult:
        """Return what the skill gives. `reading` is what the input is made from; with the same `key`, it is the same
        work, which goes on where a crash cut it off. What the skill read is added to `provenance`, whatever it comes
        to. Cancelling stops it.

        Raises ToolFailed if it came to nothing, PolicyError if no more may be handed over.
        """
        ...


class NoDelegates:
    """Of what runs outside of any task."""

    waiting = 0

    async def carry_out(
        self, skill: str, given: JsonObject, *, key: str, reading: Reading, provenance: Provenance
    ) -> ToolResult:
        raise PolicyError("Nothing can be handed over to a skill here.", code="skill.not_here")
