"""The decisions on the calls of a session, each with all that it was made from, as the log has it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice

import msgspec

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.entries import UserMessage
from ozzie_server_ext.agent.reads import reads_of
from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.domain.events import Brief, Event, TaskCreated, ToolCallDecided, ToolCallRequested
from ozzie_server_ext.domain.ids import CallId, TaskId
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.decision import Action, Caller, Reading
from ozzie_server_ext.replay.record import Record
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.workflows.skill_log import asks_first
from ozzie_server_ext.tools.registry import ToolRegistry


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision as it was made, and what it was made from: the tool's contract, with what the call's plan added then,
    the arguments, who asked and where, and what had been read. `asks_first`: a skill wanted a yes for such a call."""

    at: datetime
    task_id: TaskId | None
    requested: ToolCallRequested
    decided: ToolCallDecided
    meta: ToolMeta
    caller: Caller
    reading: Reading
    asks_first: bool


class _ReadsSoFar:
    """What the model of a conversation had read at each of its calls (`agent.reads`). What cannot change any more is
    read once, however many calls are behind it."""

    def __init__(self, conversation: Conversation, meta_of: Callable[[str], ToolMeta | None]) -> None:
        self._conversation = conversation
        self._meta_of = meta_of
        self._known: list[Action | None] = []
        self._summary = ""
        self._over: list[UserMessage | Round] = []
        """The entries that `_known` is made of, in their order."""

    def now(self, task_id: TaskId | None) -> Callable[[], Iterable[Action | None]]:
        """Return the `reads` of a call that is decided now, whatever is read later."""
        entries, summary = self._conversation.read_by(task_id), self._conversation.summary
        at = len(self._over)
        if summary != self._summary or len(entries) < at or (at > 0 and entries[at - 1] is not self._over[-1]):
            self._known, self._over, self._summary, at = [], [], summary, 0  # `reads` of before keep their list
            self._known.extend(reads_of((), summary, self._meta_of))
        while at < len(entries) - 1 and _is_over(entry := entries[at]):
            self._known.extend(reads_of([entry], "", self._meta_of))
            self._over.append(entry)
            at += 1
        known, count = self._known, len(self._known)
        rest = [*reads_of(entries[at:], "", self._meta_of)]
        return lambda: chain(islice(known, count), rest)


def _is_over(entry: UserMessage | Round) -> bool:
    return isinstance(entry, UserMessage) or not any(entry.open_uses())


class Decisions:
    """Reads the decisions of one session after the other. `unknown` counts calls of tools that are not here, by name:
    nobody can say what their contract was."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self.unknown: Counter[str] = Counter()

    def of(self, record: Record, tasks: Mapping[TaskId, Row], since: datetime) -> Iterator[Decided]:
        """Yield those of a session since a moment, in the order of its calls; the last one of a call that was decided
        twice. What it shares with the session that it was forked from was decided there. `tasks` are the rows of its
        tasks."""
        session = Conversation()
        delegated: dict[TaskId, Conversation] = {}
        reads: dict[TaskId | None, _ReadsSoFar] = {None: _ReadsSoFar(session, self._registry.meta)}
        briefs: dict[TaskId | None, Brief] = {}
        requested: dict[CallId, ToolCallRequested] = {}
        found: dict[CallId, Decided] = {}
        left_out: dict[CallId, str] = {}
        for event in record.history:
            session.apply(event)
        for event in record.events:
            if isinstance(event.body, TaskCreated) and event.task_id is not None:
                briefs[event.task_id] = event.body.brief or Brief()
                if event.body.parent is not None:
                    own = delegated[event.task_id] = Conversation(of=event.task_id)
                    reads[event.task_id] = _ReadsSoFar(own, self._registry.meta)
            session.apply(event)
            conversation = session
            if event.task_id is not None and event.task_id in delegated:
                conversation = delegated[event.task_id]
                conversation.apply(event)
            match event.body:
                case ToolCallRequested(call_id=call_id) as request:
                    requested[call_id] = request
                case ToolCallDecided(call_id=call_id) as decided if call_id in requested and event.ts >= since:
                    request = requested[call_id]
                    meta = self._registry.meta(request.tool_id)
                    if meta is None:
                        left_out[call_id] = request.name
                        continue
                    more = meta.categories.union(decided.categories)
                    meta = replace(meta, categories=more, reaches=decided.reaches)
                    found[call_id] = Decided(
                        at=event.ts,
                        task_id=event.task_id,
                        requested=request,
                        decided=decided,
                        meta=meta,
                        caller=_caller(record, event, tasks),
                        reading=self._reading(event, request, conversation, reads.get(event.task_id, reads[None])),
                        asks_first=asks_first(briefs.get(event.task_id, Brief()), meta),
                    )
                case _:
                    pass
        self.unknown.update(left_out.values())
        yield from found.values()

    def _reading(
        self, event: Event, request: ToolCallRequested, conversation: Conversation, reads: _ReadsSoFar
    ) -> Reading:
        """Return what stood in the conversation when the model asked for the call (`agent.turn`), or what a step of a
        run was made from (`tasks.workflows.quick_calls`)."""
        last = None if request.step_id else conversation.last_round(event.task_id)
        if last is None:
            return Reading(content=event.content, has_read=True, has_own=True)
        going_out = sum(self._registry.is_outbound(before.name) for before in last.uses[: request.index])
        reading = conversation.reading_of(last, event.content, going_out)
        return msgspec.structs.replace(reading, reads=reads.now(event.task_id))


def _caller(record: Record, event: Event, tasks: Mapping[TaskId, Row]) -> Caller:
    row = tasks.get(event.task_id) if event.task_id is not None else None
    project = record.project_at(event.position)
    if row is None:
        return Caller(project=project)
    return Caller(
        project=project,
        channel=str(row["channel"]),
        user=str(row["sender_id"]),
        attended=bool(row["attended"]),
    )
