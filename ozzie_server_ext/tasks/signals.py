"""Signals: events from outside that steps of a run wait for."""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from ozzie_server_ext.config.validation import nearest
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import Conflict, InputError, VersionConflict
from ozzie_server_ext.domain.events import (
    HUB,
    Draft,
    Event,
    SkillStarted,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
    TaskRetried,
    TaskSignalled,
)
from ozzie_server_ext.domain.ids import EventId, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import FINAL
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import open_tasks, session_of, task_of
from ozzie_server_ext.tasks.service import TaskService

MOST_DATA = 32 << 10
"""Bytes of a signal's data."""
MOST_KEPT = 100
"""Signals of one name that no step has taken yet."""


class Signal(msgspec.Struct, frozen=True):
    """A signal that no step has taken yet. `name`: the event that steps wait for."""

    event_id: EventId
    name: str
    data: Json
    content: Content


class SignalWaits:
    """Lets steps wait for the signals of their runs."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._waiting: dict[TaskId, list[asyncio.Event]] = {}
        log.on_commit(self._follow, types={TaskSignalled.type})

    async def next(self, run: TaskId, event: str, taken: set[EventId]) -> Signal:
        """Wait for the run's first pending signal with that name that is not in `taken`, and add it there. `taken` are
        the signals that other steps of the run are about to record."""
        arrived = asyncio.Event()
        self._waiting.setdefault(run, []).append(arrived)
        try:
            while True:
                events = await self._log.read_stream(task_stream(run))
                for signal in pending_signals(events):
                    if signal.name == event and signal.event_id not in taken:
                        taken.add(signal.event_id)
                        return signal
                await arrived.wait()
                arrived.clear()
        finally:
            waiting = self._waiting[run]
            waiting.remove(arrived)
            if not waiting:
                del self._waiting[run]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.task_id is not None:
                for arrived in self._waiting.get(event.task_id, ()):
                    arrived.set()


class SignalIntake:
    """Records signals to runs."""

    def __init__(self, log: EventLog, tasks: TaskService) -> None:
        self._log = log
        self._tasks = tasks

    async def send(self, task_id: TaskId, event: str, data: Json = None, *, by: str, key: str = "") -> bool:
        """Send a signal to a run, or to the nested run that expects it; return whether a step waits for it now. With a
        `key`, repeated calls record it once.

        Raises NotFound, InputError if no step expects it, and Conflict if the task is no run or has ended.
        """
        if len(canonical_bytes(data)) > MOST_DATA:
            raise InputError(
                f"The data of a signal has at most {MOST_DATA:,} bytes.",
                hint="Put it into a file of the project and send its path.",
                code="event.too_large",
            )
        while True:
            row = await self._tasks.get(task_id)
            events = await self._log.read_stream(task_stream(task_id))
            if key and await self._was_sent(task_id, events, key):
                return True
            expected = expected_signals(events)
            if not expected and row["mode"] != "GRAPH":
                raise Conflict("The task is no run of a skill, so it takes no signals.", code="task.no_run")
            if row["status"] in FINAL:
                raise Conflict(f"The run has ended already: {str(row['status']).lower()}.", code="task.ended")
            if event not in expected:
                inner = await self._find_nested(row, event)
                if inner is None:
                    raise await self._unknown(row, event, events)
                return await self.send(inner, event, data, by=by, key=key)
            waiting = awaited(events).count(event)
            kept = sum(signal.name == event for signal in pending_signals(events))
            if kept >= MOST_KEPT:
                raise Conflict(
                    f'{kept} signals "{event}" wait already for a step to take them.',
                    hint="Send more once the run has taken them.",
                    code="event.too_many",
                )
            draft = Draft(
                body=TaskSignalled(event=event, by=by, data=data),
                actor="user",
                source=HUB,
                session_id=session_of(row),
                task_id=task_id,
                idempotency_key=key or None,
            )
            try:
                await self._log.append(task_stream(task_id), [draft], expected_version=events[-1].version)
            except VersionConflict:  # the run has changed meanwhile: check again
                continue
            return waiting > kept

    async def _find_nested(self, row: Row, event: str) -> TaskId | None:
        """Return the nested run that expects the signal."""
        for inner in await self._nested(row):
            if event in expected_signals(await self._log.read_stream(task_stream(task_of(inner)))):
                return task_of(inner)
            if (further := await self._find_nested(inner, event)) is not None:
                return further
        return None

    async def _was_sent(self, task_id: TaskId, events: Iterable[Event], key: str) -> bool:
        """Whether the run of these events, or a nested one, ended or not, has a signal with that key."""
        if any(event.idempotency_key == key for event in events):
            return True
        for inner in map(task_of, await self._log.rows("tasks", where={"parent_id": task_id, "mode": "GRAPH"})):
            if await self._was_sent(inner, await self._log.read_stream(task_stream(inner)), key):
                return True
        return False

    async def _nested(self, row: Row) -> list[Row]:
        return await open_tasks(self._log, parent_id=row["task_id"], mode="GRAPH")

    async def _unknown(self, row: Row, event: str, events: Sequence[Event]) -> InputError:
        """Return the error for a signal that no step expects. It names the expected ones."""
        now, expected = awaited(events), expected_signals(events)
        for inner in await self._nested(row):
            nested = await self._log.read_stream(task_stream(task_of(inner)))
            now += awaited(nested)
            expected += expected_signals(nested)
        near = nearest(event, expected)
        later = [name for name in expected if name not in now]
        hints = [
            f'Did you mean "{near}"?' if near else "",
            f"It waits for {_quoted(now)}." if now else "",
            f"Later it waits for {_quoted(later)}." if later else "",
            "" if expected else "It waits for no more signals.",
        ]
        return InputError(
            f'No step of this run waits for "{event[:100]}".', hint=" ".join(filter(None, hints)), code="event.unknown"
        )


def pending_signals(events: Iterable[Event]) -> list[Signal]:
    """Return the signals in a run's events that no step has taken."""
    found: dict[str, Signal] = {}
    for event in events:
        match event.body:
            case TaskSignalled(event=name, data=data):
                found[event.event_id] = Signal(event.event_id, name, data, event.content)
            case StepCompleted(told=taken) if taken:
                found.pop(taken, None)
            case _:
                pass
    return list(found.values())


