"""Tasks that carry something out for another one: each has a thread of its own, and counts for that."""

from dataclasses import dataclass
from typing import Literal

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import (
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
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import uncut
from ozzie_server_ext.tasks.service import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated:
    """What is to be carried out. `text` is said to whoever answers, or `call` is all there is to do. `task_id` is
    chosen by the caller, so that doing it again after a crash finds the task of before. `content` is what of the text,
    or of the call's arguments, came from outside. `caller` is who asked for the whole; `run` is the run of a skill that
    it is, where it is one; `said` is what was said to the task that delegates, for it to hear."""

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
    said: tuple[Event, ...] = ()


class Delegation:
    """Begins delegated tasks. Whoever runs tasks runs them, beside whatever else their session does."""

    def __init__(self, log: EventLog, runner: Runner) -> None:
        self._log = log
        self._runner = runner

    async def begin(self, wanted: Delegated, *, by: Recorder) -> bool:
        """Create the task, durably, and have it run. One that was begun before is left as it is: recovery saw to it;
        then it is False.

        Raises ClaimLost where the task that delegates is another attempt's by now.
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
        bodies: list[EventBody] = [created]  # first, for it says that what follows is no part of the session's thread
        if wanted.call is None:
            origin = Origin(channel=DELEGATED, sender_id=str(wanted.parent))
            bodies.append(MessageReceived(message_id=MessageId(wanted.task_id), text=wanted.text, origin=origin))
        if wanted.run is not None:
            bodies.append(wanted.run)
        drafts = [
            Draft(
                body=body,
                actor="kernel",
                source="delegation",
                session_id=wanted.session_id,
                task_id=wanted.task_id,
                trace_id=by.trace_id,
                labels=wanted.content.labels,
                sources=wanted.content.sources,
            )
            for body in (*bodies, TaskQueued(reason="created"))
        ]
        drafts[-1:-1] = [handed_on(event, wanted.task_id) for event in wanted.said]

        async def created_and_queued() -> None:
            await self._log.append(stream, drafts, expected_version=0, claim=by.claim)
            self._runner.enqueue(wanted.task_id, wanted.session_id, delegated=True)

        # Who delegates may let go of it in this moment, to be held: a task that is in the log is run by somebody.
        await uncut(created_and_queued())
        return True


def handed_on(event: Event, task_id: TaskId) -> Draft:
    """What was said to a task, as it is said to one that it delegated; once, however often that is recorded."""
    return Draft(
        body=event.body,
        actor="user",
        source="hub",
        session_id=event.session_id,
        task_id=task_id,
        causation_id=event.event_id,
        idempotency_key=f"update:{event.event_id}",
    )
