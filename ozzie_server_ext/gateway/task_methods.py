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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPause:
    task_id: str
    reason: str = ""


async def task_pause(call: Call) -> JsonObject:
    """Hold a task; a kernel may those of its own session."""
    asked = decode(TaskPause, call.params)
    await call.expect_own(TaskId(asked.task_id), "pause")
    await call.ozzie.control.pauses.pause(TaskId(asked.task_id), by=call.principal.name, reason=asked.reason)
    return {}


async def task_resume(call: Call) -> JsonObject:
    """Let a task go on that is held; a kernel may those of its own session."""
    task_id = TaskId(decode(TaskNamed, call.params).task_id)
    await call.expect_own(task_id, "resume")
    await call.ozzie.control.pauses.resume(task_id, by=call.principal.name)
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTell:
    task_id: str
    event: str
    data: JsonObject | None = None
    key: str = ""


async def task_tell(call: Call) -> JsonObject:
    """Tell a run of something that happened outside; a kernel may those of its own session."""
    asked = decode(TaskTell, call.params)
    task_id = TaskId(asked.task_id)
    await call.expect_own(task_id, "tell")
    by = call.principal.name
    return {"heard": await call.ozzie.control.tells.tell(task_id, asked.event, asked.data, by=by, key=asked.key)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUpdate:
    task_id: str
    text: str
    key: str = ""


async def task_update(call: Call) -> JsonObject:
    """Say something more to a task; a kernel may to those of its own session."""
    asked = decode(TaskUpdate, call.params)
    await call.expect_own(TaskId(asked.task_id), "update")
    by = call.principal.name
    await call.ozzie.control.updates.update(TaskId(asked.task_id), asked.text, by=by, key=asked.key)
    return {}


TASK_METHODS: dict[str, Callable[[Call], Awaitable[JsonObject]]] = {
    "task.retry": task_retry,
    "task.pause": task_pause,
    "task.resume": task_resume,
    "task.tell": task_tell,
    "task.update": task_update,
}
