"""Draws the real card of a pending approval for whoever may answer it, from the recorded call."""

from collections.abc import Callable

import msgspec

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import ToolCallRequested
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.approvals import Approvals
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.cards import Card, changed, draw
from ozzie_server_ext.tools.registry import ToolRegistry


class Cards:
    """Those of all approvals. `context_of` is what the tools are given that are called for a task."""

    def __init__(
        self,
        log: EventLog,
        approvals: Approvals,
        registry: ToolRegistry,
        context_of: Callable[[Row, Recorder], ToolContext],
    ) -> None:
        self._log = log
        self._approvals = approvals
        self._registry = registry
        self._context_of = context_of

    async def of(self, approval_id: str) -> Card:
        """Return all that a person has to read before they answer. Nothing of it is recorded or kept.

        Raises NotFound, and Conflict if it waits for no answer, or if the call would do something else by now.
        """
        approval = await self._approvals.get(approval_id)
        asked = approval.asked
        if approval.status != "pending":
            raise Conflict("It waits for no answer, so there is nothing to read.", code="approval.ended")
        tool = self._registry.find(asked.tool_id)
        rows = await self._log.rows("tasks", where={"task_id": approval.task_id}, limit=1)
        events = await self._log.read_stream(task_stream(approval.task_id))
        calls = (event.body for event in events if isinstance(event.body, ToolCallRequested))
        call = next((each for each in calls if each.call_id == asked.call_id), None)
        if tool is None or call is None or not rows:
            raise changed("The call, or its tool, is gone.")
        recorder = Recorder(log=self._log, session_id=approval.session_id, task_id=approval.task_id)
        context = msgspec.structs.replace(self._context_of(rows[0], recorder), key=asked.key)
        return await draw(tool, call.args, asked, context)
