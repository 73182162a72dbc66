"""Submits, cancels, finds and lists tasks for clients, and hands new ones to the driver."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

import msgspec

from ozzie_server_ext.agent.structured_output import expect_schema
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, VersionConflict
from ozzie_server_ext.domain.events import (
    HUB,
    Actor,
    Draft,
    EventBody,
    GivenCall,
    Limits,
    MessageReceived,
    Origin,
    SkillStarted,
    TaskCancelled,
    TaskCancelRequested,
    TaskCreated,
    TaskQueued,
    content_of,
)
from ozzie_server_ext.domain.ids import GATEWAY, MessageId, SessionId, TaskId, is_ulid, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.messages import GivenPicture, MentionedPictures, mentioned_pictures
from ozzie_server_ext.domain.tasks import FINAL, TaskStatus
from ozzie_server_ext.policy.words import Confirmation
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.reconciliation import stopped, unfinished
from ozzie_server_ext.tasks.rows import find_task, open_tasks, session_of, task_of, user_recorder, with_delegated

MAX_MESSAGE_CHARS = 500_000
TITLE_LENGTH = 80
NOT_PLAIN = "It is not just a message of a person who is there, so it is no keyword of a skill: an agent answers it."
"""Why an agent answers a message with a model, a schema or a picture of its own, of a sender that is no person, or of
one whom nobody can ask."""


class SkillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A skill and its input as typed: `key=value` words, or one text."""

    name: str
    words: tuple[str, ...] = ()


