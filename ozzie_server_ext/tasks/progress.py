"""What clients see of tasks while they run, and how others wait for their end."""

import asyncio
from collections.abc import Callable

from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    Event,
    TaskPaused,
    TaskResumed,
    TaskWaitingApproval,
    TaskWaitingInput,
    Transient,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.tasks import FINAL
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import find_task


class Progress:
    """Publishes `task.progress`."""

    def __init__(self, publish: Callable[[Transient], None]) -> None:
        self._publish = publish

    def step(self, recorder: Recorder, step: str) -> None:
        """Publish what a task waits for."""
        self._send(recorder.session_id, recorder.task_id, {"step": step})

    def ahead(self, session_id: SessionId, task_id: TaskId, ahead: int) -> None:
        """Publish how many tasks are ahead of a queued one."""
        self._send(session_id, task_id, {"ahead": ahead})

    def _send(self, session_id: SessionId, task_id: TaskId, payload: JsonObject) -> None:
        self._publish(Transient(type="task.progress", session_id=session_id, task_id=task_id, payload=payload))


class TaskEnds:
    """Lets others wait until a task has ended. It subscribes before it checks, so that no end is missed."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._waiting: dict[TaskId, list[asyncio.Event]] = {}
        log.on_commit(self._follow, types=FINAL_TYPES)

    async def wait(self, task_id: TaskId) -> Row:
        """Return the task's row once it has ended."""
        ended = asyncio.Event()
        self._waiting.setdefault(task_id, []).append(ended)
        try:
            while True:
                row = await find_task(self._log, task_id)
                if row is not None and row["status"] in FINAL:
                    return row
                await ended.wait()
                ended.clear()
        finally:
            waiting = self._waiting[task_id]
            waiting.remove(ended)
            if not waiting:
                del self._waiting[task_id]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.task_id is not None:
                for ended in self._waiting.get(event.task_id, ()):
                    ended.set()


_STATES = {fact.type for fact in (TaskWaitingApproval, TaskWaitingInput, TaskPaused, TaskResumed)}


class StepProgress:
    """Reports the state of steps' tasks to the followers of the run."""

    def __init__(self, log: EventLog, publish: Callable[[Recorder, str], None]) -> None:
        self._publish = publish
        self._watched: dict[TaskId, tuple[Recorder, str]] = {}
        log.on_commit(self._follow, types=_STATES)

    def watch(self, task_id: TaskId, run: Recorder, what: str) -> None:
        """Report the task's state from now on; `what` names it, such as `the step "merge"`."""
        self._watched[task_id] = (run, what)

    def forget(self, task_id: TaskId) -> None:
        self._watched.pop(task_id, None)

    def waits(self, run: Recorder, step: str, event: str) -> None:
        """Report that a step waits for a signal."""
        self._publish(run, f'the step "{step}" waits for "{event}": ozzie tasks signal {run.task_id} {event}')

    def count(self, run: Recorder, settled: int, steps: int, running: int) -> None:
        """Report how many steps are done."""
        text = f"{settled:,} of {steps:,} steps"
        self._publish(run, f"{text}, {running:,} running" if running else text)

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.task_id is None or event.task_id not in self._watched:
                continue
            run, what = self._watched[event.task_id]
            match event.body:
                case TaskWaitingApproval():
                    self._publish(run, f"{what} waits for your yes: Ozzie's sidebar, or ozzie approvals list")
                case TaskWaitingInput():
                    self._publish(run, f"{what} waits for your answer: Ozzie's sidebar, or ozzie tasks list")
                case TaskPaused(reason=reason):
                    self._publish(run, f"{what} is paused {reason}: ozzie tasks resume {event.task_id}")
                case TaskResumed():
                    self._publish(run, f"{what} goes on")
                case _:
                    pass