def awaited(events: Iterable[Event]) -> list[str]:
    """Return the signals that steps of a run wait for now, one per step, by the run's events."""
    names: dict[str, str] = {}
    running: dict[str, None] = {}
    for event in events:
        match event.body:
            case SkillStarted(steps=steps):
                names = {step.step_id: step.event for step in steps if step.event}
            case StepStarted(step_id=step_id) if step_id in names:
                running[step_id] = None
            case StepCompleted(step_id=step_id) | StepFailed(step_id=step_id):
                running.pop(step_id, None)
            case _:
                pass
    return [names[step_id] for step_id in running]


def expected_signals(events: Iterable[Event]) -> list[str]:
    """Return the signals that steps of a run wait for now or later, one per step, by the run's events. States can be
    entered again; a step that has ended no longer waits, unless it failed and the run was retried."""
    expected: dict[str, str] = {}
    failed: dict[str, str] = {}
    is_machine = False
    for event in events:
        match event.body:
            case SkillStarted(steps=steps, kind=kind):
                expected = {step.step_id: step.event for step in steps if step.event}
                is_machine = kind == "fsm"
            case StepCompleted(step_id=step_id) | StepSkipped(step_id=step_id) if not is_machine:
                expected.pop(step_id, None)
            case StepFailed(step_id=step_id, again_in_s=None) if not is_machine and step_id in expected:
                failed[step_id] = expected.pop(step_id)
            case TaskRetried():
                expected |= failed
                failed.clear()
            case _:
                pass
    return list(expected.values())


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in dict.fromkeys(names))
