"""What became of a call of a tool that has a beginning and no outcome (DESIGN §2.5)."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from ozzie_server_ext.domain.events import (
    EventBody,
    TaskFailed,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.tasks.unfinished import OpenTool
from ozzie_server_ext.tools.uncertain import uncertain

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
