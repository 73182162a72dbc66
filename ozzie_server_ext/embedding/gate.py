"""The gate without a gateway: a broker, a policy, approvals and a log.

All parts are the gateway's own. This only connects them: a stream for each call, and the way from a yes back to its
call.
"""

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.own_words import OwnWords
from ozzie_server_ext.agent.provenance import SessionReading
from ozzie_server_ext.agent.reads import read_by
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.approvals import REQUEST_EXPIRES_S, AuthStrength
from ozzie_server_ext.domain.calls import CallOutcome, CallRecord, fold_calls
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    Draft,
    Event,
    EventBody,
    LabelsCleared,
    MessageReceived,
    Origin,
    PromptRequested,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallUncertain,
    ToolUse,
    content_of,
)
from ozzie_server_ext.domain.ids import ArtifactId, CallId, MessageId, SessionId, TaskId, session_stream, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Idempotency,
    Reached,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.execution.bubblewrap import BubblewrapRunner
from ozzie_server_ext.execution.runner import JobRunner
from ozzie_server_ext.observability.clock import FakeClock, SystemClock, UlidSource
from ozzie_server_ext.policy.decision import UNREAD, Action, Caller, Reading
from ozzie_server_ext.policy.engine import Ruling
from ozzie_server_ext.policy.files import Policy, classes_of, read
from ozzie_server_ext.policy.words import Confirmation
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.store.blobs import BlobStore, FileBlobs, InMemoryBlobs
from ozzie_server_ext.store.contents import DatabaseBlobs
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.projections.marks import FileMarks
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.tasks.approvals import Answerer, Approval, Approvals
from ozzie_server_ext.tasks.spent import SpentToday
from ozzie_server_ext.tools.base import FunctionTool, Tool, ToolContext, ToolUncertain
from ozzie_server_ext.tools.broker import CallPosition, ToolBroker
from ozzie_server_ext.tools.cards import Card, changed, draw
from ozzie_server_ext.tools.outcome import OutcomeWriter
from ozzie_server_ext.tools.permissions import EarlierRequest, Grant, Permissions
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.web.port import Web
from ozzie_server_ext.web.reach import ErrandWeb


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a call, by `status`:

    - `done`: `data` is the result without secrets; of a large one its beginning and end, and the whole is the first of
      `artifacts`.
    - `asked`: nothing was done; `asked` is the request for an approval.
    - `failed`: nothing was done, or the tool failed. `code` and `message` say why.
    - `uncertain`: it was started, and it is unknown whether it took effect. It is not repeated. `message` says why.
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
        """The approval that it waits for, or empty."""
        return self.asked.approval_id if self.asked else ""


def record_of(facts: Iterable[EventBody]) -> CallRecord:
    """Return the one call that the facts of a stream are about."""
    (record,) = fold_calls(facts).values()
    return record


def _outcome(fact: CallOutcome) -> Outcome:
    match fact:
        case ToolCallCompleted(call_id=call_id, ok=True):
            return Outcome(call_id=call_id, status="done", data=fact.data, artifacts=fact.artifacts)
        case ToolCallCompleted(call_id=call_id):
            error = fact.data if isinstance(fact.data, dict) else {}
            code, message = str(error.get("code", "tool.failed")), str(error.get("message", ""))
            return Outcome(
                call_id=call_id, status="failed", data=fact.data, code=code, message=message, artifacts=fact.artifacts
            )
        case ToolCallFailed(call_id=call_id, code=code, message=message):
            return Outcome(call_id=call_id, status="failed", code=code, message=message)
        case ToolCallCancelled(call_id=call_id, reason=reason):
            return Outcome(call_id=call_id, status="failed", code="cancelled", message=reason)
        case ToolCallUncertain(call_id=call_id, reason=reason):
            return Outcome(call_id=call_id, status="uncertain", code="tool.uncertain", message=reason)


Reaching: TypeAlias = Callable[[JsonObject], Awaitable[Iterable[tuple[str, str] | tuple[str, str, str]]]]

