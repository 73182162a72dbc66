"""What whoever watches a turn is told while it waits for something; nothing of it is recorded."""

from collections.abc import Callable

from ozzie_server_ext.domain.events import Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.store.recorder import Recorder


class Progress:
    """Publishes `task.progress`."""

    def __init__(self, publish: Callable[[Transient], None]) -> None:
        self._publish = publish

    def step(self, recorder: Recorder, step: str) -> None:
        """What a turn waits for."""
        self._tell(recorder.session_id, recorder.task_id, {"step": step})

    def place(self, session_id: SessionId, task_id: TaskId, ahead: int) -> None:
        """How many turns are before a queued one."""
        self._tell(session_id, task_id, {"ahead": ahead})

    def _tell(self, session_id: SessionId, task_id: TaskId, payload: JsonObject) -> None:
        self._publish(Transient(type="task.progress", session_id=session_id, task_id=task_id, payload=payload))
