"""Creation of delegated tasks. Each has its own thread, and its use counts for the tasks above it."""

from typing import Literal

import msgspec

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import (
    HUB,
    Brief,
    Draft,
    Event,
    EventBody,
    GivenCall,
    Limits,
    MessageReceived,
    Origin,
    SkillStarted,
    TaskCreated,
    TaskQueued,
)
from ozzie_server_ext.domain.ids import GATEWAY, MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.tasks.service import TaskQueue


class Delegated(msgspec.Struct, frozen=True, kw_only=True):
    """A task to delegate. It has a `text` for a model, or one `call`. The caller chooses `task_id`, so that a repeat
    after a crash finds the earlier task. `content` is the provenance of the text or the call's arguments; `caller` is
    the origin of the first request; `run` is set for the run of a skill; `updates` are those of the delegating task."""

    task_id: TaskId
    parent: TaskId
    session_id: SessionId
    title: str
    limits: Limits
    caller: Origin
    step: str = ""
    text: str = ""
    call: GivenCall | None = None
    brief: Brief | None = None
    model: str = ""
    mode: Literal["FREE", "GRAPH"] = "FREE"
    attended: bool = True
    answer_schema: JsonObject | None = None
    content: Content = CLEAN
    run: SkillStarted | None = None
    updates: tuple[Event, ...] = ()


class Delegation:
    """Creates delegated tasks, which run beside the other tasks of their session."""

    def __init__(self, log: EventLog, queue: TaskQueue) -> None:
        self._log = log
        self._queue = queue

    async def begin(self, wanted: Delegated, *, by: Recorder) -> bool:
        """Create the task durably and queue it. Return False if it exists, since recovery has queued it.

        Raises ClaimLost if another attempt has the delegating task now.
        """
        stream = task_stream(wanted.task_id)
        if await self._log.version(stream):
            return False
        created = TaskCreated(
            title=wanted.title,
            mode=wanted.mode,
            message_id=MessageId(wanted.task_id),
            limits=wanted.limits,
            thread_id=str(wanted.task_id),
            scope_id=f"task:{wanted.parent}",
            channel=wanted.caller.channel,
            sender_id=wanted.caller.sender_id,
            model=wanted.model,
            attended=wanted.attended,
            answer_schema=wanted.answer_schema,
            parent=wanted.parent,
            step=wanted.step,
            brief=wanted.brief,
            call=wanted.call,
        )
        bodies: list[EventBody] = [created]  # first, because it keeps the following out of the session's conversation
        if wanted.call is None:
            origin = Origin(channel=DELEGATED, sender_id=str(wanted.parent))
            bodies.append(MessageReceived(message_id=MessageId(wanted.task_id), text=wanted.text, origin=origin))
        if wanted.run is not None:
            bodies.append(wanted.run)
        drafts = [
            Draft(
                body=body,
                actor=GATEWAY,
                source="delegation",
                session_id=wanted.session_id,
                task_id=wanted.task_id,
                labels=wanted.content.labels,
                sources=wanted.content.sources,
            )
            for body in (*bodies, TaskQueued(reason="created"))
        ]
        drafts[-1:-1] = [forwarded(event, wanted.task_id) for event in wanted.updates]

        async def created_and_queued() -> None:
            await self._log.append(stream, drafts, expected_version=0, claim=by.claim)
            self._queue.enqueue(wanted.task_id, wanted.session_id, delegated=True)

        # The delegating task may be paused at this moment, but a task in the log must be queued.
        await shielded(created_and_queued())
        return True


def forwarded(event: Event, task_id: TaskId) -> Draft:
    """Return an update of a task for one that it delegated, with a key that makes repeats harmless."""
    return Draft(
        body=event.body,
        actor="user",
        source=HUB,
        session_id=event.session_id,
        task_id=task_id,
        causation_id=event.event_id,
        idempotency_key=f"update:{event.event_id}",
    )
