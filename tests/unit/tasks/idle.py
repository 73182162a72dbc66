"""A runner for what is only recorded."""

from ozzie_server_ext.domain.ids import SessionId, TaskId


class Idle:
    """A runner in which nothing runs."""

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        raise AssertionError("nothing is to run here")

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        return None

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        raise AssertionError("nothing is to wait here")
