"""The stage of a replay: walks along the record, lets the code record what was recorded, and hands it what came from
outside when it came.

The code of turns and runs goes on until it waits: to record something, or for an answer that the record has. Then the
next event of the record says what happens. If the code wants to record that event, it may; if it waits for what the
event tells, it gets that; if the event came from outside, it is recorded as it was. Otherwise the replay ends here:
what would be recorded now differs from what was.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence, Set
from contextvars import ContextVar
from datetime import datetime
from typing import NoReturn, Protocol

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    Draft,
    Event,
    EventBody,
    ModelCallFailed,
    TaskCancelled,
    TaskCancelRequested,
    TaskCreated,
    TaskPaused,
    TaskQueued,
    TaskRetried,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCancelled,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import GATEWAY, SessionId, TaskId
from ozzie_server_ext.domain.tasks import Claim, TaskStatus
from ozzie_server_ext.replay.difference import UNRECORDED, Comparing, Difference, translated
from ozzie_server_ext.replay.ids import Ids
from ozzie_server_ext.replay.log import StagedLog
from ozzie_server_ext.replay.loop import ReplayLoop
from ozzie_server_ext.replay.record import MissingFact
from ozzie_server_ext.tasks.times import RECOVERY

RUNNING: ContextVar[TaskId] = ContextVar("the task that a replay runs")

_MADE_HERE = frozenset({"agent", "skill", "delegation"})
"""The sources of what the code of turns and runs records. All else came from outside."""


_GOING_ON = (TaskStatus.CREATED, TaskStatus.QUEUED, TaskStatus.RUNNING)
_STOPS = (ToolCallCancelled, ToolCallUncertain, TaskCancelled)
"""What the driver records for a task that was stopped."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where a replay stopped to agree with the record. `event` is the recorded one, None if more would be recorded than
    was, perhaps `before` another one; `difference` is in what would be recorded in its place, None if nothing would
    be."""

    event: Event | None
    difference: Difference | None
    now: Draft | None = None
    before: Event | None = None


class Cursor:
    """Which events of the record have come to pass."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._done = [False] * len(events)
        self._at = 0
        self._streams: dict[str, list[int]] = {}
        for index, event in enumerate(events):
            self._streams.setdefault(event.stream, []).append(index)
        self._first: dict[str, int] = {}
        """How many events of each stream are known to have come to pass without a gap."""
        self._indices = {event.position: index for index, event in enumerate(events)}

    @property
    def next(self) -> Event | None:
        """The first event that has not come to pass."""
        while self._at < len(self._events) and self._done[self._at]:
            self._at += 1
        return self._events[self._at] if self._at < len(self._events) else None

    @property
    def position(self) -> int:
        """The position in the log of the next event; behind the last one at the end."""
        following = self.next
        if following is not None:
            return following.position
        return self._events[-1].position + 1 if self._events else 0

    @property
    def count(self) -> int:
        """How many events have come to pass without a gap."""
        return len(self._events) if self.next is None else self._at

    def ahead(self, stream: str) -> Iterator[Event]:
        """Yield the events of a stream that have not come to pass, in order."""
        indices = self._streams.get(stream, [])
        first = self._first.get(stream, 0)
        while first < len(indices) and self._done[indices[first]]:
            first += 1
        self._first[stream] = first
        for index in indices[first:]:
            if not self._done[index]:
                yield self._events[index]

    def is_new(self, stream: str) -> bool:
        """Whether no event of the stream has come to pass."""
        indices = self._streams.get(stream, [])
        return not indices or not self._done[indices[0]]

    def pass_(self, events: Sequence[Event]) -> None:
        """Note that events have come to pass."""
        for event in events:
            self._done[self._indices[event.position]] = True


class _Wanted(msgspec.Struct, kw_only=True, eq=False):
    """An append that waits for its events to be the next ones of the record."""

    stream: str
    drafts: Sequence[Draft]
    expected_version: int | None
    claim: Claim | None
    done: "asyncio.Future[tuple[Event, ...]]"
    before: Event | None
    """What was to come next when it was wanted."""
    at: datetime
    """The time of the replay at that moment."""


class Gateway(Protocol):
    """What the stage does to the tasks that run on it (`replay.gateway`)."""

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool) -> None:
        """Run a task."""
        ...

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool) -> None:
        """Run nothing else in the session, or of a delegated task, until it goes on: recovery finds it waiting."""
        ...

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> None:
        """Stop a running task."""
        ...

    def leave(self) -> None:
        """Stop as a gateway does: running tasks are cancelled, and go on at the next start."""
        ...

    def restart(self) -> None:
        """End as a killed gateway does: what runs records nothing more. The next gateway takes its place."""
        ...

    def resume(self) -> None:
        """Go on with what was open, once recovery has recorded what it found."""
        ...


