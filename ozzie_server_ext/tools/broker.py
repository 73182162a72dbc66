"""The one path by which a tool runs: validate, decide, plan, ask, record the intent, run, record the outcome (DESIGN
§2.4)."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from ozzie_server_ext.artifacts.store import ArtifactStore, Kept
from ozzie_server_ext.domain.artifacts import REPLACED_BY
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.events import (
    EventBody,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
    ToolUse,
    Transient,
)
from ozzie_server_ext.domain.ids import CallId, PromptId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta, ToolResult
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.decision import Decision
from ozzie_server_ext.policy.engine import ASKED_BY_SKILL
from ozzie_server_ext.policy.ruling import Ruling, Rulings
from ozzie_server_ext.render.toolrows import called
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.uncut import uncut
from ozzie_server_ext.tools.arguments import arguments_of, parsed
from ozzie_server_ext.tools.base import Marks, Plan, Tool, ToolContext, Unsettled
from ozzie_server_ext.tools.intime import in_time
from ozzie_server_ext.tools.live import Kind, LiveCall
from ozzie_server_ext.tools.outside import bearing, brought
from ozzie_server_ext.tools.permissions import Earlier, Permission, Permissions
from ozzie_server_ext.tools.questions import prompt_of
from ozzie_server_ext.tools.refusals import asks_anew, has_no_key, not_for_skill, refusal, unattended, unknown_tool
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.tools.telling import Telling, error_of, naming
from ozzie_server_ext.tools.uncertain import uncertain

log = logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a turn a call stands: the round of the model, from 1, and its index among that round's calls, from 0."""

    round: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A call that was begun, and cut off by the end of a gateway before it had an outcome. `effect` is the recorded;
    `in_doubt`: so is that nobody knows whether it was had."""

    effect: JsonObject | None
    in_doubt: bool = False


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
        self._publish = publish
        self._registry = registry
        self._rulings = rulings
        self._permissions = permissions
        self._telling = telling
        self._artifacts = artifacts
        self._clock = clock
        self._ids = ids

    async def call(
        self,
        use: ToolUse,
        place: Place,
        context: ToolContext,
        recorder: Recorder,
        earlier: Earlier | None = None,
        begun: Begun | None = None,
    ) -> tuple[EventBody, ...]:
        """Carry out one call that the model asked for, or record why not. Cancelling records that too. `earlier`: what
        a person was asked for it before; `begun`: what it was in the middle of when a gateway ended. All that is
        recorded bears the labels of what the call is made from, `context.reading`, and its outcome those of what it
        brought too.

        Where a person has to be asked first, or a second model, nothing is recorded: the facts that ask are returned,
        to be recorded together with those of other calls, and the call is made anew once there is an answer. Of a call
        that is a question itself, the answer is the outcome.

        Raises ToolUncertain where nobody can say whether it was done; that is recorded before. That is so too where a
        call that was begun with a key is refused or fails when it is made again: it may have been done the first time.
        """
        again = earlier is not None and not earlier.has_ended
        call_id = earlier.asked.call_id if earlier is not None and again else CallId(self._ids.new())
        context = msgspec.structs.replace(context, key=f"{recorder.task_id}-{place.round}-{place.index}")
        recorder = recorder.made_from(context.reading.content)
        began = self._clock.monotonic()
        tool = self._registry.find(use.name)

        def requested(args: JsonObject) -> tuple[EventBody, ...]:
            """That it was asked for, unless that stands in the log since it was put to a person."""
            fact = ToolCallRequested(
                call_id=call_id,
                use_id=use.call_id,
                tool_id=tool.meta.tool_id if tool else "",
                name=tool.meta.name if tool else use.name[:64],
                version=tool.meta.version if tool else "",
                args=args,
                round=place.round,
                index=place.index,
            )
            return () if again else (fact,)

        async def fail(error: OzzieError, *before: EventBody) -> tuple[EventBody, ...]:
            await expect_settled(error, *before)
            await recorder.append(*before, self._telling.failure(call_id, error, self._since(began)))
            return ()

        async def may_be_done() -> bool:
            return begun is not None and await self._may_be_done(tool, begun, context)

        async def expect_settled(why: OzzieError, *before: EventBody) -> None:
            if await may_be_done():
                unknown = self._telling.unknown(call_id, why)
                await recorder.append(*before, unknown)
                raise uncertain(called(tool.meta.name if tool else use.name[:64], arguments_of(use)), unknown.reason)

        if tool is None:
            return await fail(unknown_tool(use.name, self._registry), *requested({}))
        if not context.may_call(tool.meta):
            return await fail(not_for_skill(tool.meta), *requested({}))
        try:
            args = tool.check(parsed(use.arguments))
        except OzzieError as error:
            return await fail(error, *requested({}))
        ruling = await self._ruled(tool.meta, args, context)
        begin = (*requested(args), _decided(call_id, ruling))
        # Before the plan: what a rule forbids to look at is not looked at for that either.
        refused = refusal(tool.meta, ruling.verdict, context.caller)
        if refused is not None:
            return await fail(refused, *begin)
        try:
            plan = await _plan(tool, args, context)
        except OzzieError as error:
            return await fail(error, *begin)
        if plan.categories or plan.content:
            context = _made_from_more(context, plan.content)
            recorder = recorder.made_from(context.reading.content)
            ruling = await self._ruled(plan.of(tool.meta), args, context)
            begin = (*requested(args), _decided(call_id, ruling))
            refused = refusal(tool.meta, ruling.verdict, context.caller)
            if refused is not None:
                return await fail(refused, *begin)
        if plan.question is not None:
            if not context.caller.attended:
                return await fail(unattended(tool.meta), *begin)
            return (*begin, prompt_of(plan.question, PromptId(self._ids.new()), call_id))
        if plan.nothing is not None:
            outcome, whole = await uncut(
                self._telling.result(call_id, tool.meta, args, plan.nothing, self._since(began))
            )
            told = recorder.made_from(recorder.content | plan.nothing.content)
            await self._append(told, whole, *begin, outcome)
            return ()
        permission = Permission()
        try:
            if ruling.verdict.decision in (Decision.CHECK, Decision.ASK):
                permission = await self._permissions.of(tool, plan, ruling, call_id, context, recorder, earlier)
            before = None if permission.facts else await self._kept(plan, call_id, tool.meta)
        except OzzieError as error:
            return await fail(error, *begin)
        if permission.facts:
            await expect_settled(asks_anew(), *begin)
            return (*begin, *permission.facts)
        if not (tool.meta.takes_key or tool.meta.may_be_repeated):
            await expect_settled(has_no_key(), *begin)
        started = ToolCallStarted(
            call_id=call_id,
            effect=plan.effect,
            before=before.artifact_id if before is not None else None,
            approval_id=permission.approval_id,
            writes=plan.writes,
        )
        try:
            await uncut(self._append(recorder, before, *begin, started))
        except asyncio.CancelledError:
            not_begun = ToolCallCancelled(call_id=call_id, reason="The turn was stopped before it was begun.")
            await uncut(recorder.append(not_begun))
            raise
        try:
            ended = await self._run(tool, plan, context, call_id, began, recorder)
            if isinstance(ended, ToolCallFailed) and await may_be_done():
                ended = ToolCallUncertain(call_id=call_id, reason=ended.message)
        except asyncio.CancelledError:
            await uncut(recorder.append(_cut_off(tool.meta, call_id)))
            raise
        # From here on it is known how it went, and that is told whoever stops the turn meanwhile.
        outcome = await uncut(self._tell(recorder, tool.meta, args, call_id, ended, began, context.marks))
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise asyncio.CancelledError  # a tool that had to come to its end first may have kept it from us
        if isinstance(outcome, ToolCallUncertain):
            raise uncertain(called(tool.meta.name, args), outcome.reason)
        return ()

    async def happened(self, tool_id: str, effect: JsonObject, context: ToolContext) -> bool | None:
        """Whether a run with that effect, which a crash cut off, was done; None where that can't be known."""
        tool = self._registry.find(tool_id)
        if tool is None:
            return None
        try:
            return await in_time(tool.happened(effect, context), tool.meta.timeout_s)
        except (TimeoutError, OzzieError) as error:
            log.warning("whether %s was done can't be found out: %s", tool_id, error)
        except Exception:
            log.exception("tool %s broke while it looked whether it was done", tool_id)
        return None

    async def _may_be_done(self, tool: Tool | None, begun: Begun, context: ToolContext) -> bool:
        """Whether a call that is to be made again with its key may have had its effect already."""
        if tool is None:
            return begun.in_doubt
        if not begun.in_doubt and (tool.meta.may_be_repeated or not tool.meta.takes_key):
            return False  # of these, it was known before that it had none
        return begun.effect is None or await self.happened(tool.meta.tool_id, begun.effect, context) is not False

    async def put_off(self, use: ToolUse, place: Place, recorder: Recorder) -> None:
        """Record of a call that it is not made, because it stands behind one that changes something: the model is to
        see what came of that first (AG-1)."""
        tool = self._registry.find(use.name)
        meta = tool.meta if tool else None
        requested = ToolCallRequested(
            call_id=CallId(self._ids.new()),
            use_id=use.call_id,
            tool_id=meta.tool_id if meta else "",
            name=meta.name if meta else use.name[:64],
            version=meta.version if meta else "",
            args={},
            round=place.round,
            index=place.index,
        )
        words = "Not done: one change at a time. Look at what came of it, then ask again."
        why = PolicyError(words, code="tool.put_off")
        await recorder.append(requested, self._telling.failure(requested.call_id, why, 0.0))

    async def _run(
        self, tool: Tool, plan: Plan, context: ToolContext, call_id: CallId, began: float, recorder: Recorder
    ) -> ToolResult | ToolCallFailed | ToolCallUncertain:
        """The result, or the outcome of what gave none."""

        def show(kind: Kind, payload: JsonObject) -> None:
            self._publish(
                Transient(type=kind, session_id=recorder.session_id, task_id=recorder.task_id, payload=payload)
            )

        live = LiveCall(call_id, show, self._telling.shown)
        try:
            context = msgspec.structs.replace(context, live=live, forbids=partial(self._forbids, tool.meta, context))
            return await _limited(tool, tool.run(plan, context), keeps=True)
        except Unsettled as error:
            return self._telling.unknown(call_id, error)
        except Exception as error:
            foreseen = isinstance(error, OzzieError)
            if not foreseen and not isinstance(error, TimeoutError):
                log.exception("tool %s broke", tool.meta.tool_id)
            said = error_of(tool.meta, error)
            if foreseen or tool.meta.may_be_repeated:
                return self._telling.failure(call_id, said, self._since(began))
            # Cut off by the clock or by its own mistake: nobody knows how far it came.
            return self._telling.unknown(call_id, said)
        finally:
            live.close()

    async def _ruled(self, meta: ToolMeta, args: JsonObject, context: ToolContext) -> Ruling:
        """What is made from content from outside is for a person to look at, and not for another model: that content
        may speak to it. What a skill has asked for first is asked for; what a rule forbids stays forbidden."""
        ruling = await self._rulings.of(meta, args, context.caller, context.reading)
        if ruling.verdict.decision is Decision.CHECK and context.reading.content:
            return replace(ruling, verdict=replace(ruling.verdict, decision=Decision.ASK))
        if ruling.verdict.decision in (Decision.ALLOW, Decision.CHECK) and context.asks_first(meta):
            return replace(ruling, verdict=ASKED_BY_SKILL)
        return ruling

    async def _forbids(self, meta: ToolMeta, context: ToolContext, args: JsonObject) -> str:
        """See `ToolContext`."""
        verdict = (await self._rulings.of(meta, args, context.caller, context.reading)).verdict
        return verdict.refusal if verdict.decision is Decision.DENY else ""

    async def _tell(
        self,
        recorder: Recorder,
        meta: ToolMeta,
        args: JsonObject,
        call_id: CallId,
        ended: ToolResult | ToolCallFailed | ToolCallUncertain,
        began: float,
        marks: Marks,
    ) -> EventBody:
        """Record how a call ended, with what it brought; the fact that says so."""
        if content := await brought(meta, args, ended, marks):
            recorder, ended = recorder.made_from(recorder.content | content), bearing(ended, content)
        if not isinstance(ended, ToolResult):
            await recorder.append(ended)
            return ended
        try:
            made, told = await self._telling.kept(call_id, meta, ended.made)
        except OzzieError as error:
            failed = self._telling.failure(call_id, error, self._since(began))
            await recorder.append(failed)
            return failed
        outcome, whole = await self._telling.result(call_id, meta, args, naming(ended, made, told), self._since(began))
        kept = [*([whole] if whole else []), *made] if isinstance(outcome, ToolCallCompleted) else []
        await self._artifacts.record_all(recorder, kept, outcome)
        return outcome

    async def _kept(self, plan: Plan, call_id: CallId, meta: ToolMeta) -> Kept | None:
        """What the call replaces, made durable before it is gone. Raises OzzieError."""
        if plan.before is None:
            return None
        name, content = plan.before.name, plan.before.content
        return await self._artifacts.keep(
            content, kind="file", name=name, mime=plan.before.mime, call_id=call_id, meta={REPLACED_BY: meta.tool_id}
        )

    async def _append(self, recorder: Recorder, kept: Kept | None, *facts: EventBody) -> None:
        if kept is None:
            await recorder.append(*facts)
        else:
            await self._artifacts.record(recorder, kept, *facts)

    def _since(self, began: float) -> float:
        return round((self._clock.monotonic() - began) * 1000, 3)


