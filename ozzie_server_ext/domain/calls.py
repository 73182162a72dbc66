"""The state of each tool call, folded from the events about it.

requested → decided → approval → answer → started → outcome → resolved, where any state but the first may be missing: an
allowed call needs no approval, and a denied one never starts. An approval that expired is requested again. The first
outcome is final, except that of a call to be repeated with its key (`ToolCallUncertain.again`): it may get another one.
A call whose request was erased has no `requested`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    EventBody,
    PromptRequested,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import ApprovalId, CallId

CALL_TYPES = frozenset(
    {
        ToolCallRequested.type,
        ToolCallDecided.type,
        ToolCallStarted.type,
        ToolCallCompleted.type,
        ToolCallFailed.type,
        ToolCallUncertain.type,
        ToolCallCancelled.type,
        ToolCallResolved.type,
    }
)

CallOutcome: TypeAlias = ToolCallCompleted | ToolCallFailed | ToolCallCancelled | ToolCallUncertain
ApprovalAnswer: TypeAlias = ApprovalGranted | ApprovalRejected | ApprovalExpired


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call: each state is the event that recorded it.

    `approval` is the newest request for a yes and `answer` the answer to it; `prompt` is a question that the call
    itself asks; `resolved` is a person's word on an uncertain call, the first that is not "left".
    """

    call_id: CallId
    requested: ToolCallRequested | None = None
    decided: ToolCallDecided | None = None
    approval: ApprovalRequested | None = None
    answer: ApprovalAnswer | None = None
    prompt: PromptRequested | None = None
    started: ToolCallStarted | None = None
    outcome: CallOutcome | None = None
    resolved: ToolCallResolved | None = None

    @property
    def is_open(self) -> bool:
        """Whether the call was requested or started and has no outcome."""
        return self.outcome is None and (self.requested is not None or self.started is not None)

    @property
    def is_repeated(self) -> bool:
        """Whether another call takes its place, with the same key."""
        return _is_repeated(self.outcome)

    @property
    def is_uncertain(self) -> bool:
        """Whether nobody knows if the call took effect, and it is not repeated."""
        return _is_uncertain(self.outcome)

    @property
    def doubt(self) -> str:
        """Why nobody knows if the call took effect; empty if that is known."""
        return self.outcome.reason if isinstance(self.outcome, ToolCallUncertain) else ""

    @property
    def is_final(self) -> bool:
        """Whether no further outcome can follow."""
        return self.outcome is not None and not self.is_repeated

    @property
    def is_settled(self) -> bool:
        """Whether no event can change the call any more: it is final, and if uncertain, a person has resolved it."""
        return self.is_final and not (self.is_uncertain and _is_left(self.resolved))

    @property
    def waits_for(self) -> Literal["", "a yes", "an answer"]:
        """What an open call needs from a person before it can go on."""
        if self.prompt is not None:
            return "an answer"
        return "" if self.approval is None or isinstance(self.answer, ApprovalGranted) else "a yes"

    @property
    def position(self) -> tuple[int, int] | None:
        """Round and index, which a repeated call shares with the one it replaces. None if the request was erased."""
        return None if self.requested is None else (self.requested.round, self.requested.index)


def _is_repeated(outcome: CallOutcome | None) -> bool:
    return isinstance(outcome, ToolCallUncertain) and outcome.again


def _is_uncertain(outcome: CallOutcome | None) -> bool:
    return isinstance(outcome, ToolCallUncertain) and not outcome.again


def _is_left(resolved: ToolCallResolved | None) -> bool:
    """Whether no person has said what became of the call."""
    return resolved is None or resolved.outcome == "left"


class Calls(Mapping[CallId, CallRecord]):
    """The fold: the calls so far by id, in the order in which they began. A record is made when it is asked for: runs
    fold thousands of calls a second."""

    def __init__(self) -> None:
        self._states: dict[CallId, dict[str, Any]] = {}
        """The fields of each record that have a value."""
        self._records: dict[CallId, CallRecord] = {}
        """The records that were made since their calls last changed."""
        self._approvals: dict[ApprovalId, CallId] = {}

    def __getitem__(self, call_id: CallId) -> CallRecord:
        record = self._records.get(call_id)
        if record is None:
            record = self._records[call_id] = CallRecord(call_id=call_id, **self._states[call_id])
        return record

    def __iter__(self) -> Iterator[CallId]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def take(self, fact: EventBody) -> CallRecord | None:
        """Take the next event of the log and return the call it is about, as it is now; None if it is about no call."""
        call_id = self._apply(fact)
        return None if call_id is None else self[call_id]

    def take_all(self, facts: Iterable[EventBody]) -> None:
        """Take events in the order of the log."""
        for fact in facts:
            self._apply(fact)

    def forget(self, call_id: CallId) -> None:
        """Drop a settled call, to save memory."""
        del self._states[call_id]
        self._records.pop(call_id, None)
        self._approvals = {approval_id: of for approval_id, of in self._approvals.items() if of != call_id}

    def _apply(self, fact: EventBody) -> CallId | None:
        call_id = self._call_of(fact)
        if call_id is not None:
            state = self._states.get(call_id)
            if state is None:
                state = self._states[call_id] = {}
            _change(state, fact)
            self._records.pop(call_id, None)
        return call_id

    def _call_of(self, fact: EventBody) -> CallId | None:
        match fact:
            case (
                ToolCallRequested()
                | ToolCallDecided()
                | ToolCallStarted()
                | ToolCallCompleted()
                | ToolCallFailed()
                | ToolCallCancelled()
                | ToolCallUncertain()
                | ToolCallResolved()
                | PromptRequested()
            ):
                return fact.call_id
            case ApprovalRequested(call_id=call_id, approval_id=approval_id):
                self._approvals[approval_id] = call_id
                return call_id
            case ApprovalGranted() | ApprovalRejected() | ApprovalExpired():
                return self._approvals.get(fact.approval_id)
            case _:
                return None


def fold_calls(facts: Iterable[EventBody]) -> Calls:
    """Return the calls that `facts`, in the order of the log, are about."""
    calls = Calls()
    calls.take_all(facts)
    return calls


def _change(state: dict[str, Any], fact: EventBody) -> None:
    """Take one event into the fields of a `CallRecord`."""
    match fact:
        case ToolCallRequested():
            state["requested"] = fact
        case ToolCallDecided():
            state["decided"] = fact
        case ApprovalRequested():
            state["approval"], state["answer"] = fact, None
        case ApprovalGranted() | ApprovalRejected() | ApprovalExpired():
            newest = state.get("approval")
            if newest is not None and newest.approval_id == fact.approval_id:
                state["answer"] = fact
        case PromptRequested():
            state["prompt"] = fact
        case ToolCallStarted():
            state["started"] = fact
        case ToolCallCompleted() | ToolCallFailed() | ToolCallCancelled() | ToolCallUncertain():
            before = state.get("outcome")
            if before is None or _is_repeated(before):
                state["outcome"] = fact
        case ToolCallResolved():
            if _is_uncertain(state.get("outcome")) and _is_left(state.get("resolved")):
                state["resolved"] = fact
        case _:
            pass
