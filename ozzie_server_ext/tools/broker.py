"""The only path by which a tool runs. `_ToolCall.carry_out` is that path, from the request to the recorded outcome."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.artifacts.store import ArtifactStore, Kept
from ozzie_server_ext.domain.artifacts import REPLACED_BY, Artifact, ArtifactKind
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.content import CLEAN, Content, Label, Provenance
from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    PromptRequested,
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
from ozzie_server_ext.domain.ids import ArtifactId, CallId, PromptId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, TargetKind, ToolMeta, ToolResult
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.decision import Action, Caller, Decision
from ozzie_server_ext.policy.engine import Ruling, Rulings, tightened
from ozzie_server_ext.policy.patterns import host_of
from ozzie_server_ext.policy.targets import Amount, named_by
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.render.toolrows import called
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.tools.base import (
    ArtifactReader,
    InvalidArguments,
    Marks,
    PersonPrompt,
    PersonSaid,
    Plan,
    Tool,
    ToolContext,
    Unsettled,
    uncertain,
)
from ozzie_server_ext.tools.live import Kind, LiveCall
from ozzie_server_ext.tools.notebook.outputs import holds_outputs
from ozzie_server_ext.tools.outcome import OutcomeWriter, error_of
from ozzie_server_ext.tools.permissions import (
    EarlierRequest,
    Permission,
    Permissions,
    refusal,
    unattended,
    unknown_tool,
)
from ozzie_server_ext.tools.questions import Prompts, prompt_of
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.tools.timeout import in_time, limited, planned

log = logger(__name__)

Outcome = ToolCallCompleted | ToolCallFailed | ToolCallCancelled | ToolCallUncertain
"""How a call ends."""


class AnswerNeeded(msgspec.Struct, frozen=True):
    """A call that waits for an answer: `request` asks for it. `unrecorded`: events to record just before that."""

    request: ApprovalRequested | PromptRequested
    unrecorded: tuple[EventBody, ...] = ()

    @property
    def facts(self) -> tuple[EventBody, ...]:
        """All of it, in the order in which it is recorded."""
        return (*self.unrecorded, self.request)


class CallPosition(msgspec.Struct, frozen=True):
    """A call's position in a turn: the model's round, from 1, and its index among that round's calls, from 0; in a run
    the step that makes it."""

    round: int
    index: int
    step_id: str = ""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A call interrupted without an outcome. `effect` was recorded when it started. `in_doubt`: it was recorded that
    nobody knows whether it took effect; it is repeated with its key."""

    effect: JsonObject | None
    in_doubt: bool = False


class ToolBroker(msgspec.Struct, frozen=True, eq=False):
    """The only gate to the tools. The model reads outcomes from the log; `publish` shows what tools say meanwhile."""

    registry: ToolRegistry
    rulings: Rulings
    permissions: Permissions
    outcome_writer: OutcomeWriter
    artifacts: ArtifactStore
    clock: Clock
    ids: IdSource
    publish: Callable[[Transient], None] = lambda transient: None
    prompts: Prompts | None = None

    async def call(
        self,
        use: ToolUse,
        position: CallPosition,
        context: ToolContext,
        recorder: Recorder,
        earlier: EarlierRequest | None = None,
        begun: Begun | None = None,
        *,
        only_ask: bool = False,
    ) -> AnswerNeeded | None:
        """Carry out one call that the model requested, or record why not; cancelling is recorded too. `earlier` is an
        earlier request for approval of it, with the yes if there is one; `begun` is what the call was doing
        when a gateway ended. Recorded events bear the labels of what the call is made from (`context.reading`); the
        outcome also bears those of everything the call read.

        If a person or a second model must be asked, nothing of the call is recorded yet, except a change that is too
        long for the request and becomes an artifact: the request is returned, to be recorded with those of other calls,
        and the call is made again once there is an answer. For a call that is itself a question, the answer is the
        outcome. None: the call was made or refused, and that is recorded. With `only_ask` it is not made: unless
        it has to be answered, nothing is recorded of it, as it may come out otherwise once those before it are made.

        Raises ToolUncertain if the effect is unknown; that is recorded first. This includes an interrupted call with a
        key that is refused or fails when repeated: its first attempt may have succeeded.
        """
        call = _ToolCall(self, use, position, context, recorder, earlier, begun, only_ask=only_ask)
        return await call.carry_out()

    async def happened(self, tool_id: str, effect: JsonObject, context: ToolContext) -> bool | None:
        """Return whether an interrupted call with this effect took place; None if that can't be known."""
        tool = self.registry.find(tool_id)
        return None if tool is None else await _happened(tool, effect, context)

    async def put_off(self, use: ToolUse, position: CallPosition, recorder: Recorder) -> None:
        """Record that a call is not made because one before it changes something: the model should see that first."""
        tool = self.registry.find(use.name)
        requested = _requested(use, position, CallId(self.ids.new()), tool, {})
        words = "Not done: one change at a time. Look at what came of it, then ask again."
        why = PolicyError(words, code="tool.put_off")
        await recorder.append(requested, self.outcome_writer.failure(requested.call_id, why, 0.0))


