"""`tasks/{task_id}/…`: what changes a task that is there already (TK-1)."""

from ozzie_server_ext.domain import ids
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.task_shapes import TaskRetried
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
