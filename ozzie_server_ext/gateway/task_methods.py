"""The methods by which what goes on is changed: see the operations of REST of the same names."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.call import Call
from ozzie_server_ext.protocol.codec import decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNamed:
    task_id: str


async def task_retry(call: Call) -> JsonObject:
    """Try a task again that failed or was stopped; a kernel may those of its own session."""
    task_id = TaskId(decode(TaskNamed, call.params).task_id)
    await call.expect_own(task_id, "retry")
    return encode(await call.ozzie.control.retries.retry(task_id, by=call.principal.name))


TASK_METHODS: dict[str, Callable[[Call], Awaitable[JsonObject]]] = {"task.retry": task_retry}