async def _happened(tool: Tool, effect: JsonObject, context: ToolContext) -> bool | None:
    try:
        return await in_time(tool.happened(effect, context), tool.meta.timeout_s)
    except (TimeoutError, OzzieError) as error:
        log.warning("whether %s was done can't be found out: %s", tool.meta.tool_id, error)
    except Exception:
        log.exception("tool %s broke while it looked whether it was done", tool.meta.tool_id)
    return None


def _requested(
    use: ToolUse, position: CallPosition, call_id: CallId, tool: Tool | None, args: JsonObject
) -> ToolCallRequested:
    return ToolCallRequested(
        call_id=call_id,
        use_id=use.use_id,
        tool_id=tool.meta.tool_id if tool else "",
        name=tool.meta.name if tool else use.name[:64],
        version=tool.meta.version if tool else "",
        args=args,
        round=position.round,
        index=position.index,
        step_id=position.step_id,
    )


# --- stages without state ---------------------------------------------------------------------------------------------


def validate(use: ToolUse, registry: ToolRegistry, may_call: Callable[[ToolMeta], bool]) -> tuple[Tool, JsonObject]:
    """Return the call's tool and its checked arguments. Raises OzzieError with a message for the model."""
    tool = registry.find(use.name)
    if tool is None:
        raise unknown_tool(use.name, registry)
    if not may_call(tool.meta):
        name = tool.meta.name
        raise PolicyError(f"Not done: the running skill does not have the tool {name}.", code="policy.skill")
    return tool, tool.check(parsed(use.arguments))


async def ruling_on(rulings: Rulings, meta: ToolMeta, args: JsonObject, context: ToolContext) -> Ruling:
    """Return the ruling of the rules, made stricter for outside content and for what the running skill asks first."""
    ruling = await rulings.of(meta, args, context.caller, context.reading)
    is_outside = bool(context.reading.content)
    return replace(
        ruling, verdict=tightened(ruling.verdict, is_outside=is_outside, asks_first=context.asks_first(meta))
    )


class NoResult(msgspec.Struct, frozen=True):
    """A call without a result. `is_known`: it had no effect, or the tool may be repeated, so that none matters."""

    error: OzzieError
    is_known: bool


async def run_tool(tool: Tool, plan: Plan, context: ToolContext) -> ToolResult | NoResult:
    """Run the tool within its time limit. Raises only CancelledError."""
    try:
        return await limited(tool.run(plan, context), tool.meta.timeout_s, waits=tool.waits, keeps=True)
    except Unsettled as error:
        return NoResult(error, is_known=False)
    except Exception as error:
        foreseen = isinstance(error, OzzieError)
        if not foreseen and not isinstance(error, TimeoutError):
            log.exception("tool %s broke", tool.meta.tool_id)
        # Cut off by the time limit or a bug: nobody knows how far it got.
        return NoResult(error_of(tool.meta, error), is_known=foreseen or tool.meta.may_be_repeated)


