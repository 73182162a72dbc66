"""Finds running tasks that make no progress although they wait for nobody.

It first reports such a task. After the same time again, it does what the configuration says: nothing, the cheaper model
for its next call, or cancelling it. Time is measured while the machine runs, from the start of an attempt; the end is
in the log, so no restart repeats it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

import msgspec

from ozzie_server_ext.config.settings import CHEAP, Settings
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Conflict, OzzieError
from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    Event,
    EventBody,
    TaskCreated,
    TaskModelChosen,
    TaskStalled,
    Transient,
    content_of,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.render.text import duration
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projections.tasks import task_from
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.reconciliation import describe, unfinished
from ozzie_server_ext.tasks.rows import open_tasks, session_of, task_of
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.signals import awaited
from ozzie_server_ext.tools.questions import server_asks

log = logger(__name__)

LOOK_S = 15.0
NAME = "watchdog"
_PROGRESS = frozenset({"reply.delta", "tool.output", "agent.thinking", "tool.call.progressed"})


class _Quiet(msgspec.Struct):
    """When a task's last progress was, and how often the watchdog has acted since."""

    since: float
    acts: int = 0


class Watchdog:
    """Watches the tasks of one gateway. `settings_of` returns the settings of a session's project; `cheaper_of` its
    cheaper model, or None."""

    def __init__(
        self,
        event_log: EventLog,
        tasks: TaskService,
        clock: Clock,
        settings_of: Callable[[SessionId], Awaitable[Settings]],
        cheaper_of: Callable[[SessionId], Awaitable[object | None]],
    ) -> None:
        self._log = event_log
        self._tasks = tasks
        self._clock = clock
        self._settings_of = settings_of
        self._cheaper_of = cheaper_of
        self._quiet: dict[TaskId, _Quiet] = {}
        self._parents: dict[TaskId, TaskId] = {}
        self._work: asyncio.Task[None] | None = None
        event_log.on_commit(self._follow)

    def start(self, feed: Feed) -> None:
        feed.on_publish(self.hear)
        self._work = asyncio.create_task(self._run(), name="watchdog")

    def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()

    def hear(self, transient: Transient) -> None:
        """Count live messages of a task itself as progress."""
        is_reasoning = transient.type == "task.progress" and transient.payload.get("step") == "reasoning"
        if transient.task_id is not None and (transient.type in _PROGRESS or is_reasoning):
            self._moved(transient.task_id)

    async def look(self) -> None:
        """Check all running tasks, and act on those without progress."""
        rows = await open_tasks(self._log)
        delegating = {row["parent_id"] for row in rows}
        # One that was resumed and has no place to run yet is queued.
        running = [row for row in rows if row["status"] == TaskStatus.RUNNING and not task_from(row).is_unclaimed]
        for row in running:
            # A task with open delegated tasks waits for them; those are checked themselves.
            if row["task_id"] not in delegating:
                with contextlib.suppress(OzzieError):  # its project can't be opened: it fails by itself
                    await self._look_at(row)
        known = {row["task_id"] for row in running}
        self._quiet = {task_id: quiet for task_id, quiet in self._quiet.items() if task_id in known}

    async def _look_at(self, row: Row) -> None:
        task_id, session_id = task_of(row), session_of(row)
        settings = (await self._settings_of(session_id)).watchdog
        after_s, action = settings.after_s, settings.action
        if after_s is None:
            return
        quiet = self._quiet.setdefault(task_id, _Quiet(self._clock.monotonic()))
        quiet_s = self._clock.monotonic() - quiet.since
        if quiet.acts > 1 or quiet_s < after_s * (quiet.acts + 1):
            return
        events = await self._log.read_stream(task_stream(task_id))
        if (row["mode"] == "GRAPH" and awaited(events)) or server_asks(events):
            return
        quiet.acts += 1
        if quiet.acts == 1:
            await self._record(row, events, quiet_s, "remind")
        elif (
            action == "degrade"
            and row["mode"] == "FREE"
            and row["model"] != CHEAP
            and await self._cheaper_of(session_id)
        ):
            chosen = TaskModelChosen(model=CHEAP, reason=TaskStalled.type)
            await self._record(row, events, quiet_s, "degrade", chosen)
        elif action == "cancel":
            await self._record(row, events, quiet_s, "cancel")
            with contextlib.suppress(Conflict):  # it has ended by now
                await self._tasks.cancel(task_id, by=NAME, reason=f"nothing came from it for {duration(quiet_s)}")

    async def _record(
        self,
        row: Row,
        events: Iterable[Event],
        quiet_s: float,
        action: Literal["remind", "degrade", "cancel"],
        *more: EventBody,
    ) -> None:
        task_id = task_of(row)
        hint = f"Look at it with ozzie tasks show {task_id}, or stop it with ozzie tasks cancel {task_id}."
        if action == "cancel":
            hint = f"Try it again with ozzie tasks retry {task_id}."
        stalled = TaskStalled(action=action, quiet_s=round(quiet_s, 3), doing=doing(events), hint=hint)
        recorder = Recorder(
            log=self._log, session_id=session_of(row), task_id=task_id, actor="system", source=NAME
        ).made_from(content_of(events))  # the facts may quote them
        await recorder.append(stalled, *more)

    def _moved(self, task_id: TaskId | None) -> None:
        now = self._clock.monotonic()
        while task_id is not None:
            self._quiet[task_id] = _Quiet(now)
            task_id = self._parents.get(task_id)

    def _follow(self, events: tuple[Event, ...]) -> None:
        moved: set[TaskId] = set()
        ended: set[TaskId] = set()
        for event in events:
            if event.task_id is None or event.source == NAME:
                continue
            moved.add(event.task_id)
            if isinstance(event.body, TaskCreated) and event.body.parent is not None:
                self._parents[event.task_id] = event.body.parent
            elif event.type in FINAL_TYPES:
                ended.add(event.task_id)
        for task_id in moved:
            self._moved(task_id)
        for task_id in ended:
            self._quiet.pop(task_id, None)
            self._parents.pop(task_id, None)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:
                log.exception("the running tasks could not be checked")


def doing(events: Iterable[Event]) -> str:
    """Return a sentence about what a task of these events is busy with."""
    left = unfinished(events)
    if left.tools:
        return f"It waits for {', '.join(describe(tool) for tool in left.tools)}."
    if left.models:
        return f'It waits for an answer of "{left.models[-1].alias}".'
    return "It is between two calls."
