"""What a dead gateway was in the middle of, and what became of its calls."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    ApprovalGranted,
    ApprovalRequested,
    Event,
    EventBody,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    PromptRequested,
    TaskFailed,
    TaskQueued,
    TaskRetried,
    TaskStarted,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import ApprovalId, CallId, ReplyId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.toolrows import called
from ozzie_server_ext.tasks.times import RECOVERY, Work
from ozzie_server_ext.tools.base import uncertain


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTool:
    """A call of a tool without an outcome. `asked` is None where the request was erased; `waits_for`: what a person has
    not given yet; `started`: the intent is recorded, so it may have had its effect, and `effect` is what the tool finds
    that out by. `reason`: why it is not known whether it did, where that was recorded."""

    call_id: CallId
    asked: ToolCallRequested | None
    waits_for: Literal["", "a yes", "an answer"] = ""
    started: bool = False
    effect: JsonObject | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return "A tool whose name was erased" if self.asked is None else self.asked.name

    @property
    def said(self) -> str:
        """The call in a sentence."""
        return self.name if self.asked is None else called(self.name, self.asked.args)

    @property
    def place(self) -> tuple[int, int] | None:
        """Round and index: a call that is made again has those of the one that was cut off."""
        return None if self.asked is None else (self.asked.round, self.asked.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Calls without an end, in the order in which they began; the calls of the last attempt that were recorded as
    uncertain; and its replies that were cut off: somebody may have seen a part of them. `in_doubt` are the uncertain
    ones that are to be made again with their key, and have not been; they are not among the others. `works`: the task
    is in the middle of something of its own; `recoveries` counts how often it was at the end of a gateway, and taken
    up again, since somebody retried it. `unknown` are the uncertain calls of all attempts of which nobody has said
    since whether they were had."""

    models: tuple[ModelCallStarted, ...]
    replies: tuple[ReplyId, ...]
    tools: tuple[OpenTool, ...]
    uncertain: tuple[OpenTool, ...]
    in_doubt: tuple[OpenTool, ...] = ()
    works: bool = False
    recoveries: int = 0
    unknown: tuple[OpenTool, ...] = ()


def unfinished(events: Iterable[Event]) -> Unfinished:
    """The calls that `events`, a task's own in their order, leave open."""
    models: dict[CallId, ModelCallStarted] = {}
    tools: dict[CallId, OpenTool] = {}
    replies: dict[CallId, ReplyId] = {}
    uncertain: list[OpenTool] = []
    in_doubt: list[OpenTool] = []
    approvals: dict[ApprovalId, CallId] = {}
    recoveries = 0
    unknown: list[OpenTool] = []
    work = Work()
    works = False
    for event in events:
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
                    in_doubt.clear()  # the model is asked once all calls of the round before have an outcome
            case ModelCallCompleted(call_id=call_id):
                models.pop(call_id, None)
                replies.pop(call_id, None)
            case ModelCallFailed(call_id=call_id, code=code):
                models.pop(call_id, None)
                if code != INTERRUPTED:
                    replies.pop(call_id, None)
            case ToolCallRequested() as fact:
                tools[fact.call_id] = OpenTool(call_id=fact.call_id, asked=fact)
            case ApprovalRequested(call_id=call_id, approval_id=approval_id) if call_id in tools:
                approvals[approval_id] = call_id
                tools[call_id] = replace(tools[call_id], waits_for="a yes")
            case ApprovalGranted(approval_id=approval_id):
                call_id = approvals.get(approval_id)
                if call_id is not None and call_id in tools:
                    tools[call_id] = replace(tools[call_id], waits_for="")
            case PromptRequested(call_id=call_id) if call_id is not None and call_id in tools:
                tools[call_id] = replace(tools[call_id], waits_for="an answer")
            case ToolCallStarted(call_id=call_id, effect=effect):
                tools[call_id] = replace(tools.get(call_id) or _erased(call_id), started=True, effect=effect)
            case ToolCallUncertain(call_id=call_id, reason=reason, again=again):
                same = next((each for each in in_doubt if each.call_id == call_id), None)
                found = replace(tools.pop(call_id, None) or same or _erased(call_id), reason=reason)
                in_doubt = _without(in_doubt, found)
                (in_doubt if again else uncertain).append(found)
                if not again:
                    unknown.append(found)
            case ToolCallResolved(call_id=call_id, outcome=outcome):
                uncertain = [tool for tool in uncertain if tool.call_id != call_id]
                unknown = [tool for tool in unknown if tool.call_id != call_id or outcome == "left"]
            case ToolCallCompleted(call_id=call_id) | ToolCallFailed(call_id=call_id):
                in_doubt = _without(in_doubt, tools.pop(call_id, None))
            case ToolCallCancelled(call_id=call_id):
                tools.pop(call_id, None)
            case _:
                pass
        work.take(event)
        if event.source != RECOVERY:  # what that records ends what the task was in the middle of
            works = work.goes_on
    return Unfinished(
        models=tuple(models.values()),
        replies=tuple(replies.values()),
        tools=tuple(tools.values()),
        uncertain=tuple(uncertain),
        in_doubt=tuple(in_doubt),
        works=works,
        recoveries=recoveries,
        unknown=tuple(unknown),
    )