_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ToolContext)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def plain_tool(
    function: Callable[..., Awaitable[Any]], meta: ToolMeta, reaches: Reaching | None = None
) -> FunctionTool:
    """Return a tool for a function, which may take a ToolContext first and must return JSON or a ToolResult. `reaches`
    returns whom or what a call reaches beyond its arguments: pairs of a kind and a text; with an id from the arguments
    as the third, another name of what has that id.

    Raises InputError if the function can't be a tool, Bug for inconsistent metadata.
    """
    name = getattr(function, "__name__", "the function")
    if not inspect.iscoroutinefunction(function):
        raise InputError(f"{name} has to be an async function.", code="tool.function")
    if not function.__doc__:
        raise InputError(f"{name} needs a docstring: it is what a model reads of the tool.", code="tool.function")
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    takes_context = bool(parameters) and parameters[0].annotation is ToolContext
    arguments = parameters[1:] if takes_context else parameters
    for argument in arguments:
        if argument.kind not in _NAMED or argument.annotation is inspect.Parameter.empty:
            raise InputError(f"{name}: the argument {argument.name} needs a name and a type.", code="tool.function")

    async def run(context: ToolContext, **args: Any) -> ToolResult:
        found = await (function(context, **args) if takes_context else function(**args))
        return found if isinstance(found, ToolResult) else ToolResult(ok=True, data=found)

    run.__doc__ = function.__doc__
    named = [argument.replace(kind=inspect.Parameter.KEYWORD_ONLY) for argument in arguments]
    run.__signature__ = inspect.Signature([_CONTEXT, *named])

    async def reached(args: JsonObject) -> Iterable[Reached]:
        return [Reached(TargetKind(kind), *more) for kind, *more in await reaches(args)] if reaches else ()

    return FunctionTool(run, meta, reaches=reached if reaches else None)


POLICY_TEXT = Path("policy.jsonc")
"""The file name in decisions by a policy that is given as a text."""
_POSITION = CallPosition(round=1, index=0)


@asynccontextmanager
async def open_gate(
    folder: Path | None = None,
    *,
    project: Path | None = None,
    caller: Caller | None = None,
    session: str = "embedded",
    expires_s: float = REQUEST_EXPIRES_S,
    known_secrets: Callable[[], Sequence[str]] = tuple,
    clock: SystemClock | FakeClock | None = None,
    web: Web | None = None,
) -> AsyncIterator["Gate"]:
    """Open a gate for the `async with`.

    - `folder`: the place of the log (`gate.db`) and the blobs, which outlive the program; without it, all is in memory.
      One gate at a time writes to a folder: the one that was opened last.
    - `project`: the folder of tools for files; by default the current one.
    - `caller`: for whom calls are made, for the rules.
    - `session`: the scope of a yes for the session.
    - `expires_s`: how long an approval waits.
    - `known_secrets`: texts to remove from everything that is recorded.
    - `web`: the access of tools to the web; by default to public addresses only.

    Raises OSError or OzzieError if the folder can't be used.
    """
    clock = clock or SystemClock()
    ids = UlidSource(clock)
    root = (project or Path.cwd()).resolve()
    async with AsyncExitStack() as closing:
        if folder is None:
            log: EventLog = InMemoryEventLog(clock, ids)
            blobs: BlobStore = InMemoryBlobs()
        else:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            log = await SqliteEventLog.open(folder / "gate.db", clock=clock, ids=ids)
            blobs = DatabaseBlobs(log, FileBlobs(folder / "blobs"))
        closing.push_async_callback(log.close)
        jobs = BubblewrapRunner(ids)
        closing.push_async_callback(jobs.close)
        who = replace(caller or Caller(), project=str(root))
        yield Gate(
            log, blobs, clock, ids, root, who, SessionId(session), expires_s, known_secrets, jobs, web or ErrandWeb()
        )


