"""What is said to turns while they go on, and how much of it their models were asked with."""

from collections import Counter
from dataclasses import replace
from typing import Generic, TypeVar

from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.driver import ChatMessage

T = TypeVar("T")


class Updates(Generic[T]):
    """The fold, of as many tasks as there are."""

    def __init__(self) -> None:
        self._pending: dict[TaskId | None, list[T]] = {}
        self._heard: Counter[TaskId | None] = Counter()

    def add(self, task_id: TaskId | None, said: T) -> None:
        self._pending.setdefault(task_id, []).append(said)

    def heard(self, task_id: TaskId | None, count: int) -> list[T]:
        """What of it has its place now that the model was asked with the first `count`."""
        pending = self._pending.get(task_id, [])
        fresh = pending[: max(count - self._heard[task_id], 0)]
        del pending[: len(fresh)]
        self._heard[task_id] += len(fresh)
        return fresh

    def pending(self, task_id: TaskId | None) -> tuple[T, ...]:
        """What the model of the task has not been asked with."""
        return tuple(self._pending.get(task_id, ()))

    def count(self, task_id: TaskId | None) -> int:
        return self._heard[task_id] + len(self._pending.get(task_id, ()))


def say_more(found: list[ChatMessage], words: str) -> None:
    """The user's words, within their last message where no answer stands between: some refuse two in a row."""
    last = found[-1] if found else None
    if last is not None and last.role == "user":
        found[-1] = replace(last, content=f"{last.content}\n\n{words}")
    else:
        found.append(ChatMessage(role="user", content=words))
