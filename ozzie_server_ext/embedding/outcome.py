"""What came of a call, read from what was recorded of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import ArtifactId, CallId
from ozzie_server_ext.domain.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`status` says which:

    - `done`: `data` is the result, without secrets; of a large one its beginning and end, and the whole is the first of
      `artifacts`.
    - `asked`: nothing was done; `asked` is what a person is shown, and names the approval.
    - `failed`: nothing was done, or the tool says that it could not. `code` and `message` tell why.
    - `uncertain`: it was begun, and nobody knows whether it was done; it is not made again. `message` tells why.
    """

    call_id: CallId
    status: Literal["done", "asked", "failed", "uncertain"]
    data: Json = None
    code: str = ""
    message: str = ""
    artifacts: tuple[ArtifactId, ...] = ()
    asked: ApprovalRequested | None = None

    @property
    def approval_id(self) -> str:
        """The approval that it waits for; empty where it waits for none."""
        return self.asked.approval_id if self.asked else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call as the log has it. `asked` is the newest question about it; `outcome` is None while there is none."""

    requested: ToolCallRequested
    asked: ApprovalRequested | None = None
    started: bool = False
    outcome: Outcome | None = None


def record_of(facts: Iterable[EventBody]) -> CallRecord:
    """The call that the facts of one stream are about."""
    requested: ToolCallRequested | None = None
    asked: ApprovalRequested | None = None
    started = False
    outcome: Outcome | None = None
    for fact in facts:
        match fact:
            case ToolCallRequested():
                requested = fact
            case ApprovalRequested():
                asked = fact
            case ToolCallStarted():
                started = True
            case ToolCallCompleted() | ToolCallFailed() | ToolCallCancelled() | ToolCallUncertain():
                outcome = _outcome(fact)
            case _:
                pass
    assert requested is not None, "a call begins with its request"
    return CallRecord(requested=requested, asked=asked, started=started, outcome=outcome)


def _outcome(fact: ToolCallCompleted | ToolCallFailed | ToolCallCancelled | ToolCallUncertain) -> Outcome:
    match fact:
        case ToolCallCompleted(call_id=call_id, ok=True):
            return Outcome(call_id=call_id, status="done", data=fact.data, artifacts=fact.artifacts)
        case ToolCallCompleted(call_id=call_id):
            said = fact.data if isinstance(fact.data, dict) else {}
            code, message = str(said.get("code", "tool.failed")), str(said.get("message", ""))
            return Outcome(
                call_id=call_id, status="failed", data=fact.data, code=code, message=message, artifacts=fact.artifacts
            )
        case ToolCallFailed(call_id=call_id, code=code, message=message):
            return Outcome(call_id=call_id, status="failed", code=code, message=message)
        case ToolCallCancelled(call_id=call_id, reason=reason):
            return Outcome(call_id=call_id, status="failed", code="cancelled", message=reason)
        case ToolCallUncertain(call_id=call_id, reason=reason):
            return Outcome(call_id=call_id, status="uncertain", code="tool.uncertain", message=reason)
