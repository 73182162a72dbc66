"""Whether a task works, by what is recorded of it (MD-5): not while it waits for a person, for its turn, for a gateway
to take it up again, for its next attempt, or for what it has handed over to skills, which counts by itself.
"""

from ozzie_server_ext.domain.events import (
    Event,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.toolmeta import SKILLS

RECOVERY = "recovery"
"""The source of what is recorded as a task is taken up again, long after it was cut off."""

_RESTS = (
    TaskWaitingInput,
    TaskWaitingApproval,
    TaskPaused,
    TaskSucceeded,
    TaskFailed,
    TaskCancelled,
    TaskQueued,
)
_CALL_ENDS = (ToolCallCompleted, ToolCallFailed, ToolCallCancelled, ToolCallUncertain)


class Work:
    """Whether a task works, by its events one after the other."""

    def __init__(self) -> None:
        self._runs = False
        self._open: set[CallId] = set()
        self._handing_over: set[CallId] = set()

    @property
    def goes_on(self) -> bool:
        """One whose only open calls hand something over waits for that."""
        return self._runs and not (self._open and self._open <= self._handing_over)

    def take(self, event: Event) -> None:
        match event.body:
            case TaskStarted():
                self._runs = True
            case body if isinstance(body, _RESTS):
                self._runs = False
                self._open.clear()  # what is made again is begun again
            case ToolCallRequested(call_id=call_id, tool_id=tool_id) if tool_id.startswith(SKILLS):
                self._handing_over.add(call_id)
            case ToolCallStarted(call_id=call_id):
                self._open.add(call_id)
            case ToolCallCancelled(call_id=call_id) if call_id in self._handing_over:
                pass  # whoever stops the turn, or lets go of it, does that: it does not go on from here
            case body if isinstance(body, _CALL_ENDS):
                self._open.discard(body.call_id)
            case _:
                pass
