"""Which tasks only wait for other tasks, or for what somebody tells them: no gateway has to stay up for these."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ozzie_server_ext.domain.ids import TaskId


class Resting:
    """What such a task waits for counts by itself: a task that runs does, one that waits for a person does not."""

    def __init__(self) -> None:
        self._asked: dict[TaskId, Callable[[], bool]] = {}

    @contextmanager
    def where(self, task_id: TaskId, rests: Callable[[], bool]) -> Iterator[None]:
        """Within it, that task rests as long as `rests` says so."""
        self._asked[task_id] = rests
        try:
            yield
        finally:
            del self._asked[task_id]

    def rests(self, task_id: TaskId) -> bool:
        """Whether it does now."""
        rests = self._asked.get(task_id)
        return rests is not None and rests()
