"""`tasks/{task_id}/output`: a turn as a cell shows it, for a page that did not see it come (NB-6)."""

from typing import cast

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import TaskOutput, TaskState
from ozzie_server_ext.gateway.rest.tasks import TaskQuery, events_of
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.live import live_html
from ozzie_server_ext.render.static import static_bundle
from ozzie_server_ext.render.turn import TurnView, fold, new_turn


async def get_task_output(call: Call, asked: TaskQuery) -> TaskOutput:
    """A task's turn as a cell shows it, as far as it is.

    Once it has ended, this is what its kernel wrote into the notebook, or would have.
    """
    task_id = ids.TaskId(asked.task_id)
    row = await call.ozzie.tasks.get(task_id)
    view = new_turn(task_id=task_id, session_id=str(row["session_id"] or ""))
    async for event in events_of(call.ozzie.log, task_id):
        view = _fold(view, event)
    if not view.is_final:
        # What is being written stands in no event yet.
        for reply in call.ozzie.feed.open_replies:
            if reply.task_id == task_id:
                for item in reply.so_far():
                    view = fold(view, item.type, item.payload)
    data, metadata = static_bundle(view)
    return TaskOutput(
        task_id=task_id,
        # As of before the look at the events: what is said to have ended is shown as it ended.
        status=cast("TaskState", row["status"]),
        data=data,
        metadata=metadata,
        html="" if view.is_final else live_html(view, call.ozzie.clock.now()),
    )


def _fold(view: TurnView, event: Event) -> TurnView:
    """As a kernel folds the event's frame: labels stand on the envelope, and are shown on a tool's row."""
    payload = encode(event.body)
    return fold(view, event.type, {**payload, "labels": list(event.labels)} if event.labels else payload, event.ts)