def parsed(arguments: str) -> JsonObject:
    """Parse the arguments. Raises InvalidArguments if they are no JSON object."""
    try:
        return loads_object(arguments or "{}", surrogates="repair")
    except OzzieError as error:
        raise InvalidArguments(f"The arguments are not a JSON object: {error}") from None


def arguments_of(use: ToolUse) -> JsonObject:
    """Return the arguments, or {} if they are no JSON object."""
    try:
        return parsed(use.arguments)
    except OzzieError:
        return {}


async def brought(meta: ToolMeta, args: JsonObject, own: Content, marks: Marks, *, has_run: bool) -> Content:
    """Return the labels of everything a call's result may come from: what the result itself says (`own`), what the
    named project files are made from, and after the run what the contract brings. If the result names no source, that
    is the named host or the tool; for the web, an unknown place."""
    found = own
    read = tuple(target for target in meta.targets if target.is_read)
    for path in Action.of(dataclasses.replace(meta, targets=read), args, Caller()).paths if read else ():
        found |= await marks.below("/".join(path or ()))
    if meta.brings is None or meta.brings in own.labels or not has_run:
        return found
    urls = [args.get(target.argument) for target in meta.targets if target.kind is TargetKind.URL]
    hosts = [str(host) for url in urls if isinstance(url, str) and (host := host_of(url)) is not None]
    nowhere = "" if meta.brings is Label.WEB else meta.tool_id
    return found | Content.of(meta.brings, hosts or [nowhere])