def cut_off(call: ModelCallStarted, code: str, why: str) -> ModelCallFailed:
    """The end of a call that nobody ended: what it took nobody knows, so it counts with all that it had reserved."""
    return ModelCallFailed(
        call_id=call.call_id,
        code=code,
        message=why,
        latency_ms=None,
        settled_cost=call.reserved_cost,
        settled_tokens=call.reserved_tokens,
    )


def _without(in_doubt: Iterable[OpenTool], ended: OpenTool | None) -> list[OpenTool]:
    """Those that are neither that call nor stand where it stood."""
    if ended is None:
        return list(in_doubt)
    return [
        each for each in in_doubt if each.call_id != ended.call_id and (each.place is None or each.place != ended.place)
    ]


def _erased(call_id: CallId) -> OpenTool:
    return OpenTool(call_id=call_id, asked=None)


MayRepeat = Callable[[str], bool]
"""Whether a call of the tool of this id that has no outcome may be made again."""

TakesKey = Callable[[str], bool]
"""Whether a call of the tool of this id that is made again with the same key has its effect once."""

Happened = Callable[[str, JsonObject], Awaitable[bool | None]]
"""Whether a run of the tool of this id with that effect was done; None where that can't be known."""


async def _unknown(tool_id: str, effect: JsonObject) -> bool | None:
    return None


@dataclass(frozen=True, slots=True)
class Fates:
    """Finds out what became of calls. Without anybody to ask, whatever was begun may have happened."""

    may_repeat: MayRepeat = lambda tool_id: False
    happened: Happened = _unknown
    takes_key: TakesKey = lambda tool_id: False

    async def of(self, tool: OpenTool) -> bool | None:
        """Whether the call was done: no, where it had not begun or had nothing to do that counts."""
        if not tool.started:
            return False
        if tool.asked is None:  # a call whose request was erased may have been anything
            return None
        if self.may_repeat(tool.asked.tool_id):
            return False
        return None if tool.effect is None else await self.happened(tool.asked.tool_id, tool.effect)

    def has_key(self, tool: OpenTool) -> bool:
        """Whether the call can be made again, with the key that it had, without having its effect twice."""
        return tool.asked is not None and self.takes_key(tool.asked.tool_id)


NOBODY_KNOWS = Fates()


def end_of(tool: OpenTool, fate: bool | None, why: str) -> EventBody:
    """The outcome that it gets, because of `why`."""
    match fate:
        case True:
            data: JsonObject = {"done": True, "note": f"It was done. {why}"}
            return ToolCallCompleted(call_id=tool.call_id, ok=True, data=data, summary="done", duration_ms=0.0)
        case False:
            return ToolCallCancelled(call_id=tool.call_id, reason=why)
        case None:
            return ToolCallUncertain(call_id=tool.call_id, reason=why)


def stopped(tools: Iterable[OpenTool]) -> list[EventBody]:
    """The ends of the calls of a turn that is stopped where nothing of it runs: while it waits for a person, or for its
    next attempt."""
    return [end_of(tool, None if tool.started else False, why_stopped(tool)) for tool in tools]


def why_stopped(tool: OpenTool) -> str:
    """Of a call whose turn a person ends."""
    if tool.started:
        return "The turn was stopped."
    before = {"a yes": "allowed", "an answer": "answered", "": "begun"}[tool.waits_for]
    return f"The turn was stopped before it was {before}."


def made_again(tool: OpenTool, why: str) -> ToolCallUncertain:
    """What is said of a call that was cut off, because of `why`, and is made again with its key."""
    return ToolCallUncertain(call_id=tool.call_id, reason=why, again=True)


def not_again(tools: Iterable[OpenTool]) -> TaskFailed:
    """The end of a task in which these calls may or may not have been had."""
    found = tuple(tools)
    calls = ", ".join(dict.fromkeys(tool.said for tool in found))
    error = uncertain(calls, " ".join(dict.fromkeys(tool.reason for tool in found if tool.reason)))
    return TaskFailed(kind="tool", code=error.code, message=str(error), hint=error.hint)
