"""Steps that are one call of a tool that only reads: made at once by the gate, without a task of their own (ADR 44)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from ozzie_server_ext.domain.calls import fold_calls
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
    MadeCall,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
    ToolUse,
)
from ozzie_server_ext.domain.ids import CallId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.tasks import Claim
from ozzie_server_ext.domain.toolmeta import SideEffect, ToolMeta
from ozzie_server_ext.policy.decision import UNREAD, Caller, Reading
from ozzie_server_ext.policy.engine import Ruling
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.skills.briefing import Order
from ozzie_server_ext.skills.spec import Work
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.workflows.executor import FailedAttempt, NotAtOnce, Outcome, Succeeded
from ozzie_server_ext.tasks.workflows.skill_log import asks_first
from ozzie_server_ext.tools.base import ToolContext, ToolUncertain
from ozzie_server_ext.tools.broker import CallPosition, ToolBroker

LONGEST_S = 20.0
"""A call that may take longer is worth a task of its own, which shows how far it is."""
LOOK_S = 0.02
"""How old a look at the files of the rules may be."""

_ITS_OWN = (
    ToolCallRequested,
    ToolCallDecided,
    ToolCallStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallUncertain,
)


class RecentRules:
    """The rules in force, whose files were looked at a moment ago: thousands of reads need not look each time."""

    def __init__(self, rules: RulesInForce, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._looked = -LOOK_S

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        """See `Rulings`."""
        if self._clock.monotonic() - self._looked >= LOOK_S:
            await self._rules.refresh()
            self._looked = self._clock.monotonic()
        return await self._rules.now(meta, args, caller, reading)


class QuickCalls:
    """`broker` is the gate, with `RecentRules`; `meta` tells the contract of a tool."""

    def __init__(self, broker: ToolBroker, meta: Callable[[str], ToolMeta | None]) -> None:
        self._broker = broker
        self._meta = meta

    def fits(self, work: Work) -> bool:
        """Whether the step is such a call, and nothing comes behind it."""
        if work.call is None or work.acceptance is not None or work.timeout_s is not None:
            return False
        meta = self._meta(work.call.tool)
        return meta is not None and _is_quick(meta)

    async def make(self, order: Order, step_id: str, task_id: TaskId, context: ToolContext, run: Recorder) -> Outcome:
        """What came of it, to be recorded. `task_id` is that of the task that the call would have else: it has the same
        key as there."""
        call = order.call
        assert call is not None, "what fits is a call"
        gathered = _Gathered()
        recorder = Recorder(
            log=gathered,
            session_id=run.session_id,
            task_id=task_id,
            trace_id=run.trace_id,
            read=lambda: order.content,
        )
        reading = Reading(content=order.content, has_read=True, has_own=True)
        brief = order.brief
        context = msgspec.structs.replace(context, reading=reading, asks_first=lambda meta: asks_first(brief, meta))
        use = ToolUse(call_id=CallId(step_id), name=call.tool, arguments=dumps(call.args))
        with suppress(ToolUncertain):  # what became of the call stands among the gathered
            if await self._broker.call(use, CallPosition(1, 0), context, recorder):
                return NotAtOnce()  # somebody is to be asked
        if not all(isinstance(draft.body, _ITS_OWN) for draft in gathered.drafts):
            return NotAtOnce()  # it made an artifact
        return _outcome(gathered.drafts)


def _is_quick(meta: ToolMeta) -> bool:
    only_reads = meta.side_effect is SideEffect.NONE and not meta.categories and not meta.delegates_to
    stays = not meta.is_outbound and meta.brings is None
    return only_reads and stays and meta.timeout_s <= LONGEST_S


class _Gathered:
    """Takes what a call would record, which is then recorded in one with its step."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    async def append(
        self,
        stream: str,
        drafts: Sequence[Draft],
        *,
        expected_version: int | None = None,
        claim: Claim | None = None,
    ) -> tuple[Event, ...]:
        self.drafts += drafts
        return ()


def _outcome(drafts: Sequence[Draft]) -> Outcome:
    (call,) = fold_calls(draft.body for draft in drafts).values()
    content = Content(labels=drafts[-1].labels, sources=drafts[-1].sources)
    requested = call.requested
    assert requested is not None, "each call begins with its request"
    made = partial(
        MadeCall,
        tool_id=requested.tool_id,
        name=requested.name,
        version=requested.version,
        args=requested.args,
        rule=call.decided.rule if call.decided else "",
        policy=call.decided.policy if call.decided else "",
    )
    match call.outcome:
        case ToolCallCompleted(data=data, summary=summary, duration_ms=duration_ms):
            return Succeeded(value=data, content=content, call=made(summary=summary, duration_ms=duration_ms))
        case ToolCallFailed(code=code, message=message, duration_ms=duration_ms):
            made_call = made(duration_ms=duration_ms)
            return FailedAttempt(kind="tool", code=code, message=message, content=content, call=made_call)
        case ToolCallUncertain(reason=reason):
            code, made_call = ToolUncertain.code, made(duration_ms=0.0)
            return FailedAttempt(kind="tool", code=code, message=reason, content=content, call=made_call)
        case _:
            raise AssertionError("each call ends with an outcome")
