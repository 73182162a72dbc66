"""What whoever watches a run of a skill is told while it goes on: how far it is, and which step waits for them."""

from collections.abc import Callable

from ozzie_server_ext.domain.events import Event, TaskPaused, TaskQueued, TaskWaitingApproval, TaskWaitingInput
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder

Tell = Callable[[Recorder, str], None]


class StepNews:
    """Tells of the tasks of steps to whoever follows the task of the run."""

    def __init__(self, log: EventLog, tell: Tell) -> None:
        self._tell = tell
        self._watched: dict[TaskId, tuple[Recorder, str]] = {}
        log.on_commit(self._follow)

    def watch(self, task_id: TaskId, run: Recorder, what: str) -> None:
        """From now on, tell of the task that carries out a part of the run, which is called so: `the step "merge"`."""
        self._watched[task_id] = (run, what)

    def forget(self, task_id: TaskId) -> None:
        self._watched.pop(task_id, None)

    def waits(self, run: Recorder, step: str, event: str) -> None:
        """A step waits for something outside."""
        self._tell(run, f'the step "{step}" waits for "{event}": ozzie tasks tell {run.task_id} {event}')

    def progress(self, run: Recorder, settled: int, steps: int, running: int) -> None:
        """How far a run is."""
        told = f"{settled:,} of {steps:,} steps"
        self._tell(run, f"{told}, {running:,} running" if running else told)

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.task_id is None or event.task_id not in self._watched:
                continue
            run, what = self._watched[event.task_id]
            match event.body:
                case TaskWaitingApproval():
                    self._tell(run, f"{what} waits for your yes: Ozzie's sidebar, or ozzie approvals list")
                case TaskWaitingInput():
                    self._tell(run, f"{what} waits for your answer: Ozzie's sidebar, or ozzie tasks list")
                case TaskPaused(reason=reason):
                    self._tell(run, f"{what} is paused {reason}: ozzie tasks resume {event.task_id}")
                case TaskQueued(reason="answered" | "resumed"):
                    self._tell(run, f"{what} goes on")
                case _:
                    pass