class Stage:
    """See the module. `revised` returns what counts in the place of something that came from outside. `early` are the
    positions of events from outside that came before the code heard that its append before them was done; others came
    once the code had gone on to where it waits."""

    def __init__(
        self,
        log: StagedLog,
        loop: ReplayLoop,
        cursor: Cursor,
        ids: Ids,
        own_threads: Set[TaskId],
        comparing: Comparing,
        revised: Callable[[EventBody], EventBody] = lambda body: body,
        early: Set[int] = frozenset(),
    ) -> None:
        self._log = log
        self._loop = loop
        self._own_threads = own_threads
        self._comparing = comparing
        self._revised = revised
        self._early = early
        self.cursor = cursor
        self.ids = ids
        self.gateway: Gateway | None = None
        self.divergence: Divergence | None = None
        self.missing: MissingFact | None = None
        self.broken: Exception | None = None
        self.from_outside: list[list[int]] = []
        """The positions of the events that came from outside, or at which the gateway left: one list for what came
        between two appends."""
        self._is_between = False
        self._waits: dict[int, asyncio.Future[None]] = {}
        self._rather: dict[int, asyncio.Future[None]] = {}
        self._wanted: list[_Wanted] = []
        self._has_left = self._is_recovering = False
        self._stopped: set[TaskId] = set()

    @property
    def _gateway(self) -> Gateway:
        assert self.gateway is not None, "it is set before anything happens"
        return self.gateway

    # --- what the code waits for ----------------------------------------------------------------------------------

    async def append(
        self, stream: str, drafts: Sequence[Draft], *, expected_version: int | None = None, claim: Claim | None = None
    ) -> tuple[Event, ...]:
        """Append once these are the next events of the record. See `EventLog.append`."""
        wanted = _Wanted(
            stream=stream,
            drafts=drafts,
            expected_version=expected_version,
            claim=claim,
            done=self._loop.create_future(),
            before=self.cursor.next,
            at=self._loop.now(),
        )
        self._wanted.append(wanted)
        event = self.cursor.next
        if event is not None and wanted in self._of(event):
            self._agrees(wanted, event)
        if not wanted.done.done():
            await asyncio.shield(wanted.done)
        return wanted.done.result()

    async def until(self, event: Event) -> None:
        """Wait until everything before this event has come to pass."""
        if event.position <= self.cursor.position:
            self._loop.move_to(event.ts)
            return
        waiting = self._waits.setdefault(event.position, self._loop.create_future())
        await asyncio.shield(waiting)

    async def rather(self, event: Event) -> None:
        """Wait until everything before this event has come to pass, unless nothing else can happen."""
        if event.position <= self.cursor.position:
            return
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._rather[event.position] = waiting
        await asyncio.shield(waiting)

    async def lacks(self, missing: MissingFact) -> NoReturn:
        """End the replay: the log does not have what comes next."""
        self.missing = self.missing or missing
        self._loop.stop()
        await self.for_ever()

    def broke(self, error: Exception) -> None:
        """End the replay: it made a mistake of its own."""
        self.broken = self.broken or error
        self._loop.stop()

    async def for_ever(self) -> NoReturn:
        """Wait for an end that comes from elsewhere."""
        await self._loop.create_future()
        raise AssertionError("an endless wait ended")

    def ahead(self, task_id: TaskId) -> Iterator[Event]:
        """Yield the events that a task of the replay is still to record."""
        return self.cursor.ahead(f"task:{self.ids.then(task_id)}")

    # --- what happens next ----------------------------------------------------------------------------------------

    def on_idle(self) -> None:
        """Let the next event of the record come to pass, or stop the loop."""
        if self.missing is not None or self.broken is not None:
            self._loop.stop()
            return
        event = self.cursor.next
        if event is None:
            self._end()
        elif (more := next(filter(self._is_too_much, self._wanted), None)) is not None:
            self._would_be_more(more, more.drafts[0])
        elif not self._happens(event):
            self._diverge(event)

    def _is_too_much(self, wanted: _Wanted) -> bool:
        """Whether a task wants to record more after its recorded end."""
        stream = self.ids.then(wanted.stream)
        if not self._log.has_ended(wanted.stream) or next(self.cursor.ahead(stream), None) is not None:
            return False
        return self._log.refusal(wanted.stream, wanted.drafts, wanted.expected_version, wanted.claim) is None

    def _happens(self, event: Event) -> bool:
        """Do what leads to the event; return False if nothing does."""
        if self._is_recovering and event.source != RECOVERY:
            self._is_recovering = self._has_left = False
            self._gateway.resume()
            return True
        if self._is_appended(event):
            return True
        if (waiting := self._waits.pop(event.position, None) or self._rather.pop(event.position, None)) is not None:
            self._loop.move_to(event.ts)
            waiting.set_result(None)
            return True
        if not _is_made_here(event) and not _may_be_by_a_run(event):
            self._take_in(event)
            return True
        if self._loop.fire(event.ts):
            return True
        if not _is_made_here(event):
            self._take_in(event)
            return True
        if self._rather:
            self._rather.pop(min(self._rather)).set_result(None)
            return True
        if not self._has_left and _is_cut_off(event):
            self._leave(event)
            return True
        return self._is_stopped(event)

    def _is_stopped(self, event: Event) -> bool:
        """Stop a task that ended by a stop which the log does not have: it was requested before the task had begun, or
        at the moment when it waited. Return False if it was stopped already."""
        if event.task_id is None or event.task_id in self._stopped or not isinstance(event.body, _STOPS):
            return False
        end = next(
            (each.body for each in self.cursor.ahead(event.stream) if isinstance(each.body, TaskCancelled)), None
        )
        if end is None:
            return False
        self._stopped.add(event.task_id)
        task_id = TaskId(self.ids.now(event.task_id))
        self._wanted = [wanted for wanted in self._wanted if wanted.stream != self.ids.now(event.stream)]
        self._gateway.interrupt(task_id, end.by, end.reason)
        return True

    def _leave(self, event: Event) -> None:
        self._has_left = True
        self._note_outside(event)
        self._gateway.leave()

    def _is_appended(self, event: Event) -> bool:
        """Append what the code wants to record, if that is the event, or refuse it as the log would by now."""
        for wanted in self._of(event):
            if self._agrees(wanted, event):
                return True
            refusal = self._log.refusal(wanted.stream, wanted.drafts, wanted.expected_version, wanted.claim)
            if refusal is not None:
                self._wanted.remove(wanted)
                wanted.done.set_exception(refusal)
                return True
        return False

    def _of(self, event: Event) -> list[_Wanted]:
        """Return the appends that may be the event's: those to its stream; for the first of a stream, also those to a
        stream that is not known yet."""
        stream = self.ids.now(event.stream)
        own = [wanted for wanted in self._wanted if wanted.stream == stream]
        if own or not self.cursor.is_new(event.stream):
            return own
        return [wanted for wanted in self._wanted if self.ids.then(wanted.stream) == wanted.stream]

    def _agrees(self, wanted: _Wanted, event: Event) -> bool:
        ahead = list(self._pairs(wanted, event.stream))
        ids = self.ids.compare()
        if not ids.are_equal(wanted.stream, event.stream):
            return False
        if any(then is None or self._comparing.difference(draft, then, ids, wanted.at) for draft, then in ahead):
            return False
        ids.keep()
        self._loop.move_to(event.ts)
        passed = [then for _, then in ahead if then is not None]
        named = {id(draft): then.event_id for draft, then in ahead if then is not None}
        drafts = [draft._replace(event_id=named.get(id(draft))) for draft in wanted.drafts]
        self._wanted.remove(wanted)
        try:
            recorded = self._log.record(wanted.stream, drafts, wanted.expected_version, wanted.claim)
        except OzzieError as error:
            wanted.done.set_exception(error)
            return True
        self.cursor.pass_(passed)
        self._is_between = False
        self._stop_if_stopped(recorded[-1], event.stream)
        if self._take_early():
            self._loop.call_soon(wanted.done.set_result, recorded)  # what came stops the code while it waits for this
        else:
            wanted.done.set_result(recorded)
        return True

    def _take_early(self) -> bool:
        """Let what is to come early come from outside before the code hears that its last append is done. Return
        whether anything came."""
        has_come = False
        while (event := self.cursor.next) is not None and event.position in self._early:
            has_come = True
            if _is_made_here(event):
                self._leave(event)
                break
            self._take_in(event)
        return has_come

    def _note_outside(self, event: Event) -> None:
        if not self._is_between:
            self._is_between = True
            self.from_outside.append([])
        self.from_outside[-1].append(event.position)

    def _stop_if_stopped(self, last: Event, stream: str) -> None:
        """Stop a task that was stopped at the moment when it began to wait: the log refused that request, but the
        driver had heard it."""
        if not isinstance(last.body, TaskWaitingApproval | TaskWaitingInput | TaskPaused) or last.task_id is None:
            return
        for event in self.cursor.ahead(stream):
            if not _is_made_here(event) or not isinstance(event.body, ToolCallCancelled | TaskCancelled):
                return
            if isinstance(event.body, TaskCancelled):
                self._gateway.interrupt(last.task_id, event.body.by, event.body.reason)
                return

    def _pairs(self, wanted: _Wanted, stream: str) -> Iterator[tuple[Draft, Event | None]]:
        ahead = self.cursor.ahead(stream)
        for draft in wanted.drafts:
            if draft.body.type != UNRECORDED:
                yield draft, next(ahead, None)

    def take_history(self, event: Event) -> None:
        """Record an event of the session that this one was forked from."""
        self._loop.move_to(event.ts)
        self._record(event)

    def _take_in(self, event: Event) -> None:
        """Record what came from outside, and do what it led to."""
        if event.source == RECOVERY and not self._is_recovering:
            self._is_recovering = True
            self._gateway.restart()
            self._wanted.clear()
            self._waits.clear()
            self._rather.clear()
        self._loop.move_to(event.ts)
        self.cursor.pass_([event])
        self._note_outside(event)
        if event.source == RECOVERY and isinstance(event.body, TaskPaused | TaskWaitingInput):
            assert event.task_id is not None, "it is of a task"
            assert event.session_id is not None, "it is of a session"
            task_id = TaskId(self.ids.now(event.task_id))  # before it is recorded, as `tasks.recovery` does
            self._gateway.hold(task_id, event.session_id, delegated=event.task_id in self._own_threads)
        draft = self._record(event)
        task_id = draft.task_id
        if task_id is None or event.session_id is None:
            return
        match draft.body:
            case TaskQueued(reason="created") | TaskRetried():
                delegated = event.task_id in self._own_threads
                self._gateway.enqueue(task_id, event.session_id, delegated=delegated)
            case TaskCancelRequested(by=by, reason=reason):
                self._gateway.interrupt(task_id, by, reason)
            case _:
                pass

    def _record(self, event: Event) -> Draft:
        now = self.ids.now
        task_id = None if event.task_id is None else TaskId(now(event.task_id))
        draft = Draft(
            body=self._revised(translated(event.body, now)),
            actor=event.actor,
            source=event.source,
            session_id=event.session_id,
            task_id=task_id,
            causation_id=event.causation_id,
            idempotency_key=None if event.idempotency_key is None else now(event.idempotency_key),
            labels=event.labels,
            sources=event.sources,
            event_id=event.event_id,
        )
        self._log.record(now(event.stream), [draft])
        return draft

    def _diverge(self, event: Event) -> None:
        """The event does not come to pass. Find what would be recorded in its place."""
        wanted = next(iter(self._of(event)), None)
        if wanted is None:
            self._differs(event, next(iter(self._wanted), None))
            return
        ids = self.ids.compare()
        for draft, then in self._pairs(wanted, event.stream):
            if then is None:
                self._would_be_more(wanted, draft)
                return
            if (found := self._comparing.difference(draft, then, ids, wanted.at)) is not None:
                self.divergence = Divergence(event=then, difference=found, now=draft)
                break
        self._loop.stop()

    def _differs(self, event: Event, wanted: _Wanted | None) -> None:
        """Nothing would be recorded in the event's stream, but perhaps something in another one."""
        draft = None if wanted is None else wanted.drafts[0]
        found = None if draft is None else Difference(field="type", then=event.type, now=draft.body.type)
        self.divergence = Divergence(event=event, difference=found, now=draft)
        self._loop.stop()

    def _would_be_more(self, wanted: _Wanted, draft: Draft) -> None:
        """More would be recorded than was, before what came next then."""
        found = Difference(field="type", then=None, now=draft.body.type)
        self.divergence = Divergence(event=None, difference=found, now=draft, before=wanted.before)
        self._loop.stop()

    def _end(self) -> None:
        """The record is at its end. Only tasks that went on then may record more."""
        for wanted in self._wanted:
            refusal = self._log.refusal(wanted.stream, wanted.drafts, wanted.expected_version, wanted.claim)
            if refusal is not None:
                self._wanted.remove(wanted)
                wanted.done.set_exception(refusal)
                return
            if not self._goes_on(wanted):
                self._would_be_more(wanted, wanted.drafts[0])
                return
        self._loop.stop()

    def _goes_on(self, wanted: _Wanted) -> bool:
        """Whether the task that wants to record went on when the record ended, or one that delegated it."""
        created = wanted.drafts[0].body
        task_id = created.parent if isinstance(created, TaskCreated) else wanted.drafts[0].task_id
        return task_id is not None and self._log.status_of(task_id) in _GOING_ON


def _is_made_here(event: Event) -> bool:
    return event.source in _MADE_HERE and event.type != TaskCancelRequested.type


def _may_be_by_a_run(event: Event) -> bool:
    """Whether a run that ends may have stopped one of its steps so, as well as whoever stopped a run that waited."""
    return isinstance(event.body, TaskCancelRequested | TaskCancelled) and event.body.by == GATEWAY


def _is_cut_off(event: Event) -> bool:
    """Whether a gateway that stops may have recorded this for what ran."""
    match event.body:
        case ModelCallFailed(code=code):
            return code == INTERRUPTED
        case ToolCallCancelled() | ToolCallUncertain():
            return True
        case _:
            return False
