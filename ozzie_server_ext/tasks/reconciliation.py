"""What a task left open when a crash, a failure or a stop cut it off, and how each open call ends."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.calls import CallRecord, Calls
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    Event,
    EventBody,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    TaskFailed,
    TaskQueued,
    TaskRetried,
    TaskStarted,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallResolved,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId, ReplyId, SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.toolrows import called
from ozzie_server_ext.tasks.times import RECOVERY, Work
from ozzie_server_ext.tools.base import uncertain


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """What a task left open.

    `models` and `tools`: its calls without an outcome, in the order in which they began.
    `replies`: replies cut off since the task last started; somebody may have seen a part of them.
    `uncertain`: tool calls that became uncertain since then. `unresolved`: all uncertain ones that no person has
    resolved.
    `to_repeat`: calls to be repeated with their key that have not been yet; they are in no other list.
    `works`: the task was in the middle of its own work. `recoveries`: how often that was so when a gateway ended, since
    its last retry.
    """

    models: tuple[ModelCallStarted, ...]
    replies: tuple[ReplyId, ...]
    tools: tuple[CallRecord, ...]
    uncertain: tuple[CallRecord, ...]
    to_repeat: tuple[CallRecord, ...] = ()
    works: bool = False
    recoveries: int = 0
    unresolved: tuple[CallRecord, ...] = ()


def unfinished(events: Iterable[Event]) -> Unfinished:
    """Return what `events`, a task's own in their order, leave open."""
    models: dict[CallId, ModelCallStarted] = {}
    replies: dict[CallId, ReplyId] = {}
    calls = Calls()
    to_repeat: set[CallId] = set()
    uncertain: set[CallId] = set()
    unresolved: dict[CallId, None] = {}  # in the order in which they became so
    recoveries = 0
    work = Work()
    works = False
    for event in events:
        call = calls.take(event.body)
        match event.body:
            case TaskStarted():
                replies.clear()
                uncertain.clear()
            case TaskQueued(reason="recovered"):
                recoveries += works
            case TaskRetried():
                recoveries = 0
                uncertain.clear()
            case ModelCallStarted() as fact:
                models[fact.call_id] = fact
                if fact.purpose == "answer":
                    replies[fact.call_id] = fact.reply_id
                    to_repeat.clear()  # the model is asked once all calls of the round before have an outcome
            case ModelCallCompleted(call_id=call_id):
                models.pop(call_id, None)
                replies.pop(call_id, None)
            case ModelCallFailed(call_id=call_id, code=code):
                models.pop(call_id, None)
                if code != INTERRUPTED:
                    replies.pop(call_id, None)
            case ToolCallUncertain(call_id=call_id) if call is not None and call.is_repeated:
                to_repeat = {*_others(to_repeat, call, calls), call_id}
            case ToolCallUncertain(call_id=call_id) if call is not None:
                to_repeat = _others(to_repeat, call, calls)
                uncertain.add(call_id)
                unresolved[call_id] = None
            case ToolCallResolved(call_id=call_id, outcome=outcome):
                uncertain.discard(call_id)
                if outcome != "left":
                    unresolved.pop(call_id, None)
            case ToolCallCompleted() | ToolCallFailed() if call is not None:
                to_repeat = _others(to_repeat, call, calls)
            case _:
                pass
        work.take(event)
        if event.source != RECOVERY:  # what that records ends what the task was in the middle of
            works = work.goes_on
    return Unfinished(
        models=tuple(models.values()),
        replies=tuple(replies.values()),
        tools=tuple(call for call in calls.values() if call.is_open),
        uncertain=tuple(calls[call_id] for call_id in unresolved if call_id in uncertain),
        to_repeat=tuple(call for call in calls.values() if call.call_id in to_repeat),
        works=works,
        recoveries=recoveries,
        unresolved=tuple(calls[call_id] for call_id in unresolved),
    )


def _others(to_repeat: set[CallId], ended: CallRecord, calls: Calls) -> set[CallId]:
    """Return the calls in doubt that `ended` neither is nor replaces."""
    place = ended.position
    return {each for each in to_repeat if each != ended.call_id and (place is None or calls[each].position != place)}


