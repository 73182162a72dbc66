"""Where what runs lets go because somebody wants it held: a turn before its next calls, a run before its next steps."""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from ozzie_server_ext.domain.errors import VersionConflict
from ozzie_server_ext.domain.events import (
    Event,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskPausing,
    TaskSucceeded,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import OPEN, TurnHeld
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.uncut import uncut

T = TypeVar("T")

BY_YOU = "by you"
"""Why a task is paused, as its state line has it (UX §2.1)."""


def wished(events: Iterable[Event]) -> TaskPaused | None:
    """The pause that somebody asked for in a task of these events, and that has not come."""
    wish: TaskPaused | None = None
    for event in events:
        match event.body:
            case TaskPausing(by=by, reason=reason, wanted=wanted):
                wish = TaskPaused(by=by, reason=reason or BY_YOU) if wanted else None
            case TaskPaused() | TaskSucceeded() | TaskFailed() | TaskCancelled():
                wish = None
            case _:
                pass
    return wish


class PausePoints:
    """Knows of which tasks that is wanted; the log says so to it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._wished: dict[TaskId, asyncio.Event] = {}
        log.on_commit(self._follow)

    async def load(self) -> None:
        """Find out what a gateway before was asked for. Before anything runs."""
        is_open: dict[str, Json] = {"status": [str(status) for status in OPEN]}
        for row in await self._log.rows("tasks", where=is_open):
            if row["pause_by"]:
                self._signal(TaskId(str(row["task_id"]))).set()

    async def point(self, recorder: Recorder) -> None:
        """Raises TurnHeld where the task is to be held. That it is, is recorded then."""
        signal = self._wished.get(recorder.task_id)
        if signal is None or not signal.is_set():
            return
        while True:
            events = await self._log.read_stream(task_stream(recorder.task_id))
            paused = wished(events)
            if paused is None:
                return
            try:
                await uncut(recorder.append(paused, actor="user", expected_version=events[-1].version))
            except VersionConflict:  # somebody had something to say meanwhile: look again
                continue
            except asyncio.CancelledError:
                raise TurnHeld from None  # it was recorded by then
            raise TurnHeld

    async def until(self, task_id: TaskId, work: Coroutine[Any, Any, T]) -> T | None:
        """What `work` gives; None where a pause is wished for before that. Then it is cancelled."""
        signal = self._signal(task_id)
        doing, waiting = asyncio.create_task(work), asyncio.create_task(signal.wait())
        try:
            await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            for each in (doing, waiting):
                if each.cancel():
                    with suppress(asyncio.CancelledError):
                        await each
            if not signal.is_set():
                self._wished.pop(task_id, None)

    def _signal(self, task_id: TaskId) -> asyncio.Event:
        return self._wished.setdefault(task_id, asyncio.Event())

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event.body:
                case TaskPausing(wanted=True) if event.task_id is not None:
                    self._signal(event.task_id).set()
                case TaskPausing() if event.task_id is not None and event.task_id in self._wished:
                    self._wished[event.task_id].clear()
                case TaskPaused() | TaskSucceeded() | TaskFailed() | TaskCancelled() if event.task_id is not None:
                    self._wished.pop(event.task_id, None)
                case _:
                    pass
