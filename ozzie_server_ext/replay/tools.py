"""The tools of a replay: each call would do what it would have done, and comes to the end that was recorded; no tool is
planned or run.

A tool that hands work over to a skill is the exception: the skill's own calls are recorded, so it is run.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ozzie_server_ext.artifacts.store import Kept
from ozzie_server_ext.domain.artifacts import blob_of
from ozzie_server_ext.domain.calls import CallRecord
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalRequested,
    ArtifactCreated,
    Event,
    PromptRequested,
    StepCompleted,
    StepFailed,
    StepStarted,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import ApprovalId, BlobRef, CallId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, ToolMeta, ToolResult, ToolSpec
from ozzie_server_ext.plugins.plugin_tool import NoWatch, tools_of_plugin
from ozzie_server_ext.plugins.server_words import all_tools_of
from ozzie_server_ext.plugins.tool_host import Connection
from ozzie_server_ext.replay.record import MissingFact, Record
from ozzie_server_ext.replay.stage import Stage
from ozzie_server_ext.skills.briefing import Order
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks import plugin_tools, server_tools
from ozzie_server_ext.tasks.progress import TaskEnds
from ozzie_server_ext.tasks.reconciliation import Reconciler
from ozzie_server_ext.tasks.times import RECOVERY
from ozzie_server_ext.tasks.workflows.executor import NotAtOnce, Outcome
from ozzie_server_ext.tasks.workflows.quick_calls import QuickCalls
from ozzie_server_ext.tools.base import (
    Before,
    ModelQuestion,
    Offered,
    Plan,
    Preview,
    Tool,
    ToolContext,
    ToolFailed,
    Unsettled,
)
from ozzie_server_ext.tools.broker import ToolBroker
from ozzie_server_ext.tools.outcome import OutcomeWriter
from ozzie_server_ext.tools.questions import TEXT
from ozzie_server_ext.tools.registry import ToolRegistry

_OUTCOMES = (ToolCallCompleted, ToolCallFailed, ToolCallCancelled, ToolCallUncertain)


class RecordedCall(msgspec.Struct, kw_only=True):
    """All that was recorded of one call, in order. `artifacts` are those that were recorded with its outcome."""

    call_id: CallId
    events: list[Event] = msgspec.field(default_factory=list[Event])
    has_changed: bool = False
    """Whether a request for its approval was void, because it would have done something else by then."""

    @property
    def started(self) -> ToolCallStarted | None:
        return next((event.body for event in self.events if isinstance(event.body, ToolCallStarted)), None)

    @property
    def end(self) -> Event | None:
        """The event of its outcome."""
        return next((event for event in self.events if isinstance(event.body, _OUTCOMES)), None)

    @property
    def last(self) -> Event:
        """Its outcome; without one, what was recorded of it last."""
        return self.end or self.events[-1]

    @property
    def made(self) -> list[Event]:
        """The artifacts that it made, which stand before its outcome."""
        began = next((event.position for event in self.events if isinstance(event.body, ToolCallStarted)), 0)
        made = [event for event in self.events if isinstance(event.body, ArtifactCreated)]
        return [event for event in made if event.position > began or not began]


class RecordedCalls:
    """The calls of the record by the place where they are made: a task, its round and the index; or a step of a run,
    for a call without a task. A call that was repeated stands for several."""

    def __init__(self, record: Record, stage: Stage) -> None:
        self.record = record
        self.stage = stage
        self._calls: dict[CallId, RecordedCall] = {}
        self._places: dict[str, list[RecordedCall]] = {}
        self._steps: dict[str, str] = {}
        self.allowed = {
            event.body.approval_id: event.body
            for event in record.events
            if isinstance(event.body, ToolCallStarted) and event.body.approval_id is not None
        }
        """What each approval was used for, which may be a later call: a restart may have come between."""
        early: dict[CallId, list[Event]] = {}
        asked: dict[ApprovalId, RecordedCall] = {}
        for event in record.events:
            call_id: CallId | None = getattr(event.body, "call_id", None)
            if isinstance(event.body, ToolCallRequested):
                requested = event.body
                place = _step(event.task_id, requested.step_id) if requested.step_id else str(event.task_id)
                place = place if requested.step_id else f"{place}-{requested.round}-{requested.index}"
                # What it replaces, and a long proof, are recorded before a call that is requested in the same append.
                call = RecordedCall(call_id=requested.call_id, events=early.pop(requested.call_id, []))
                self._calls[requested.call_id] = call
                self._places.setdefault(place, []).append(call)
            if call_id is not None and call_id in self._calls:
                self._calls[call_id].events.append(event)
            elif call_id is not None:
                early.setdefault(call_id, []).append(event)
            match event.body:
                case ApprovalRequested(call_id=call_id, approval_id=approval_id) if call_id in self._calls:
                    asked[approval_id] = self._calls[call_id]
                case ApprovalExpired(approval_id=approval_id, why="changed") if approval_id in asked:
                    asked[approval_id].has_changed = True
                case _:
                    pass

    def make_at_once(self, task_id: TaskId, run: TaskId, step_id: str) -> bool:
        """Note that a step of a run makes its call without a task: with one, it would have had this id. Return False if
        it did not come to such a call."""
        place = self._steps[task_id] = _step(TaskId(self.stage.ids.then(run)), step_id)
        return any(call.last.position >= self.stage.cursor.position for call in self._places.get(place, []))

    def make_with_task(self, task_id: TaskId) -> None:
        """Note that the call is made by that task after all."""
        del self._steps[task_id]

    async def wait_for(self, task_id: TaskId) -> None:
        """Wait until the call that a step makes without that task comes to be recorded."""
        if (call := self.at(f"{task_id}-1-0")) is not None:
            await self.stage.until(call.events[0])

    def has_task(self, run: TaskId, step_id: str) -> bool:
        """Whether the next start of a step that a run records is one with a task of its own."""
        for event in self.stage.ahead(run):
            if isinstance(event.body, StepStarted) and event.body.step_id == step_id:
                return event.body.task is not None
        return False

    def at(self, key: str) -> RecordedCall | None:
        """Return the call with this key (`ToolContext.key`) that is made next; None if none was."""
        task_id, _, _ = key.rsplit("-", 2)
        found = self._places.get(self._steps.get(task_id) or self.stage.ids.then(key), [])
        position = self.stage.cursor.position
        for call in found:
            if call.last.position >= position:
                return call
        return None

    def is_at_once(self, key: str) -> bool:
        """Whether the call with this key is made by a step without a task."""
        return key.rsplit("-", 2)[0] in self._steps

    def of(self, call_id: CallId) -> RecordedCall | None:
        """Return the call with this id, which is one of the replay."""
        return self._calls.get(CallId(self.stage.ids.then(call_id)))

    def ahead(self, call: RecordedCall) -> Iterator[Event]:
        """Yield the events of a call that are still to come."""
        position = self.stage.cursor.position
        return (event for event in call.events if event.position >= position)


def _step(run: TaskId | None, step_id: str) -> str:
    return f"{run}/{step_id}"


class RecordedResult(ToolResult):
    """Stands for the result of a recorded call."""

    call: RecordedCall

    def __init__(self, call: RecordedCall) -> None:
        brought = getattr(call.last.body, "brought", ())
        super().__init__(ok=True, content=Content.from_sources(brought))
        object.__setattr__(self, "call", call)  # results are frozen


class RecordedTool:
    """A tool with its real contract, whose calls go as they went."""

    waits = False
    plan_waits = False

    def __init__(self, tool: Tool, calls: RecordedCalls) -> None:
        self.meta: ToolMeta = tool.meta
        self.spec: ToolSpec = tool.spec
        self._tool = tool
        self._calls = calls

    def check(self, args: JsonObject) -> JsonObject:
        return self._tool.check(args)

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        """Return what the call had planned, as far as it was recorded. Raises the error that the call ended with if it
        was never made or asked for."""
        try:
            return self._recorded(args, context)
        except MissingFact as missing:
            await self._calls.stage.lacks(missing)

    def _recorded(self, args: JsonObject, context: ToolContext) -> Plan:
        call = self._calls.at(context.key)
        if call is None:  # the stage finds that it was not recorded
            return Plan(args=args)
        decided = next(
            (event.body for event in self._calls.ahead(call) if isinstance(event.body, ToolCallDecided)), None
        )
        plan = Plan(
            args=args,
            content=self._read_more(call, context),
            categories=frozenset() if decided is None else self._categories(decided),
            reaches=() if decided is None else decided.reaches,
        )
        for event in self._calls.ahead(call):
            match event.body:
                case ToolCallStarted() as started:
                    return self._planned(plan, call, started)
                case ApprovalRequested() as asked:
                    context.provenance.add(Content.from_sources(asked.brought))
                    return self._asking(plan, call, asked)
                case PromptRequested() as asked:
                    return msgspec.structs.replace(plan, question=_question(asked))
                case ToolCallCompleted():
                    return msgspec.structs.replace(plan, nothing=RecordedResult(call))
                case ToolCallFailed() if plan.categories or plan.reaches or plan.content:
                    return plan  # it was refused for what the plan showed
                case ToolCallFailed(code=code, message=message, brought=brought):
                    context.provenance.add(Content.from_sources(brought))
                    raise ToolFailed(message, code=code)
                case _:
                    pass
        return plan

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        """Return once the call ended in the record. Raises what it ended with; waits for ever if it was cut off."""
        call = self._calls.at(context.key)
        end = None if call is None else call.end
        if end is not None and isinstance(end.body, ToolCallCancelled):
            context.provenance.add(end.content)  # it had read something when it was stopped
        if call is None or end is None or end.source == RECOVERY or isinstance(end.body, ToolCallCancelled):
            await self._calls.stage.for_ever()
        if not self._calls.is_at_once(context.key):  # that is recorded with the end of its step
            await self._until(min((*call.made, end), key=lambda event: event.position))
        match end.body:
            case ToolCallFailed(code=code, message=message, brought=brought):
                context.provenance.add(Content.from_sources(brought))
                raise ToolFailed(message, code=code)
            case ToolCallUncertain(reason=reason, brought=brought):
                context.provenance.add(Content.from_sources(brought))
                raise Unsettled(reason)
            case _:
                return RecordedResult(call)

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        """What a person or the tool found out is recorded."""
        return None

    async def _until(self, event: Event) -> None:
        """Wait for what the call ended with. A call that had its result although its turn was stopped has it now."""
        waiting = asyncio.ensure_future(self._calls.stage.until(event))
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                if waiting.cancelled():
                    raise

    def _read_more(self, call: RecordedCall, context: ToolContext) -> Content:
        """Return what the plan found the call to be made from beyond the conversation."""
        decisions = (event for event in self._calls.ahead(call) if isinstance(event.body, ToolCallDecided))
        labelled = next((event.content for event in decisions), CLEAN)
        known = context.reading.content
        return labelled if known | labelled != known else CLEAN

    def _categories(self, decided: ToolCallDecided) -> frozenset[Category]:
        """Return the categories that the plan showed. Earlier versions recorded them only as the rule of a floor."""
        if decided.categories:
            return frozenset(decided.categories)
        by_floor = (category for category in Category if decided.rule == f"floor.{category.value}")
        return frozenset(by_floor) - self.meta.categories

    def _planned(self, plan: Plan, call: RecordedCall, started: ToolCallStarted) -> Plan:
        before = None
        if started.before is not None:
            kept, content = self._calls.record.artifact(started.before)
            before = Before(name=kept.name, mime=kept.mime, content=content)
        return msgspec.structs.replace(plan, effect=started.effect, writes=started.writes, before=before)

    def _asking(self, plan: Plan, call: RecordedCall, asked: ApprovalRequested) -> Plan:
        """Return the plan of a call that was asked for. What it would have done counts as it was done later; if it has
        changed meanwhile, each request counts as another plan."""
        proof = asked.proof
        if asked.whole is not None:
            _, whole = self._calls.record.artifact(asked.whole)
            proof = whole.decode()
        preview = Preview(sentence=asked.sentence, proof=proof, shown=asked.shown, undo=asked.undo)
        later = self._calls.allowed.get(asked.approval_id) or call.started
        is_last = not any(
            isinstance(event.body, ApprovalRequested) and event.body.approval_id != asked.approval_id
            for event in self._calls.ahead(call)
        )
        if later is not None and (is_last or not call.has_changed):
            plan = self._planned(plan, call, later)
        elif call.has_changed:
            plan = msgspec.structs.replace(plan, effect={"asked": asked.approval_id})
        return msgspec.structs.replace(plan, preview=lambda: preview)


class RecordedOutsideTools:
    """Keeps the tools of MCP servers and plugins of the time that the replay has come to in a registry. `stream` has
    the records of one kind, and `made` makes the tools from one."""

    def __init__(
        self,
        record: Record,
        stage: Stage,
        registry: ToolRegistry,
        calls: RecordedCalls,
        stream: str,
        made: Callable[[bytes], Iterable[Tool]],
    ) -> None:
        self._record = record
        self._stage = stage
        self._registry = registry
        self._calls = calls
        self._stream = stream
        self._made = made
        self._version = ""
        self._tools: tuple[Tool, ...] = ()

    async def refresh(self) -> None:
        """Take over what was used now. Raises MissingFact."""
        found = self._record.settings_at(self._stream, self._stage.cursor.position)
        if found is None or found.version == self._version:
            return
        tools = self._made(self._record.blob(found.blob, f"the {self._stream} of then"))
        self._tools = self._registry.replace(self._tools, recorded(tools, self._calls))
        self._version = found.version


def of_servers(content: bytes) -> Iterator[Tool]:
    """Yield the tools of recorded servers. Raises InvalidJson, InvalidShape."""
    return (tool for server in server_tools.from_record(content) for tool in all_tools_of(server, _not_here))


def of_plugins(content: bytes) -> Iterator[Tool]:
    """Yield the tools of recorded plugins. Raises InvalidJson, InvalidShape."""
    found = plugin_tools.from_record(content)
    return (tool for plugin in found for tool in tools_of_plugin(plugin, _not_here, NoWatch()))


async def _not_here() -> Connection:
    raise Bug("A replay connects to nobody.")


def _question(asked: PromptRequested) -> ModelQuestion:
    choices = tuple(
        Offered(label=option.label, help=option.help)
        for option in asked.options
        if option.name != TEXT and option.name.isdigit()
    )
    return ModelQuestion(
        text=asked.question, choices=choices, is_free=any(option.name == TEXT for option in asked.options)
    )


class RecordedOutcomes(OutcomeWriter):
    """Writes the outcome that was recorded in the place of a result."""

    async def outcome_of(
        self, call_id: CallId, meta: ToolMeta, args: JsonObject, result: ToolResult, since: Callable[[], float]
    ) -> tuple[ToolCallCompleted | ToolCallFailed, list[Kept]]:
        if not isinstance(result, RecordedResult):
            return await super().outcome_of(call_id, meta, args, result, since)
        call, ended = result.call, result.call.last.body
        if not isinstance(ended, ToolCallCompleted | ToolCallFailed):
            raise MissingFact("the result of a tool call")
        made = [_kept(event.body, call_id) for event in call.made if isinstance(event.body, ArtifactCreated)]
        return msgspec.structs.replace(ended, call_id=call_id, brought=result.content.sources), made


def _kept(created: ArtifactCreated, call_id: CallId) -> Kept:
    return Kept(
        artifact_id=created.artifact_id,
        kind=created.kind,
        name=created.name,
        mime=created.mime,
        size=created.size,
        blob=BlobRef(blob_of(created.storage_ref)),
        call_id=call_id,
        meta=created.meta,
    )


class RecordedReconciler(Reconciler, frozen=True, kw_only=True):
    """Knows what became of calls that were cut off."""

    calls: RecordedCalls

    async def was_done(self, call: CallRecord) -> bool | None:
        """See `Reconciler`."""
        recorded = self.calls.of(call.call_id)
        match recorded.last.body if recorded is not None else None:
            case ToolCallCompleted():
                return True
            case ToolCallFailed() | ToolCallCancelled():
                return False
            case _:
                return None


class RecordedQuickCalls(QuickCalls):
    """Says which calls steps make without a task."""

    def __init__(self, broker: ToolBroker, meta: Callable[[str], ToolMeta | None], calls: RecordedCalls) -> None:
        super().__init__(broker, meta)
        self._calls = calls

    async def make(self, order: Order, step_id: str, task_id: TaskId, context: ToolContext, run: Recorder) -> Outcome:
        if not self._calls.make_at_once(task_id, run.task_id, step_id):
            if self._calls.has_task(run.task_id, step_id):
                self._calls.make_with_task(task_id)
                return NotAtOnce()
            await self._calls.stage.for_ever()  # it was cut off before anything was recorded
        if self._calls.has_task(run.task_id, step_id):  # it took so long that its start was recorded
            await self._calls.wait_for(task_id)
        return await super().make(order, step_id, task_id, context, run)


class RecordedTaskEnds(TaskEnds):
    """Tells runs of the ends of their steps' tasks in the order in which they heard of them."""

    def __init__(self, log: EventLog, record: Record, stage: Stage) -> None:
        super().__init__(log)
        self._stage = stage
        self._ends: dict[TaskId, Event] = {}
        begun: dict[tuple[TaskId | None, str], TaskId] = {}
        for event in record.events:
            match event.body:
                case StepStarted(step_id=step_id, task=task) if task is not None:
                    begun[event.task_id, step_id] = task
                case StepCompleted(step_id=step_id) | StepFailed(step_id=step_id):
                    if (task := begun.pop((event.task_id, step_id), None)) is not None:
                        self._ends[task] = event
                case _:
                    pass

    async def wait(self, task_id: TaskId) -> Row:
        row = await super().wait(task_id)
        end = self._ends.get(TaskId(self._stage.ids.then(task_id)))
        if end is not None:
            await self._stage.rather(end)
        return row


def recorded(tools: Iterable[Tool], calls: RecordedCalls) -> Iterator[Tool]:
    """Yield tools whose calls go as they went; those that hand work over to a skill do that."""
    return (tool if tool.meta.delegates_to else RecordedTool(tool, calls) for tool in tools)
