"""What must not be left half done by a cancellation: somebody has to know whether it stands in the log."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ozzie_server_ext.store.eager import Ended, eager

T = TypeVar("T")


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
