"""`tasks/{task_id}/…`: what changes a task that is there already (TK-1)."""

from dataclasses import dataclass

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Done, EventKey, EventName, TaskId, UpdateText, Words
from ozzie_server_ext.gateway.rest.task_shapes import TaskRetried, TaskTold
from ozzie_server_ext.gateway.rest.tasks import TaskQuery


async def retry_task(call: Call, asked: TaskQuery) -> TaskRetried:
    """Try a task again that failed or was stopped: a turn goes on from what was done of it, a run of a skill with what
    is missing."""
    done = await call.ozzie.control.retries.retry(ids.TaskId(asked.task_id), by=call.principal.name)
    return TaskRetried(
        task_id=done.task_id,
        attempt=done.attempt,
        ahead=done.ahead,
        rounds_left=done.rounds_left,
        steps_left=done.steps_left,
        tokens_left=done.tokens_left,
        cost_left=done.cost_left,
        time_left_s=done.time_left_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPause:
    """`reason` is kept with the task; empty stands for "by you"."""

    task_id: TaskId
    reason: Words = ""


async def pause_task(call: Call, asked: TaskPause) -> Done:
    """Hold a task: a turn before its next calls, a run of a skill before its next steps; those that run end."""
    await call.ozzie.control.pauses.pause(ids.TaskId(asked.task_id), by=call.principal.name, reason=asked.reason)
    return Done()


async def resume_task(call: Call, asked: TaskQuery) -> Done:
    """Let a task go on that is paused, or is about to be."""
    await call.ozzie.control.pauses.resume(ids.TaskId(asked.task_id), by=call.principal.name)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """`event` is a name that a step of the run waits for, `data` becomes the output of that step. With a `key` of the
    caller's, the same is told once, however often it is sent."""

    task_id: TaskId
    event: EventName
    data: JsonObject | None = None
    key: EventKey = ""


async def tell_task(call: Call, asked: TaskEvent) -> TaskTold:
    """Tell a run of a skill of something that happened outside. What comes before a step waits for it is kept, and
    counts for one."""
    task_id, by = ids.TaskId(asked.task_id), call.principal.name
    told = await call.ozzie.control.tells.tell(task_id, asked.event, asked.data, by=by, key=asked.key)
    return TaskTold(task_id=asked.task_id, event=asked.event, heard=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUpdate:
    """`text` is said to the task in the caller's words. With a `key` of the caller's, the same is said once, however
    often it is sent."""

    task_id: TaskId
    text: UpdateText
    key: EventKey = ""


async def update_task(call: Call, asked: TaskUpdate) -> Done:
    """Say something more to a task that goes on: a turn reads it at its next call of a model, a run of a skill hands it
    on to the steps that run and to those that begin."""
    task_id, by = ids.TaskId(asked.task_id), call.principal.name
    await call.ozzie.control.updates.update(task_id, asked.text, by=by, key=asked.key)
    return Done()
