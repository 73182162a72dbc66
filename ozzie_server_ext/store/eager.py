"""Beginning work where it is, and giving it a task only once it has to wait for something.

A turn of the event loop costs more than most of what is done in one. As the eager tasks of Python 3.12, which 3.11 does
not have; but for one thing: up to where it first waits, the current task is the caller's. So what begins by
`asyncio.timeout` or a task group is not for this.
"""

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