class Gate:
    """The gate, made by `open_gate`. `approvals` takes the answers, `registry` has the tools, `log` all events, and
    `artifacts` and `blobs` what is too long for the log."""

    def __init__(
        self,
        log: EventLog,
        blobs: BlobStore,
        clock: SystemClock | FakeClock,
        ids: UlidSource,
        project: Path,
        caller: Caller,
        session_id: SessionId,
        expires_s: float,
        known_secrets: Callable[[], Sequence[str]],
        jobs: JobRunner,
        web: Web,
    ) -> None:
        self.log = log
        self.blobs = blobs
        self.session_id = session_id
        self.registry = ToolRegistry()
        self.artifacts = ArtifactStore(log, blobs, ids)
        self.approvals = Approvals(log, clock)
        self._ids = ids
        self._rules = _Rules(SpentToday(log, clock))
        permissions = Permissions(self.artifacts, clock, ids, self.approvals, lambda: expires_s, known_secrets)
        outcome_writer = OutcomeWriter(self.artifacts, known_secrets)
        self._broker = ToolBroker(self.registry, self._rules, permissions, outcome_writer, self.artifacts, clock, ids)
        self._context = ToolContext(
            project,
            clock,
            caller,
            artifacts=self.artifacts.of(session_id),
            jobs=jobs,
            marks=FileMarks(log, project),
            web=web,
        )
        self._readings, self._own_words, self._position = SessionReading(), OwnWords(), 0
        self._requested: dict[CallId, ToolCallRequested] = {}
        self._reached: dict[CallId, tuple[Reached, ...]] = {}
        self._made: set[str] = set()
        self._making: Counter[str] = Counter()
        self._reads: list[Action | None] = []
        self._busy: set[TaskId] = set()

    def add(self, *tools: Tool) -> None:
        """Add existing tools, such as `builtin_tools()`. Raises Conflict for a name in use."""
        for tool in tools:
            self.registry.register(tool)

    def register(
        self,
        function: Callable[..., Awaitable[Any]],
        *,
        tool_id: str,
        side_effect: SideEffect | str,
        risk_level: RiskLevel | str,
        idempotency: Idempotency | str = Idempotency.NOT_SUPPORTED,
        timeout_s: float = 30.0,
        categories: Iterable[Category | str] = (),
        targets: Mapping[str, TargetKind | str] | None = None,
        reaches: Reaching | None = None,
        max_inline_chars: int = 4000,
        brings: Label | str | None = None,
        is_outbound: bool = False,
        keeps_labels: bool = False,
        further_names: Iterable[str] = (),
        told_by: Content = CLEAN,
        own_data: bool = False,
        overview: bool = False,
        carries: Iterable[str] = (),
    ) -> Tool:
        """Make a tool from an async function and add it under the function's name. Its signature is the schema of the
        arguments, the first paragraph of its docstring the description for models. It returns JSON or a ToolResult; it
        raises ToolFailed if it did nothing, Unsettled if it can't tell. `targets` maps the arguments that name what a
        call acts on to a kind (`TargetKind`); an amount is followed by its currency, "amount EUR", or the argument that
        has it. `reaches` returns whom or what a call reaches beyond its arguments, such as `("recipient", address)` of
        whoever gets the answer to a mail; a third text is an id in the arguments, of which this is another name, as
        `("object", "Q1 figures", "d7")`. It must have no effect, and raises ToolFailed if it can't tell. For the other
        parameters see `ToolMeta`.

        Raises InputError if the function can't be a tool, ValueError for an unknown word, Bug for inconsistent
        metadata, Conflict for a name in use.
        """
        meta = ToolMeta(
            tool_id=tool_id,
            name=function.__name__,
            side_effect=SideEffect(side_effect),
            risk_level=RiskLevel(risk_level),
            idempotency=Idempotency(idempotency),
            timeout_s=timeout_s,
            categories=frozenset(map(Category, categories)),
            targets=tuple(_target(argument, *kind.split(" ", 1)) for argument, kind in (targets or {}).items()),
            max_inline_chars=max_inline_chars,
            brings=None if brings is None else Label(brings),
            is_outbound=is_outbound,
            keeps_labels=keeps_labels,
            further_names=tuple(further_names),
            told_by=told_by,
            own_data=own_data,
            overview=overview,
            carries=tuple(carries),
        )
        tool = plain_tool(function, meta, reaches)
        self.registry.register(tool)
        return tool

    def set_policy(self, rules: str | Path) -> tuple[str, ...]:
        """Replace the rules by those of a file or a text. Return warnings, such as about unknown tools: so register
        them first.

        Raises ConfigError or JsoncError, with place and reason, if they are invalid; the old rules stay then.
        """
        path = rules if isinstance(rules, Path) else POLICY_TEXT
        found = read(path, rules.read_bytes() if isinstance(rules, Path) else rules.encode(), self.registry.find)
        self._rules.policy = Policy(files=(found, *classes_of((found,))))
        return found.warnings

    async def said(self, text: str, by: Answerer) -> None:
        """Record a message of which this person typed all, and which they sent just now: the following calls are made
        for it, and what it names may let one pass (docs/policy.md, Your own words). Your program answers for it, as it
        does for the way of an answer. Nothing that came from elsewhere belongs into it.

        Raises InputError for a blank text.
        """
        if not text.strip():
            raise InputError("A message has to say something.", code="message.blank")
        task_id = TaskId(self._ids.new())
        origin = Origin(channel="embedding", sender_id=by.name)
        message = MessageReceived(message_id=MessageId(task_id), text=text, origin=origin)
        confirmed = Confirmation.of(by.name, "terminal", text, people=self._rules.policy.people)
        recorder = self._recorder(task_id, actor="user")
        await recorder.append(message, confirmed.fact(message.message_id))

    async def call(
        self, name: str, args: Mapping[str, Any] | str = "{}", *, again: str = "", labels: Sequence[str] = ()
    ) -> Outcome:
        """Call a tool by its name or id. An invalid call is an outcome, too. `args` are an object, or the text that a
        model wrote for one.

        `again` is the approval that the same call needed: with a yes the call is made; if the yes is void by now, the
        approval is requested again. A call has one outcome, which repeats return. With other arguments it is another
        call, without the yes.

        A call may be made from the results of all earlier calls of the session, so it has their labels until a person
        clears them (`clear_labels`). `labels` adds further labels or sources: `web`, `mcp:tickets`.

        Raises ValueError for an unknown label, NotFound if `again` is no approval of this session, Conflict if that
        call is being made now, TypeError for arguments that are not JSON, and what the log raises. A cancellation is
        recorded.
        """
        content = Content.named(labels)
        text = args if isinstance(args, str) else json.dumps(args)
        if again:
            found = await self._expect(again)
            record = await self._record(found.task_id)
            if self._is_same(record, name, text):
                return await self._again(found.task_id, name, text, content)
        return await self._make(TaskId(self._ids.new()), name, text, content, None)

    async def content(self) -> Content:
        """Return the labels and sources of everything that the session has read, which its next call has."""
        return (await self._read()).content

    async def clear_labels(self, by: Answerer) -> Content:
        """Clear the session's labels by a person's decision; return what they were. Until something is read again,
        calls then count as made from the user's own content. The decision is recorded."""
        found = await self.content()
        cleared = LabelsCleared(by=by.name, way=by.way)
        draft = Draft(body=cleared, actor="user", source="embedding", session_id=self.session_id)
        await self.log.append(session_stream(self.session_id), [draft])
        return found

    async def card(self, approval_id: str) -> Card:
        """Return everything that a person must read before answering an approval, including texts that look like
        secrets, which `Outcome.asked` lacks. Show it to nobody else.

        Raises NotFound, and Conflict if the call would now do something else.
        """
        found = await self._expect(approval_id)
        requested = (await self._record(found.task_id)).requested
        tool = None if requested is None else self.registry.find(requested.tool_id)
        if requested is None or tool is None:
            raise changed("Its tool is gone.")
        return await draw(
            tool, requested.args, found.asked, msgspec.structs.replace(self._context, key=found.asked.key)
        )

    async def events(self) -> tuple[Event, ...]:
        """Return all events of the session, in order. `log` has others, such as refused answers."""
        found: list[Event] = []
        while page := await self.log.read(session_id=self.session_id, after=found[-1].position if found else 0):
            found += page
        return tuple(found)

    async def _read(self) -> Reading:
        """Return the provenance of the session's conversation so far."""
        while page := await self.log.read(session_id=self.session_id, after=self._position, erased=True):
            for event in page:
                self._readings.apply(event)
                self._own_words.apply(event)
                self._count(event.body)
            self._position = page[-1].position
        words, message = self._own_words.now, self._own_words.last_message
        made, reads = frozenset(self._made), tuple(self._reads)
        return replace(self._readings.now, words=words, message=message, made=made, reads=lambda: reads)

    def _count(self, fact: EventBody) -> None:
        """Keep which tools were called for the last message, and what calls told."""
        match fact:
            case MessageReceived():
                self._made.clear()
            case ToolCallRequested(call_id=call_id):
                self._requested[call_id] = fact
            case ToolCallDecided(call_id=call_id, reaches=reaches):
                self._reached[call_id] = reaches
            case ToolCallCompleted(call_id=call_id, ok=True) | ToolCallUncertain(call_id=call_id):
                reached, requested = self._reached.pop(call_id, ()), self._requested.pop(call_id, None)
                if requested is not None:
                    self._made.add(requested.name)
                    tool = self.registry.find(requested.name)
                    self._reads += read_by(None if tool is None else tool.meta, requested.args, reached)
            case _:
                pass

    async def _again(self, task_id: TaskId, name: str, args: str, content: Content) -> Outcome:
        if task_id in self._busy:
            raise Conflict("That call is being made right now.", code="call.busy")
        self._busy.add(task_id)
        try:
            await self.approvals.expire()
            record = await self._record(task_id)
            if record.outcome is not None:
                return _outcome(record.outcome)
            if record.started:
                return await self._cut_off(task_id, record)
            assert record.approval is not None, "an approval led here"
            newest = await self.approvals.get(record.approval.approval_id)
            if newest.status == "pending":
                return _pending(record)
            return await self._make(task_id, name, args, content, _earlier(newest))
        finally:
            self._busy.discard(task_id)

    async def _make(
        self, task_id: TaskId, name: str, args: str, content: Content, earlier: EarlierRequest | None
    ) -> Outcome:
        tool = self.registry.find(name)
        with self._counted(name if tool is None else tool.meta.name) as others:
            reading = await self._read()
            reading = replace(reading, content=reading.content | content, made=reading.made | others)
            return await self._carry_out(task_id, name, args, reading, earlier)

    @contextmanager
    def _counted(self, name: str) -> Iterator[frozenset[str]]:
        """Count a call that is being made; yield the names of the tools that others call meanwhile."""
        self._making[name] += 1
        try:
            yield frozenset(each for each, count in self._making.items() if count > (each == name))
        finally:
            self._making[name] -= 1

    async def _carry_out(
        self, task_id: TaskId, name: str, args: str, reading: Reading, earlier: EarlierRequest | None
    ) -> Outcome:
        recorder = self._recorder(task_id).made_from(reading.content)
        context = msgspec.structs.replace(self._context, reading=reading)
        use = ToolUse(call_id=CallId(task_id), name=name, arguments=args)
        with suppress(ToolUncertain):  # the log has the outcome
            asking = await self._broker.call(use, _POSITION, context, recorder, earlier)
            if asking is not None and isinstance(asking.request, PromptRequested):
                await recorder.append(*asking.unrecorded, _nobody_answers(record_of(asking.unrecorded)))
            elif asking is not None:
                await recorder.append(*asking.facts)
        record = await self._record(task_id)
        return _outcome(record.outcome) if record.outcome else _pending(record)

    async def _cut_off(self, task_id: TaskId, record: CallRecord) -> Outcome:
        """Record that a call is uncertain, because the program that started it has ended."""
        words = "The program ended while it was made."
        read = content_of(await self.log.read_stream(task_stream(task_id)))
        unknown = ToolCallUncertain(call_id=record.call_id, reason=words)
        await self._recorder(task_id).made_from(read).append(unknown)
        outcome = (await self._record(task_id)).outcome
        assert outcome is not None
        return _outcome(outcome)

    def _recorder(self, task_id: TaskId, **more: Any) -> Recorder:
        return Recorder(log=self.log, session_id=self.session_id, task_id=task_id, source="embedding", **more)

    async def _expect(self, approval_id: str) -> Approval:
        found = await self.approvals.get(approval_id)
        if found.session_id != self.session_id:
            raise NotFound("There is no such approval in this session.")
        return found

    async def _record(self, task_id: TaskId) -> CallRecord:
        return record_of(event.body for event in await self.log.read_stream(task_stream(task_id)))

    def _is_same(self, record: CallRecord, name: str, args: str) -> bool:
        """Whether the record is about the same tool and, after the tool's check, the same arguments. A wrong match does
        no harm: the broker compares the yes with the planned call."""
        tool = self.registry.find(name)
        requested = record.requested
        if tool is None or requested is None or tool.meta.tool_id != requested.tool_id:
            return False
        try:
            meant = tool.check(loads_object(args, surrogates="repair"))
            return canonical_bytes(meant) == canonical_bytes(requested.args)
        except OzzieError:
            return False