def describe(call: CallRecord) -> str:
    """Return the call as a phrase, such as `read_file "a.txt"`."""
    if call.requested is None:
        return "A tool whose name was erased"
    return called(call.requested.name, call.requested.args)


def cut_off(call: ModelCallStarted, code: str, why: str) -> ModelCallFailed:
    """Return the end of a model call that never ended. Its usage is unknown, so all that it had reserved counts."""
    return ModelCallFailed(
        call_id=call.call_id,
        code=code,
        message=why,
        latency_ms=None,
        settled_cost=call.reserved_cost,
        settled_tokens=call.reserved_tokens,
    )


async def _unknown(tool_id: str, effect: JsonObject) -> bool | None:
    return None


class Reconciler(msgspec.Struct, frozen=True):
    """Finds out whether a call that was cut off took effect. By default any call that was started may have.

    `may_repeat(tool_id)`: whether a call of that tool without an outcome may be made again.
    `happened(tool_id, effect)`: whether that effect took place; None if that can't be known.
    `takes_key(tool_id)`: whether a call repeated with the same key takes effect only once.
    """

    may_repeat: Callable[[str], bool] = lambda tool_id: False
    happened: Callable[[str, JsonObject], Awaitable[bool | None]] = _unknown
    takes_key: Callable[[str], bool] = lambda tool_id: False

    async def was_done(self, call: CallRecord) -> bool | None:
        """Return whether the call took effect, None if unknown; False if it never started or may be made again."""
        if call.started is None:
            return False
        if call.requested is None:  # a call whose request was erased may have been anything
            return None
        if self.may_repeat(call.requested.tool_id):
            return False
        effect = call.started.effect
        return None if effect is None else await self.happened(call.requested.tool_id, effect)

    def has_key(self, call: CallRecord) -> bool:
        """Return whether repeating the call with its key can't cause its effect twice."""
        return call.requested is not None and self.takes_key(call.requested.tool_id)


ReconcilerOf: TypeAlias = Callable[[SessionId], Awaitable[Reconciler]]


async def nothing_is_known(session_id: SessionId) -> Reconciler:
    """The `ReconcilerOf` without tools: any call that was started may have taken effect."""
    return Reconciler()


def end_of(call: CallRecord, done: bool | None, why: str) -> EventBody:
    """Return the end of an open call, given whether it took effect (None: unknown), because of `why`.

    If it took no effect it is cancelled, which is no outcome: a turn that continues makes the call again.
    """
    match done:
        case True:
            data: JsonObject = {"done": True, "note": f"It was done. {why}"}
            return ToolCallCompleted(call_id=call.call_id, ok=True, data=data, summary="done", duration_ms=0.0)
        case False:
            return ToolCallCancelled(call_id=call.call_id, reason=why)
        case None:
            return ToolCallUncertain(call_id=call.call_id, reason=why)


def stopped(calls: Iterable[CallRecord]) -> list[EventBody]:
    """Return the outcomes of a turn's open calls when it is stopped while it waits for a person or in the queue."""
    return [end_of(call, None if call.started else False, why_stopped(call)) for call in calls]


def why_stopped(call: CallRecord) -> str:
    """Return the reason for the end of a call whose turn a person stops."""
    if call.started:
        return "The turn was stopped."
    before = {"a yes": "allowed", "an answer": "answered", "": "begun"}[call.waits_for]
    return f"The turn was stopped before it was {before}."


def made_again(call: CallRecord, why: str) -> ToolCallUncertain:
    """Return the outcome of a call that was cut off, because of `why`, and is repeated with its key."""
    return ToolCallUncertain(call_id=call.call_id, reason=why, again=True)


def not_again(calls: Iterable[CallRecord]) -> TaskFailed:
    """Return the failure of a task whose `calls` may or may not have taken effect."""
    found = tuple(calls)
    names = ", ".join(dict.fromkeys(describe(call) for call in found))
    error = uncertain(names, " ".join(dict.fromkeys(call.doubt for call in found if call.doubt)))
    return TaskFailed(kind="tool", code=error.code, message=str(error), hint=error.hint)
