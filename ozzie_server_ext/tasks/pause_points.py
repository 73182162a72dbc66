"""Where what runs lets go because somebody wants it held: a turn before its next calls, a run before its next steps."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
from ozzie_server_ext.tasks.wishes import wished


class PausePoints:
    """Knows of which tasks that is wanted; the log says so to it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._wished: set[TaskId] = set()
        self._wakes: dict[TaskId, Callable[[], None]] = {}
        log.on_commit(self._follow)

    async def load(self) -> None:
        """Find out what a gateway before was asked for. Before anything runs."""
        is_open: dict[str, Json] = {"status": [str(status) for status in OPEN]}
        for row in await self._log.rows("tasks", where=is_open):
            if row["pause_by"]:
                self._wished.add(TaskId(str(row["task_id"])))

    def is_wished(self, task_id: TaskId) -> bool:
        """Whether the task is to be held, as far as the log has said so."""
        return task_id in self._wished

    async def point(self, recorder: Recorder) -> None:
        """Raises TurnHeld where the task is to be held. That it is, is recorded then."""
        if not self.is_wished(recorder.task_id):
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

    @contextmanager
    def telling(self, task_id: TaskId, wake: Callable[[], None]) -> Iterator[None]:
        """Meanwhile, `wake` is called once a pause is wished for."""
        self._wakes[task_id] = wake
        try:
            yield
        finally:
            del self._wakes[task_id]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event.body:
                case TaskPausing(wanted=True) if event.task_id is not None:
                    self._wished.add(event.task_id)
                    self._wakes.get(event.task_id, _nobody)()
                case TaskPausing() | TaskPaused() | TaskSucceeded() | TaskFailed() | TaskCancelled():
                    self._wished -= {event.task_id}
                case _:
                    pass


def _nobody() -> None:
    """Where nothing waits that could be woken."""