class NewTurn(msgspec.Struct, frozen=True):
    """A message to a session. `Intake` decides what becomes of it: a turn or a run, or the answer to a question or an
    update of an open task.

    - `text`: 1 to MAX_MESSAGE_CHARS characters, not blank. With a `skill`, how the run was requested; may be empty.
    - `model`: an alias or a model's name for this turn; empty for the session's model.
    - `message_id`: a new ULID of the sender, which becomes the task's id. A message with a known id is a repeat.
      Senders that never repeat a message leave it out.
    - `attended`: whether a person can answer questions.
    - `answer_schema`: a JSON Schema that the answer must fit; ignored for a skill.
    - `content`: the provenance of a message that is not a person's own (from a channel, a schedule or a task).
    - `skill`: run this skill instead of a turn.
    - `pictures`: those that come with the message; ignored for a skill.
    - `named`: which pictures of the project may come with it, of those that the text names; None for all.
    - `source`: the part of the gateway that took it.
    - `confirmation`: that a person is known to have sent it, and what they typed of it.
    - `first`: what it calls of MCP servers before its model is asked (`tasks.message_calls`).
    - `may_update`: it may be an update of a running task. Not if the sender shows its answer by itself, as a cell does.
    """

    session_id: SessionId
    text: str
    origin: Origin
    model: str = ""
    message_id: MessageId | None = None
    attended: bool = True
    answer_schema: JsonObject | None = None
    content: Content = CLEAN
    skill: SkillRequest | None = None
    pictures: tuple[GivenPicture, ...] = ()
    named: tuple[str, ...] | None = None
    source: str = HUB
    confirmation: Confirmation | None = None
    may_update: bool = False
    first: tuple[GivenCall, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is the words of a person who is there and no more, so that it can be meant for a task of the
        session."""
        has_more = self.skill or self.model or self.answer_schema is not None
        has_more = has_more or self.first or self.pictures or any(mentioned_pictures(self.text))
        return self.attended and not self.content and not has_more

    @property
    def recorded_text(self) -> str:
        """The text for the log: for a skill without one, the command that would run it."""
        if self.text or self.skill is None:
            return self.text
        return " ".join(["%run", self.skill.name, *self.skill.words])


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """`position` is the first event that followed: subscribe from just before it to miss nothing. `ahead` counts the
    tasks before it in the queue. `became`: a task of its own, or the answer to a question or an update of `task_id`,
    from `position` on."""

    task_id: TaskId
    message_id: MessageId
    session_id: SessionId
    position: int
    ahead: int
    became: Literal["task", "answer", "update"] = "task"


class TaskQueue(Protocol):
    """Runs queued tasks, one after another in each session (`tasks.driver`)."""

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        """Run the task after those before it in its session; return their number. A `delegated` task waits for none."""
        ...

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        """If the task is running here, stop it and return its session."""
        ...

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        """Run nothing else in the session while the task waits or is paused. A `delegated` task blocks only itself.
        Only recovery calls this, and a replay in its place, for the tasks that wait at the start; later, the queue
        follows the log's events."""
        ...


class TaskService:
    """Tasks as clients see them."""

    def __init__(
        self,
        log: EventLog,
        ids: IdSource,
        queue: TaskQueue,
        pictures: Callable[[NewTurn], Awaitable[MentionedPictures]] | None = None,
    ) -> None:
        """`pictures` stores those of a message; it raises InputError if one can't be shown."""
        self._log = log
        self._ids = ids
        self._queue = queue
        self._pictures = pictures
        # Two repeats of a message at the same time become one task.
        self._submitting = asyncio.Lock()

    async def submit(
        self, turn: NewTurn, limits: Limits, run: SkillStarted | None = None, why: str = NOT_PLAIN
    ) -> Submitted:
        """Create a task from a message: the run of a skill that `run` begins, or else a turn. `why` is the reason. The
        task is durable when this returns. A repeated message id returns the task of the first.

        Raises InputError for an empty or too long message, a picture that can't be shown, an invalid `answer_schema`
        or id; Conflict if the id belongs to something else.
        """
        if run is None:
            _expect_sendable(turn.text)
        if turn.message_id is None:
            pictures = await self._prepare(turn, run)
            return await self._create(TaskId(self._ids.new()), turn, limits, run, why, pictures)
        if not is_ulid(turn.message_id):
            raise InputError("The message's id is not a ULID.", code="message.id")
        task_id = TaskId(turn.message_id)
        if known := await self._known(task_id, turn):
            return known
        pictures = await self._prepare(turn, run)  # may take a while, so outside of the lock
        async with self._submitting:
            return await self._known(task_id, turn) or await self._create(task_id, turn, limits, run, why, pictures)

    async def _prepare(self, turn: NewTurn, run: SkillStarted | None) -> MentionedPictures:
        """Check the schema and store the pictures. Raises InputError."""
        if run is not None:
            return MentionedPictures()
        if turn.answer_schema is not None:
            await expect_schema(turn.answer_schema)
        return MentionedPictures() if self._pictures is None else await self._pictures(turn)

    async def _known(self, task_id: TaskId, turn: NewTurn) -> Submitted | None:
        """Return the task of a message that was submitted before, or None. Raises Conflict."""
        events = await self._log.read_stream(task_stream(task_id))
        if not events:
            return None
        first = events[0].body
        if not isinstance(first, MessageReceived) or events[0].session_id != turn.session_id:
            raise Conflict("The message's id stands for something else.", code="message.id")
        return Submitted(
            task_id=task_id,
            message_id=MessageId(task_id),
            session_id=turn.session_id,
            position=events[0].position,
            ahead=0,
        )

    async def _create(
        self,
        task_id: TaskId,
        turn: NewTurn,
        limits: Limits,
        run: SkillStarted | None,
        why: str,
        pictures: MentionedPictures,
    ) -> Submitted:
        """Record the message and its task in one append, and queue the task."""
        message_id, origin = turn.message_id or MessageId(self._ids.new()), turn.origin
        received = MessageReceived(
            message_id=message_id,
            text=turn.recorded_text,
            origin=origin,
            pictures=pictures.pictures,
            absent=pictures.absent,
        )
        created = TaskCreated(
            title=_title(turn.recorded_text),
            mode="FREE" if run is None else "GRAPH",
            mode_reason=why,
            message_id=message_id,
            limits=limits,
            thread_id=str(turn.session_id),
            scope_id=f"chat:{origin.channel}:{turn.session_id}",
            channel=origin.channel,
            sender_id=origin.sender_id,
            model=turn.model,
            attended=turn.attended,
            answer_schema=turn.answer_schema if run is None else None,
            first=turn.first,
        )

        def draft(
            body: EventBody, content: Content = turn.content, actor: Actor = GATEWAY, key: str | None = None
        ) -> Draft:
            return Draft(
                body=body,
                actor=actor,
                source=turn.source,
                session_id=turn.session_id,
                task_id=task_id,
                idempotency_key=key,
                labels=content.labels,
                sources=content.sources,
            )

        drafts = [
            # The text is the person's own, even beside a picture that is not.
            draft(received, actor="user", key=message_id),
            *([] if turn.confirmation is None else [draft(turn.confirmation.fact(message_id), actor="user")]),
            draft(created, turn.content | pictures.content),
            *([] if run is None else [draft(run)]),
            draft(TaskQueued(reason="created")),
        ]
        events = await self._log.append(task_stream(task_id), drafts, expected_version=0)
        ahead = self._queue.enqueue(task_id, turn.session_id)
        return Submitted(
            task_id=task_id,
            message_id=message_id,
            session_id=turn.session_id,
            position=events[0].position,
            ahead=ahead,
        )

    async def cancel(self, task_id: TaskId, *, by: str, reason: str = "") -> None:
        """Cancel a task, running or not. The request is durable when this returns: if the gateway dies before the task
        has stopped, the next one ends it.

        Raises NotFound, or Conflict if it has ended already.
        """
        while True:
            running_in = self._queue.interrupt(task_id, by, reason)
            if running_in is not None:
                requested = TaskCancelRequested(by=by, reason=reason)
                try:
                    await user_recorder(self._log, running_in, task_id).append(requested)
                except Conflict:  # it has ended, its end was requested before, or it now waits
                    if (await self.get(task_id))["status"] != TaskStatus.RUNNING:  # else its driver cancels them
                        await self._cancel_delegated(task_id)
                return
            version = await self._log.version(task_stream(task_id))
            row = await self.get(task_id)
            status = TaskStatus(str(row["status"]))
            if status in FINAL:
                raise Conflict(f"The task has ended already: {status.lower()}.", code="task.ended")
            events = await self._log.read_stream(task_stream(task_id))
            ends = [*stopped(unfinished(events).tools), TaskCancelled(by=by, reason=reason)]
            recorder = user_recorder(self._log, session_of(row), task_id).made_from(content_of(events))
            facts = await with_delegated(self._log, task_id, ends)
            with contextlib.suppress(VersionConflict):  # the task has changed meanwhile: check again
                await recorder.append(*facts, expected_version=version)
                # It may have been claimed since its row was read; then it must not go on.
                self._queue.interrupt(task_id, by, reason)
                await self._cancel_delegated(task_id)
                return

    async def _cancel_delegated(self, task_id: TaskId) -> None:
        """Cancel the open tasks that were delegated by a task which was not running, so that nobody else does it."""
        for row in await open_tasks(self._log, parent_id=task_id):
            with contextlib.suppress(Conflict):
                await self.cancel(task_of(row), by=GATEWAY, reason="The run that it was part of has ended.")

    async def get(self, task_id: TaskId) -> Row:
        """Return the task's row. Raises NotFound."""
        row = await find_task(self._log, task_id) if is_ulid(task_id) else None
        if row is None:
            raise NotFound(f"There is no task {task_id[:40]}.", hint="List them with ozzie tasks list.")
        return row

    async def list(
        self,
        *,
        limit: int = 50,
        after: TaskId | None = None,
        session_id: SessionId | None = None,
        statuses: Sequence[TaskStatus] = (),
        parent: TaskId | None = None,
        with_delegated: bool = True,
    ) -> list[Row]:
        """Return the newest tasks first. `after` is the last task of the page before; empty `statuses` mean all;
        `parent` selects the tasks that it delegated."""
        where: dict[str, Json] = {"status": [str(status) for status in statuses]} if statuses else {}
        if parent is not None or not with_delegated:
            where["parent_id"] = parent
        if session_id:
            where["session_id"] = session_id
        return await self._log.rows("tasks", where=where, order_by="task_id", descending=True, after=after, limit=limit)


def _expect_sendable(text: str) -> None:
    """Raise InputError if a message is blank or too long."""
    if not text.strip():
        raise InputError("The message is empty.", hint="Write what you want to ask.", code="message.empty")
    if len(text) > MAX_MESSAGE_CHARS:
        raise InputError(
            f"The message has {len(text):,} characters; at most {MAX_MESSAGE_CHARS:,} are taken.",
            hint="Put the text into a file of the project and name the file.",
            code="message.too_long",
        )


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…"
