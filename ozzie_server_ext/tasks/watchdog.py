"""Notices tasks that get nowhere: nothing came from them for a while, though nobody is waited for.

It tells of one first. Where nothing came for as long again, it does what the configuration says: nothing more, the
cheaper model at its next call, or its end. Time is that of the running machine, and begins anew with an attempt; an end
stands in the log, so that no restart brings it twice.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ozzie_server_ext.config.settings import CHEAP, Settings
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Conflict
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
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import OPEN, TaskStatus
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.render.text import duration
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.reconciliation import describe, unfinished
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tasks.signals import awaited

log = logger(__name__)

LOOK_S = 15.0
NAME = "watchdog"
_PROGRESS = frozenset({"reply.delta", "tool.output", "agent.thinking", "tool.call.progressed"})


@dataclass(slots=True)
class _Quiet:
    """Since when nothing came from a task, and how often that was acted on since."""

    since: float
    acts: int = 0


class Watchdog:
    """Of one gateway. `cheaper` is who may be asked in the place of a turn's own model, where anybody is."""

    def __init__(
        self,
        event_log: EventLog,
        tasks: TaskService,
        clock: Clock,
        settings: Callable[[], Settings],
        cheaper: Callable[[], object | None],
    ) -> None:
        self._log = event_log
        self._tasks = tasks
        self._clock = clock
        self._settings = settings
        self._cheaper = cheaper
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
        """What is shown and not kept is progress too, where it is of the task itself."""
        is_reasoning = transient.type == "task.progress" and transient.payload.get("step") == "reasoning"
        if transient.task_id is not None and (transient.type in _PROGRESS or is_reasoning):
            self._moved(transient.task_id)

    async def look(self) -> None:
        """Look at every task that runs, and act on those that get nowhere."""
        settings = self._settings().watchdog
        if settings.after_s is None:
            return
        is_open: dict[str, Json] = {"status": [str(status) for status in OPEN]}
        rows = await self._log.rows("tasks", where=is_open)
        delegating = {row["parent_id"] for row in rows}
        running = [row for row in rows if row["status"] == TaskStatus.RUNNING]
        for row in running:
            # What has delegated waits for that, which is looked at itself, or waits for a person.
            if row["task_id"] not in delegating:
                await self._look_at(row, settings.after_s, settings.action)
        known = {row["task_id"] for row in running}
        self._quiet = {task_id: quiet for task_id, quiet in self._quiet.items() if task_id in known}

    async def _look_at(self, row: Row, after_s: float, action: Literal["remind", "degrade", "cancel"]) -> None:
        task_id = TaskId(str(row["task_id"]))
        quiet = self._quiet.setdefault(task_id, _Quiet(self._clock.monotonic()))
        quiet_s = self._clock.monotonic() - quiet.since
        if quiet.acts > 1 or quiet_s < after_s * (quiet.acts + 1):
            return
        events = await self._log.read_stream(task_stream(task_id))
        if row["mode"] == "GRAPH" and awaited(events):
            return
        quiet.acts += 1
        if quiet.acts == 1:
            await self._say(row, events, self._stalled("remind", quiet_s, events, task_id))
        elif action == "degrade" and row["mode"] == "FREE" and row["model"] != CHEAP and self._cheaper() is not None:
            chosen = TaskModelChosen(model=CHEAP, reason=TaskStalled.type)
            await self._say(row, events, self._stalled("degrade", quiet_s, events, task_id), chosen)
        elif action == "cancel":
            await self._say(row, events, self._stalled("cancel", quiet_s, events, task_id))
            with contextlib.suppress(Conflict):  # it has ended by now
                await self._tasks.cancel(task_id, by=NAME, reason=f"nothing came from it for {duration(quiet_s)}")

    def _stalled(
        self, action: Literal["remind", "degrade", "cancel"], quiet_s: float, events: Iterable[Event], task_id: TaskId
    ) -> TaskStalled:
        hint = f"Look at it with ozzie tasks show {task_id}, or stop it with ozzie tasks cancel {task_id}."
        if action == "cancel":
            hint = f"Try it again with ozzie tasks retry {task_id}."
        return TaskStalled(action=action, quiet_s=round(quiet_s, 3), doing=doing(events), hint=hint)

    async def _say(self, row: Row, events: Iterable[Event], *facts: EventBody) -> None:
        """Record facts about a task of these events, which they may quote."""
        recorder = Recorder(
            log=self._log,
            session_id=SessionId(str(row["session_id"])),
            task_id=TaskId(str(row["task_id"])),
            actor="system",
            source=NAME,
        )
        await recorder.made_from(content_of(events)).append(*facts)

    def _moved(self, task_id: TaskId | None) -> None:
        now = self._clock.monotonic()
        while task_id is not None:
            self._quiet[task_id] = _Quiet(now)
            task_id = self._parents.get(task_id)

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.task_id is None or event.source == NAME:
                continue
            if isinstance(event.body, TaskCreated) and event.body.parent is not None:
                self._parents[event.task_id] = event.body.parent
            self._moved(event.task_id)
            if event.type in FINAL_TYPES:
                self._quiet.pop(event.task_id, None)
                self._parents.pop(event.task_id, None)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:
                log.exception("what runs could not be looked at")


def doing(events: Iterable[Event]) -> str:
    """What a task of these events is in the middle of, in words."""
    left = unfinished(events)
    if left.tools:
        return f"It waits for {', '.join(describe(tool) for tool in left.tools)}."
    if left.models:
        return f'It waits for an answer of "{left.models[-1].alias}".'
    return "It is between two calls."
