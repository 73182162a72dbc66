"""Steps with one call of a read-only tool, which are carried out at once without their own task (ADR 44)."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress

import msgspec

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import (
    Draft,
    Event,
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
from ozzie_server_ext.policy.engine import Ruling, Rulings
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
"""The time limit of such a tool. Longer calls get a task, which shows their progress."""
LOOK_S = 0.02
"""How long the rules are used before their files are checked again."""

_CALL_EVENTS = (
    ToolCallRequested,
    ToolCallDecided,
    ToolCallStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallUncertain,
)


class RecentRules(Rulings):
    """The rules in force, without checking their files at each of thousands of calls."""

    def __init__(self, rules: RulesInForce, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._looked = -LOOK_S

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        """See `Rulings`."""
        if self._clock.monotonic() - self._looked >= LOOK_S:
            await self._rules.refresh()
            self._looked = self._clock.monotonic()
        return await self._rules.of_last_read(meta, args, caller, reading)

    def deciding(self, meta: ToolMeta) -> AbstractAsyncContextManager[object]:
        return self._rules.deciding(meta)


class QuickCalls:
    """Makes the calls. `broker` uses `RecentRules`; `meta` returns a tool's metadata."""

    def __init__(self, broker: ToolBroker, meta: Callable[[str], ToolMeta | None]) -> None:
        self._broker = broker
        self._meta = meta

    def fits(self, work: Work) -> bool:
        """Whether the step is such a call, without a check of its result or its own time limit."""
        if work.call is None or work.acceptance is not None or work.timeout_s is not None:
            return False
        meta = self._meta(work.call.tool)
        return meta is not None and _is_quick(meta)

    async def make(self, order: Order, step_id: str, task_id: TaskId, context: ToolContext, run: Recorder) -> Outcome:
        """Make the call and return its outcome, to be recorded. `task_id` is the task that it would otherwise have, so
        that it has the same key."""
        call = order.call
        assert call is not None, "`fits` was true"
        buffer = _Buffer()
        recorder = Recorder(
            log=buffer,
            session_id=run.session_id,
            task_id=task_id,
            content_now=lambda: order.content,
        )
        reading = Reading(content=order.content, has_read=True, has_own=True)
        brief = order.brief
        context = msgspec.structs.replace(context, reading=reading, asks_first=lambda meta: asks_first(brief, meta))
        use = ToolUse(call_id=CallId(step_id), name=call.tool, arguments=dumps(call.args))
        with suppress(ToolUncertain):  # the buffer has the outcome
            if await self._broker.call(use, CallPosition(1, 0, step_id), context, recorder):
                return NotAtOnce()  # it needs an approval
        if not all(isinstance(draft.body, _CALL_EVENTS) for draft in buffer.drafts):
            return NotAtOnce()  # it made an artifact
        return _outcome(buffer.drafts)


def _is_quick(meta: ToolMeta) -> bool:
    only_reads = meta.side_effect is SideEffect.NONE and not meta.categories and not meta.delegates_to
    stays = not meta.is_outbound and meta.brings is None
    return only_reads and stays and meta.timeout_s <= LONGEST_S


class _Buffer:
    """Collects the events of a call, which are recorded together with its step."""

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
    facts = tuple((draft.body, _content(draft)) for draft in drafts)
    outcome, content = facts[-1]
    match outcome:
        case ToolCallCompleted(data=data):
            return Succeeded(value=data, content=content, facts=facts)
        case ToolCallFailed(code=code, message=message):
            return FailedAttempt(kind="tool", code=code, message=message, content=content, facts=facts)
        case ToolCallUncertain(reason=reason):
            return FailedAttempt(kind="tool", code=ToolUncertain.code, message=reason, content=content, facts=facts)
        case _:
            raise AssertionError("each call ends with an outcome")


def _content(draft: Draft) -> Content:
    return Content(labels=draft.labels, sources=draft.sources) if draft.labels else CLEAN
