"""Work that a cancellation must not leave half done, and coroutines that begin before they get a task."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Ended(Generic[T]):
    """What came of work that did not wait for anything."""

    value: T


def eager(work: Coroutine[Any, Any, T]) -> "Ended[T] | asyncio.Task[T]":
    """`work`, which has begun: what it came to, or the task in which it goes on. Raises what it raises before it waits
    for something."""
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        return Ended(end.value)
    return asyncio.get_running_loop().create_task(_Rest(work, waits_for))


class _Rest(Coroutine[Any, Any, T]):
    """What is left of a coroutine that waits for `waits_for`: whoever drives it is told that first."""

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for
        self._is_told = False

    def send(self, value: Any, /) -> Any:
        if self._is_told:
            return self._work.send(value)
        self._is_told = True
        waits_for, self._waits_for = self._waits_for, None
        return waits_for

    def throw(self, *error: Any) -> Any:
        self._is_told = True
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        raise TypeError("It is for a task.")


async def uncut(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which goes on to its end however often the caller is cancelled; a cancellation is raised
    behind it. What `work` raises goes before that."""
    task = eager(work)
    if isinstance(task, Ended):
        return task.value
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except Exception:
            break  # told by the result
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
