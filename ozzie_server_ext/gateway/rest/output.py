"""`tasks/{task_id}/output`: a turn as a cell shows it, for a page that did not see it come (NB-6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, TypeAlias, cast

from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.events import Transient
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import TaskId
from ozzie_server_ext.gateway.rest.task_shapes import TaskOutput, TaskState
from ozzie_server_ext.render.graph.output import graph_bundle
from ozzie_server_ext.render.static import static_bundle
from ozzie_server_ext.render.textparts import TextPart
from ozzie_server_ext.render.turn import fold
from ozzie_server_ext.store.replies import OpenReply
from ozzie_server_ext.tasks.folded_turns import FoldedTurn

Version: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{24}$", title="the version of an answer before")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutputQuery:
    """`known`: the `version` of the answer before. Where that is still how the turn is, the answer is 204."""

    task_id: TaskId
    known: Version | None = None


async def get_task_output(call: Call, asked: TaskOutputQuery) -> TaskOutput | None:
    """A task's turn as a cell shows it, as far as it is.

    Once it has ended, this is what its kernel wrote into the notebook, or would have.
    """
    task_id = ids.TaskId(asked.task_id)
    row = await call.ozzie.tasks.get(task_id)
    session_id = None if row["session_id"] is None else ids.SessionId(str(row["session_id"]))
    # Before the look at the events: a reply that is whole meanwhile stands in one of them.
    written = [(reply.reply_id, tuple(reply.so_far())) for reply in _replies(call, task_id)]
    turn = await call.ozzie.turns.get(task_id, session_id)
    view = turn.view
    if view.is_final:
        row = await call.ozzie.tasks.get(task_id)  # it may have ended since
    # As of before the look at the events: what is said to have ended is shown as it ended.
    status = cast("TaskState", row["status"])
    whole = {part.reply_id for part in view.parts if isinstance(part, TextPart) and part.done}
    said = [] if view.is_final else [item for reply_id, items in written if reply_id not in whole for item in items]
    version = _version(status, turn, said)
    if version == asked.known:
        return None
    if view.is_final:
        data, metadata = static_bundle(view, turn.graph)
        picture: JsonObject = {} if turn.graph is None else {**graph_bundle(turn.graph)}
        return TaskOutput(
            task_id=task_id, status=status, version=version, data=data, metadata=metadata, graph=picture, html=""
        )
    for item in said:
        view = fold(view, item.type, item.payload)
    html = turn.live.html(view, call.ozzie.clock.now())
    return TaskOutput(task_id=task_id, status=status, version=version, data={}, metadata={}, graph={}, html=html)


def _replies(call: Call, task_id: ids.TaskId) -> list[OpenReply]:
    """What is being written of the task's turn, and stands in no event yet."""
    return [reply for reply in call.ozzie.feed.open_replies if reply.task_id == task_id]


def _version(status: TaskState, turn: FoldedTurn, said: Sequence[Transient]) -> str:
    """Another one whenever anything but the time has changed. It says the same in another gateway, so that a page may
    go on asking where one took over."""
    digest = blake2b(f"{status} {turn.event_id}".encode(), digest_size=12)
    for item in said:
        # With its text, for a reply that was reset may have grown to the same length again.
        text = f"\0{item.type}\0{item.payload['reply_id']}\0{item.payload.get('content', '')}"
        digest.update(text.encode("utf-8", "replace"))
    return digest.hexdigest()
