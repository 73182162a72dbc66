"""Work that a cancellation must not interrupt, and coroutines that start before they get a task."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Ended(msgspec.Struct, Generic[T]):
    """The result of work that did not have to wait."""

    value: T


def eager_task(work: Coroutine[Any, Any, T]) -> "Ended[T] | asyncio.Task[T]":
    """Start `work`; return its result, or the task in which it continues. Raises what it raises before it waits."""
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        return Ended(end.value)
    return asyncio.get_running_loop().create_task(_Rest(work, waits_for))


class _Rest(Coroutine[Any, Any, T]):
    """The rest of a coroutine that waits for `waits_for`, which its driver has to get first."""

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for
        self._is_started = False

    def send(self, value: Any, /) -> Any:
        if self._is_started:
            return self._work.send(value)
        self._is_started = True
        waits_for, self._waits_for = self._waits_for, None
        return waits_for

    def throw(self, *error: Any) -> Any:
        self._is_started = True
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        raise TypeError("It is for a task.")


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which runs to its end however often the caller is cancelled; the cancellation is
    raised afterwards, unless `work` raises: a caller that goes on then must call `expect_not_cancelled`."""
    task = eager_task(work)
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
            break  # raised by `result`
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


def expect_not_cancelled() -> None:
    """Raise CancelledError if the running task is to be cancelled, which an error of `shielded` work kept back."""
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise asyncio.CancelledError