class _ToolCall:
    """One call: validate, decide, plan, find a yes or ask for one, record the intent, run, shorten the result, record
    the outcome. Every end goes through `_record_outcome`, so that the outcome bears the labels of all that the call
    read."""

    def __init__(
        self,
        broker: ToolBroker,
        use: ToolUse,
        position: CallPosition,
        context: ToolContext,
        recorder: Recorder,
        earlier: EarlierRequest | None,
        begun: Begun | None,
        *,
        only_ask: bool,
    ) -> None:
        self._broker = broker
        self._use = use
        self._position = position
        self._earlier = earlier
        self._begun = begun
        self._only_asks = only_ask
        self._was_requested = earlier is not None and not earlier.has_ended
        self._call_id = earlier.asked.call_id if earlier and self._was_requested else CallId(broker.ids.new())
        self._provenance = Provenance()
        self._context = msgspec.structs.replace(
            context,
            key=f"{recorder.task_id}-{position.round}-{position.index}",
            provenance=self._provenance,
            artifacts=_NotedArtifacts(context.artifacts, self._provenance),
        )
        self._recorder = recorder.made_from(context.reading.content)
        if earlier is not None and earlier.grant is not None:
            self._recorder = self._recorder.caused_by(earlier.grant.event_id)
        self._began = broker.clock.monotonic()
        self._tool = broker.registry.find(use.name)
        self._args: JsonObject = {}
        self._unrecorded: tuple[EventBody, ...] = ()
        """Events that the next append records first."""
        self._has_looked = False
        self._has_run = False

    async def carry_out(self) -> AnswerNeeded | None:
        """See `ToolBroker.call`."""
        try:
            tool = self._validate()
        except OzzieError as error:
            await self._fail(error)
            return None
        async with self._broker.rulings.deciding(tool.meta):
            ready = await self._prepare(tool)
        if not isinstance(ready, Plan):
            return ready
        outcome = await self._run_and_record(tool, ready)
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise asyncio.CancelledError  # a tool that had to finish first may have swallowed it
        if isinstance(outcome, ToolCallUncertain):
            raise uncertain(called(tool.meta.name, self._args), outcome.reason)
        return None

    # --- before it runs -------------------------------------------------------------------------------------------

    async def _prepare(self, tool: Tool) -> Plan | AnswerNeeded | None:
        """Return what the call does, once it may run and its start is recorded; else what has to be answered first.
        None: it was refused, or has nothing to do, and that is recorded, unless it is only to be asked for."""
        try:
            ruling, plan = await self._decide_and_plan(tool)
        except OzzieError as error:
            await self._fail(error)
            return None
        if plan.question is not None:
            return AnswerNeeded(
                prompt_of(plan.question, PromptId(self._broker.ids.new()), self._call_id), self._unrecorded
            )
        if plan.nothing is not None:
            if not self._only_asks:
                await shielded(self._record_result(tool.meta, plan.nothing))
            return None
        return await self._permit(tool, plan, ruling)

    async def _permit(self, tool: Tool, plan: Plan, ruling: Ruling) -> Plan | AnswerNeeded | None:
        """Return the plan once the call may run and its start is recorded; else, as `_prepare`, what is missing."""
        try:
            permission = await self._find_permission(tool, plan, ruling)
            if permission.request is None and self._only_asks:
                return None
            replaced = None if permission.request else await self._keep_replaced(tool.meta, plan)
        except OzzieError as error:
            await self._fail(error)
            return None
        if permission.request is not None:
            why = "It was cut off, and you would have to allow it to be made again."
            await self._expect_not_done(PolicyError(why))
            return AnswerNeeded(permission.request, (*self._unrecorded, *permission.void))
        if not (tool.meta.takes_key or tool.meta.may_be_repeated):
            why = "It was cut off, and its tool no longer takes the key needed to repeat it safely."
            await self._expect_not_done(PolicyError(why))
        await self._record_intent(tool.meta, plan, permission, replaced)
        return plan

    def _validate(self) -> Tool:
        """Return the tool. The request is recorded next, with the arguments if they fit. Raises as `validate`."""
        self._will_be_requested({})
        tool, self._args = validate(self._use, self._broker.registry, self._context.may_call)
        self._will_be_requested(self._args)
        return tool

    def _will_be_requested(self, args: JsonObject) -> None:
        """Keep the event of the request for the next append, unless the log has it since a person was asked."""
        if not self._was_requested:
            self._unrecorded = (_requested(self._use, self._position, self._call_id, self._tool, args),)

    async def _decide_and_plan(self, tool: Tool) -> tuple[Ruling, Plan]:
        """Decide by the arguments, plan, and decide again if the plan reveals more. Raises OzzieError."""
        requested = self._unrecorded
        # Decide first: planning must not look at what a rule forbids.
        ruling = await self._decide(tool.meta)
        self._has_looked = True
        plan = await planned(tool, self._args, self._context)
        if plan.categories or plan.reaches or plan.content:
            self._is_made_from_more(plan.content)
            self._unrecorded = requested
            ruling = await self._decide(plan.of(tool.meta), plan.categories)
        if plan.question is not None and not self._context.caller.attended:
            raise unattended(tool.meta)
        return ruling, plan

    async def _decide(self, meta: ToolMeta, planned: frozenset[Category] = frozenset()) -> Ruling:
        """Return the ruling on a call, of which the plan showed these categories. Raises PolicyError if it is refused
        whatever anybody answers."""
        ruling = await ruling_on(self._broker.rulings, meta, self._args, self._context)
        verdict = ruling.verdict
        decided = ToolCallDecided(
            call_id=self._call_id,
            decision=verdict.decision.value,
            rule=verdict.rule,
            reason=verdict.reason,
            place=verdict.place,
            policy=ruling.version,
            categories=tuple(sorted(planned)),
            reaches=meta.reaches,
            spent=tuple(str(Amount(currency, value)) for currency, value in sorted(ruling.spent.items())),
        )
        self._unrecorded = (*self._unrecorded, decided)
        refused = refusal(meta, verdict, self._context.caller, by_message=self._context.by_message)
        if refused is not None:
            raise refused
        return ruling

    def _is_made_from_more(self, content: Content) -> None:
        """Add what the plan found the call to be made from beyond the conversation."""
        reading = self._context.reading
        reading = replace(reading, content=reading.content | content)
        self._context = msgspec.structs.replace(self._context, reading=reading)
        self._recorder = self._recorder.made_from(reading.content)

    async def _find_permission(self, tool: Tool, plan: Plan, ruling: Ruling) -> Permission:
        """Return the approval that lets the call run now, or the request for one. Raises as `Permissions.find`."""
        if ruling.verdict.decision not in (Decision.CHECK, Decision.ASK):
            return Permission()
        quoted = await self._read(CLEAN)
        return await self._broker.permissions.find(
            tool, plan, ruling, self._call_id, self._context, self._recorder, self._earlier, quoted
        )

    async def _keep_replaced(self, meta: ToolMeta, plan: Plan) -> Kept | None:
        """Store what the call replaces before it is gone. Raises OzzieError."""
        if plan.before is None:
            return None
        return await self._broker.artifacts.keep(
            plan.before.content,
            kind="file",
            name=plan.before.name,
            mime=plan.before.mime,
            call_id=self._call_id,
            meta={REPLACED_BY: meta.tool_id},
        )

    async def _record_intent(self, meta: ToolMeta, plan: Plan, permission: Permission, replaced: Kept | None) -> None:
        """Record durably that the call is about to run."""
        started = ToolCallStarted(
            call_id=self._call_id,
            effect=plan.effect,
            before=replaced.artifact_id if replaced is not None else None,
            approval_id=permission.approval_id,
            writes=plan.writes,
            amounts=tuple(str(each.amount) for each in named_by(meta, plan.args) if each.amount is not None),
        )
        facts, self._unrecorded = (*self._unrecorded, started), ()
        try:
            kept = [replaced] if replaced else []
            recorded = await shielded(self._broker.artifacts.record_all(self._recorder, kept, *facts))
        except asyncio.CancelledError:
            await shielded(self._record_outcome(self._cancelled("The turn was stopped before it was begun.")))
            raise
        self._recorder = self._recorder.caused_by(recorded[-1].event_id if recorded else None)

    # --- running --------------------------------------------------------------------------------------------------

    async def _run_and_record(self, tool: Tool, plan: Plan) -> Outcome:
        """Raises CancelledError if it was stopped before its end; that is recorded first."""
        self._has_run = True
        try:
            ended = await self._run(tool, plan)
            if isinstance(ended, NoResult):
                ended = await self._outcome_without_result(ended)
        except asyncio.CancelledError:
            await shielded(self._record_outcome(self._cut_off(tool.meta)))
            raise
        # From here on the outcome is known; it is recorded even if the turn is stopped meanwhile.
        if isinstance(ended, ToolResult):
            return await shielded(self._record_result(tool.meta, ended))
        return await shielded(self._record_outcome(ended))

    async def _run(self, tool: Tool, plan: Plan) -> ToolResult | NoResult:
        def show(kind: Kind, payload: JsonObject) -> None:
            recorder = self._recorder
            self._broker.publish(
                Transient(type=kind, session_id=recorder.session_id, task_id=recorder.task_id, payload=payload)
            )

        live = LiveCall(self._call_id, show, self._broker.outcome_writer.shown)
        context = msgspec.structs.replace(
            self._context, live=live, forbids=partial(self._forbids, tool.meta), ask_person=self._ask_person
        )
        try:
            return await run_tool(tool, plan, context)
        finally:
            live.close()

    async def _ask_person(self, prompt: PersonPrompt) -> PersonSaid | None:
        """See `ToolContext`."""
        prompts = self._broker.prompts
        if prompts is None or not self._context.caller.attended:
            return None
        return await prompts.ask(prompt, self._call_id, self._recorder)

    async def _outcome_without_result(self, ended: NoResult) -> ToolCallFailed | ToolCallUncertain:
        if not ended.is_known:
            return self._broker.outcome_writer.uncertain(self._call_id, ended.error)
        failed = self._failed(ended.error)
        if await self._may_be_done():
            return ToolCallUncertain(call_id=self._call_id, reason=failed.message)
        return failed

    async def _forbids(self, meta: ToolMeta, args: JsonObject) -> str:
        """See `ToolContext`."""
        context = self._context
        verdict = (await self._broker.rulings.of(meta, args, context.caller, context.reading)).verdict
        return verdict.refusal if verdict.decision is Decision.DENY else ""

    # --- how it ends ----------------------------------------------------------------------------------------------

    async def _fail(self, error: OzzieError) -> None:
        if self._only_asks:
            return
        await self._expect_not_done(error)
        await self._record_outcome(self._failed(error))

    async def _expect_not_done(self, why: OzzieError) -> None:
        """Record and raise ToolUncertain if an interrupted attempt may have succeeded and can't be repeated."""
        if await self._may_be_done():
            unknown = self._broker.outcome_writer.uncertain(self._call_id, why)
            await self._record_outcome(unknown)
            name = self._tool.meta.name if self._tool else self._use.name[:64]
            raise uncertain(called(name, arguments_of(self._use)), unknown.reason)

    async def _may_be_done(self) -> bool:
        """Whether a call that is repeated with its key may already have had its effect."""
        begun, tool = self._begun, self._tool
        if begun is None:
            return False
        if tool is None:
            return begun.in_doubt
        if not begun.in_doubt and (tool.meta.may_be_repeated or not tool.meta.takes_key):
            return False  # recovery has found already that it had no effect
        return begun.effect is None or await _happened(tool, begun.effect, self._context) is not False

    async def _record_result(self, meta: ToolMeta, result: ToolResult) -> Outcome:
        """Shorten a result and record it with what the call made."""
        outcome, kept = await self._broker.outcome_writer.outcome_of(
            self._call_id, meta, self._args, result, self._since
        )
        return await self._record_outcome(outcome, own=result.content, kept=kept)

    async def _record_outcome(self, outcome: Outcome, *, own: Content = CLEAN, kept: Sequence[Kept] = ()) -> Outcome:
        """Record the outcome and its artifacts, with the labels of all that was read; `own` are the result's."""
        content = await self._read(own)
        if content and not isinstance(outcome, ToolCallCancelled):
            outcome = msgspec.structs.replace(outcome, brought=content.sources)
        recorder = self._recorder.made_from(self._recorder.content | content)
        if kept:
            await self._broker.artifacts.record_all(recorder, kept, *self._unrecorded, outcome)
        else:  # the events before it quote nothing that was read since
            before = [(fact, self._recorder.content) for fact in self._unrecorded]
            await self._recorder.append_each([*before, (outcome, recorder.content)])
        return outcome

    async def _read(self, own: Content) -> Content:
        """Return the labels of everything read from outside so far; `own` are the result's own labels."""
        if not self._has_looked or self._tool is None:
            return own | self._provenance.content
        found = await brought(self._tool.meta, self._args, own, self._context.marks, has_run=self._has_run)
        return found | self._provenance.content

    def _failed(self, error: OzzieError) -> ToolCallFailed:
        return self._broker.outcome_writer.failure(self._call_id, error, self._since())

    def _cancelled(self, reason: str) -> ToolCallCancelled:
        return ToolCallCancelled(call_id=self._call_id, reason=reason)

    def _cut_off(self, meta: ToolMeta) -> ToolCallCancelled | ToolCallUncertain:
        reason = "The turn was stopped."
        if meta.may_be_repeated:
            return self._cancelled(reason)
        return ToolCallUncertain(call_id=self._call_id, reason=reason)

    def _since(self) -> float:
        return round((self._broker.clock.monotonic() - self._began) * 1000, 3)


class _NotedArtifacts:
    """A session's artifacts, for a call that notes the labels of those it opens."""

    def __init__(self, artifacts: ArtifactReader, provenance: Provenance) -> None:
        self._artifacts = artifacts
        self._provenance = provenance

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        artifact, data = await self._artifacts.open(artifact_id)
        self._provenance.add(artifact.content)
        # For example a replaced notebook: it is kept with the labels of the call that replaced it.
        if await asyncio.to_thread(holds_outputs, data):
            self._provenance.add(Content.of(Label.OUTPUT))
        return artifact, data

    async def under(self, beginning: str, kind: ArtifactKind) -> Sequence[Artifact]:
        return await self._artifacts.under(beginning, kind)
