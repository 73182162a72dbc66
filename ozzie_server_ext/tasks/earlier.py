"""What a cell's session did before: told once after a kernel's start, before cells are run a second time (NB-14)."""

from dataclasses import dataclass

from ozzie_server_ext.domain.events import MessageReceived, ToolCallRequested, ToolCallStarted
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.toolmeta import SideEffect
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tools.registry import ToolRegistry

MOST_LOOKED_AT = 1000
"""Messages, and calls of tools, that are looked at, the newest ones."""

_UNKNOWN = "a tool that is not known any more"
"""Its request was erased, or lies further back than is looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The turns of a session's cells. `turns` counts them, `last_at` is the time of the newest (RFC 3339); `effects`
    names the tools of them that changed something, each with how often it was begun."""

    turns: int
    last_at: str
    effects: dict[str, int]


class EarlierRuns:
    """Looks cells up in the log."""

    def __init__(self, log: EventLog, registry: ToolRegistry) -> None:
        self._log = log
        self._registry = registry

    async def of_cell(self, session_id: SessionId, cell_id: str) -> Earlier | None:
        """What the session's cells did, where the cell `cell_id` is one that was run in it before; else None."""
        messages = await self._log.read(
            types=frozenset({MessageReceived.type}), session_id=session_id, limit=MOST_LOOKED_AT, newest_first=True
        )
        cells = [event for event in messages if isinstance(event.body, MessageReceived) and event.body.origin.cell_id]
        if not any(isinstance(event.body, MessageReceived) and event.body.origin.cell_id == cell_id for event in cells):
            return None
        return Earlier(
            turns=len(cells),
            last_at=time_text(cells[0].ts),
            effects=await self._effects(session_id, frozenset(event.task_id for event in cells)),
        )

    async def _effects(self, session_id: SessionId, tasks: frozenset[str | None]) -> dict[str, int]:
        calls = await self._log.read(
            types=frozenset({ToolCallRequested.type, ToolCallStarted.type}),
            session_id=session_id,
            limit=2 * MOST_LOOKED_AT,
            newest_first=True,
        )
        requested = {event.body.call_id: event.body for event in calls if isinstance(event.body, ToolCallRequested)}
        begun: dict[str, int] = {}
        for event in reversed(calls):
            if isinstance(event.body, ToolCallStarted) and event.task_id in tasks:
                call = requested.get(event.body.call_id)
                name = _UNKNOWN if call is None else call.name
                if call is None or self._changes_something(call.tool_id):
                    begun[name] = begun.get(name, 0) + 1
        return begun

    def _changes_something(self, tool_id: str) -> bool:
        """A tool that is here no more may have done anything."""
        tool = self._registry.find(tool_id)
        return tool is None or tool.meta.side_effect is not SideEffect.NONE
