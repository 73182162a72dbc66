"""The one path by which a tool runs. What happens to a call on it, step by step, stands in `call.py`."""

from collections.abc import Callable

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.events import EventBody, ToolUse, Transient
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.policy.engine import Rulings
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.call import Begun, CallPosition, GateCall, GateParts
from ozzie_server_ext.tools.outcome import Telling
from ozzie_server_ext.tools.permissions import Earlier, Permissions
from ozzie_server_ext.tools.registry import ToolRegistry

__all__ = ["Begun", "CallPosition", "ToolBroker"]


def _to_nobody(transient: Transient) -> None:
    """Where nobody looks."""


class ToolBroker:
    """Enforces what was decided. Results and failures go to the log, and the model reads them from there."""

    def __init__(
        self,
        registry: ToolRegistry,
        rulings: Rulings,
        permissions: Permissions,
        telling: Telling,
        artifacts: ArtifactStore,
        clock: Clock,
        ids: IdSource,
        publish: Callable[[Transient], None] = _to_nobody,
    ) -> None:
        """`publish` shows what tools say while they run."""
        self._parts = GateParts(
            registry=registry,
            rulings=rulings,
            permissions=permissions,
            telling=telling,
            artifacts=artifacts,
            clock=clock,
            ids=ids,
            publish=publish,
        )

    async def call(
        self,
        use: ToolUse,
        place: CallPosition,
        context: ToolContext,
        recorder: Recorder,
        earlier: Earlier | None = None,
        begun: Begun | None = None,
    ) -> tuple[EventBody, ...]:
        """Carry out one call that the model asked for, or record why not. Cancelling records that too. `earlier`: what
        a person was asked for it before; `begun`: what it was in the middle of when a gateway ended. All that is
        recorded bears the labels of what the call is made from, `context.reading`; its outcome, whichever it is, bears
        those of all that the call read as well.

        Where a person has to be asked first, or a second model, nothing is recorded: the facts that ask are returned,
        to be recorded together with those of other calls, and the call is made anew once there is an answer. Of a call
        that is a question itself, the answer is the outcome.

        Raises ToolUncertain where nobody can say whether it was done; that is recorded before. That is so too where a
        call that was begun with a key is refused or fails when it is made again: it may have been done the first time.
        """
        return await GateCall(self._parts, use, place, context, recorder, earlier, begun).carry_out()

    async def happened(self, tool_id: str, effect: JsonObject, context: ToolContext) -> bool | None:
        """Whether a run with that effect, which a crash cut off, was done; None where that can't be known."""
        tool = self._parts.registry.find(tool_id)
        return None if tool is None else await self._parts.happened(tool, effect, context)

    async def put_off(self, use: ToolUse, place: CallPosition, recorder: Recorder) -> None:
        """Record of a call that it is not made, because it stands behind one that changes something: the model is to
        see what came of that first."""
        tool = self._parts.registry.find(use.name)
        requested = self._parts.requested(use, place, CallId(self._parts.ids.new()), tool, {})
        words = "Not done: one change at a time. Look at what came of it, then ask again."
        why = PolicyError(words, code="tool.put_off")
        await recorder.append(requested, self._parts.telling.failure(requested.call_id, why, 0.0))