async def _limited(tool: Tool, work: Coroutine[Any, Any, T], *, keeps: bool = False) -> T:
    """See `in_time`. What waits for nothing needs no task in which it could be stopped."""
    return await (in_time(work, tool.meta.timeout_s, keeps=keeps) if tool.waits else work)


async def _plan(tool: Tool, args: JsonObject, context: ToolContext) -> Plan:
    """Raises OzzieError, and nothing else."""
    try:
        return await _limited(tool, tool.plan(args, context))
    except OzzieError:
        raise
    except Exception as error:
        if not isinstance(error, TimeoutError):
            log.exception("tool %s broke while it planned", tool.meta.tool_id)
        raise error_of(tool.meta, error) from None


def _cut_off(meta: ToolMeta, call_id: CallId) -> ToolCallCancelled | ToolCallUncertain:
    kind = ToolCallCancelled if meta.may_be_repeated else ToolCallUncertain
    return kind(call_id=call_id, reason="The turn was stopped.")


def _decided(call_id: CallId, ruling: Ruling) -> ToolCallDecided:
    verdict = ruling.verdict
    return ToolCallDecided(
        call_id=call_id,
        decision=verdict.decision.value,
        rule=verdict.rule,
        reason=verdict.reason,
        place=verdict.place,
        policy=ruling.version,
    )


def _made_from_more(context: ToolContext, content: Content) -> ToolContext:
    reading = context.reading
    return msgspec.structs.replace(context, reading=replace(reading, content=reading.content | content))