class _Rules:
    """The current rules, and what was spent today, by the log of the gate."""

    def __init__(self, spent: SpentToday) -> None:
        self._spent = spent
        self.policy = Policy(files=classes_of(()))

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        return await self._spent.ruling(self.policy, meta, args, caller, reading)

    def deciding(self, meta: ToolMeta) -> AbstractAsyncContextManager[object]:
        return self._spent.deciding(meta)


def _target(argument: str, kind: str, currency: str = "") -> Target:
    return Target(argument, TargetKind(kind), currency=currency)


def _nobody_answers(record: CallRecord) -> ToolCallFailed:
    """Return the failure of a tool that asks a question: only approvals can be answered here."""
    assert record.requested is not None, "the first event of each call"
    words = f"Not done: nobody is here to answer a question ({record.requested.name})."
    return ToolCallFailed(call_id=record.call_id, code="policy.unattended", message=words, duration_ms=0.0)


def _pending(record: CallRecord) -> Outcome:
    return Outcome(call_id=record.call_id, status="asked", asked=record.approval)


def _earlier(approval: Approval) -> EarlierRequest:
    """Return an earlier approval of the same call, for the broker."""
    grant = None
    if approval.status == "granted" and not approval.why and approval.answered_at is not None:
        grant = Grant(way=AuthStrength(approval.way), at=approval.answered_at)
    return EarlierRequest(asked=approval.asked, grant=grant, is_open=approval.status == "pending")
