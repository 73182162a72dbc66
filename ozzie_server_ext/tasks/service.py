"""What may be done to tasks from outside: submit a message, cancel, look. Decides, appends, then the driver acts."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from ozzie_server_ext.agent.structured_output import expect_schema
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, VersionConflict
from ozzie_server_ext.domain.events import (
    Actor,
    Draft,
    EventBody,
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
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, is_ulid, task_stream
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.messages import MentionedPictures
from ozzie_server_ext.domain.tasks import FINAL, HELD, OPEN, TaskStatus
from ozzie_server_ext.protocol.codec import decode
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.delegated import with_delegated
from ozzie_server_ext.tasks.reconciliation import stopped, unfinished

MAX_MESSAGE_CHARS = 500_000
TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRequest:
    """A skill by name, and its input as typed: `key=value` each, or one text."""

    name: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A message on its way to become a task. Whoever takes it in builds it; it stays the same object down to the log.

    - `text`: the message, 1 to MAX_MESSAGE_CHARS characters, not blank. With a `skill` it only says how the run was
      requested, and may be empty.
    - `model`: an alias or a model's name, for this turn only; empty for the session's own model.
    - `message_id`: a fresh ULID of the sender's, which becomes the task's id too. Sent again with the same one, it is
      the same message. Senders that never repeat a message leave it out.
    - `attended`: whether somebody is there to answer questions.
    - `answer_schema`: a JSON Schema that the answer has to fit; ignored for a skill.
    - `content`: the labels of a message that is not a person's own. Channels, schedules and other tasks pass theirs on.
    - `skill`: run this skill in place of a turn.
    """

    session_id: SessionId
    text: str
    origin: Origin
    _: KW_ONLY
    model: str = ""
    message_id: MessageId | None = None
    attended: bool = True
    answer_schema: JsonObject | None = None
    content: Content = CLEAN
    skill: SkillRequest | None = None

    @property
    def message(self) -> str:
        """The text to record: for a skill without one, the command that would run it."""
        if self.text or self.skill is None:
            return self.text
        return " ".join(["%run", self.skill.name, *self.skill.words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """`position` is that of the first event of the turn: a feed from just before it misses nothing."""

    task_id: TaskId
    message_id: MessageId
    position: int
    ahead: int


class Runner(Protocol):
    """The part that carries tasks out (`tasks.driver`)."""

    def enqueue(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> int:
        """Run the task when those before it in its session are done; returns how many those are. One that was
        `delegated` by another waits for none."""
        ...

    def interrupt(self, task_id: TaskId, by: str, reason: str) -> SessionId | None:
        """Stop the task if it is running here; the session that it runs in then."""
        ...

    def hold(self, task_id: TaskId, session_id: SessionId, *, delegated: bool = False) -> None:
        """Run nothing in the session while the task waits for a person; where it was `delegated`, only not that one."""
        ...


class TaskService:
    """Tasks as clients see them."""

    def __init__(
        self,
        log: EventLog,
        ids: IdSource,
        runner: Runner,
        pictures: Callable[[str], Awaitable[MentionedPictures]] | None = None,
    ) -> None:
        """`pictures` takes in those that a message names. It raises InputError for what can't be shown."""
        self._log = log
        self._ids = ids
        self._runner = runner
        self._pictures = pictures
        # A message that comes twice at once is taken in once.
        self._sending_again = asyncio.Lock()

    async def submit(self, turn: NewTurn, limits: Limits, started: SkillStarted | None = None) -> Submitted:
        """Take in a message as a new task of its session: a turn, or the run of a skill that `started` begins. It is
        durable when this returns. Of two messages with the same id, the second returns the first one's task.

        Raises InputError for an empty or oversized message, a picture that can't be shown, an `answer_schema` that is
        no JSON Schema, and an id that is no ULID; Conflict for an id that stands for something else.
        """
        if started is None:
            _expect_sendable(turn.text)
        if turn.message_id is None:
            named = await self._look_at(turn, started)
            return await self._begin(TaskId(self._ids.new()), turn, limits, started, named)
        if not is_ulid(turn.message_id):
            raise InputError("The message's id is no ULID.", code="message.id")
        task_id = TaskId(turn.message_id)
        if taken := await self._taken(task_id, turn):
            return taken
        named = await self._look_at(turn, started)  # which may take a while: others send meanwhile
        async with self._sending_again:
            return await self._taken(task_id, turn) or await self._begin(task_id, turn, limits, started, named)

    async def _look_at(self, turn: NewTurn, started: SkillStarted | None) -> MentionedPictures:
        """Check the schema, and take in the pictures that the message names. Raises InputError."""
        if started is not None:
            return MentionedPictures()
        if turn.answer_schema is not None:
            await expect_schema(turn.answer_schema)
        return MentionedPictures() if self._pictures is None else await self._pictures(turn.text)

    async def _taken(self, task_id: TaskId, turn: NewTurn) -> Submitted | None:
        """Return what became of a message that was taken in before, or None. Raises Conflict."""
        events = await self._log.read_stream(task_stream(task_id))
        if not events:
            return None
        first = events[0].body
        if not isinstance(first, MessageReceived) or events[0].session_id != turn.session_id:
            raise Conflict("The message's id stands for something else.", code="message.id")
        return Submitted(task_id=task_id, message_id=MessageId(task_id), position=events[0].position, ahead=0)

    async def _begin(
        self, task_id: TaskId, turn: NewTurn, limits: Limits, started: SkillStarted | None, named: MentionedPictures
    ) -> Submitted:
        """Record the message and its task in one append, and queue the task."""
        message_id, origin = turn.message_id or MessageId(self._ids.new()), turn.origin
        received = MessageReceived(
            message_id=message_id, text=turn.message, origin=origin, pictures=named.pictures, absent=named.absent
        )
        created = TaskCreated(
            title=_title(turn.message),
            mode="FREE" if started is None else "GRAPH",
            message_id=message_id,
            limits=limits,
            thread_id=str(turn.session_id),
            scope_id=f"chat:{origin.channel}:{turn.session_id}",
            channel=origin.channel,
            sender_id=origin.sender_id,
            model=turn.model,
            attended=turn.attended,
            answer_schema=turn.answer_schema if started is None else None,
        )

        def draft(body: EventBody, content: Content = turn.content, actor: Actor = "kernel") -> Draft:
            return Draft(
                body=body,
                actor=actor,
                source="hub",
                session_id=turn.session_id,
                task_id=task_id,
                labels=content.labels,
                sources=content.sources,
            )

        drafts = [
            draft(received, actor="user"),  # what a person writes is theirs, also beside a picture that is not
            draft(created, turn.content | named.content),
            *([] if started is None else [draft(started)]),
            draft(TaskQueued(reason="created")),
        ]
        events = await self._log.append(task_stream(task_id), drafts, expected_version=0)
        ahead = self._runner.enqueue(task_id, turn.session_id)
        return Submitted(task_id=task_id, message_id=message_id, position=events[0].position, ahead=ahead)

    async def cancel(self, task_id: TaskId, *, by: str, reason: str = "") -> None:
        """Stop a task, running or not. When this returns, the wish is durable: a gateway that dies before the task has
        let go leaves it to the next one.

        Raises NotFound, or Conflict where it has ended already.
        """
        while True:
            running_in = self._runner.interrupt(task_id, by, reason)
            if running_in is not None:
                try:
                    await self._say([TaskCancelRequested(by=by, reason=reason)], task_id, running_in)
                except Conflict:  # it has ended by now, its end was asked for before, or it is just let go of
                    if (await self.get(task_id))["status"] in HELD:
                        await self._stop_delegated(task_id)
                return
            version = await self._log.version(task_stream(task_id))
            row = await self.get(task_id)
            status = TaskStatus(str(row["status"]))
            if status in FINAL:
                raise Conflict(f"The task has ended already: {status.lower()}.", code="task.ended")
            session_id = SessionId(str(row["session_id"])) if row["session_id"] else None
            events = await self._log.read_stream(task_stream(task_id))
            ends = [*stopped(unfinished(events).tools), TaskCancelled(by=by, reason=reason)]
            with contextlib.suppress(VersionConflict):  # somebody had something to say meanwhile: look again
                await self._say(ends, task_id, session_id, expected_version=version, content=content_of(events))
                # It may have been claimed since the look at its row: then it runs for nothing.
                self._runner.interrupt(task_id, by, reason)
                await self._stop_delegated(task_id)
                return

    async def _stop_delegated(self, task_id: TaskId) -> None:
        """What a task had delegated that did not run itself, so that nobody else sees to it."""
        is_open: dict[str, Json] = {"parent_id": task_id, "status": [str(status) for status in OPEN]}
        for row in await self._log.rows("tasks", where=is_open):
            with contextlib.suppress(Conflict):
                part = TaskId(str(row["task_id"]))
                await self.cancel(part, by="kernel", reason="The run that it was part of has ended.")

    async def _say(
        self,
        bodies: Sequence[EventBody],
        task_id: TaskId,
        session_id: SessionId | None,
        *,
        expected_version: int | None = None,
        content: Content = CLEAN,
    ) -> None:
        facts = await with_delegated(self._log, task_id, bodies)
        drafts = [
            Draft(
                body=body,
                actor="user",
                source="hub",
                session_id=session_id,
                task_id=task_id,
                labels=content.labels,
                sources=content.sources,
            )
            for body in facts
        ]
        await self._log.append(task_stream(task_id), drafts, expected_version=expected_version)

    async def get(self, task_id: TaskId) -> Row:
        """The task's row. Raises NotFound."""
        rows = await self._log.rows("tasks", where={"task_id": task_id}, limit=1) if is_ulid(task_id) else []
        if not rows:
            raise NotFound(f"There is no task {task_id[:40]}.", hint="List them with ozzie tasks list.")
        return rows[0]

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
        """The newest tasks first. `after`: the task that a page ended with; without `statuses`, those of any. With a
        `parent`, those that it has delegated."""
        where: dict[str, Json] = {"status": [str(status) for status in statuses]} if statuses else {}
        if parent is not None or not with_delegated:
            where["parent_id"] = parent
        if session_id:
            where["session_id"] = session_id
        return await self._log.rows("tasks", where=where, order_by="task_id", descending=True, after=after, limit=limit)


def limits_of(row: Row) -> Limits:
    """The limits that a task's row carries."""
    return decode(Limits, loads(str(row["limits"])))


def _expect_sendable(text: str) -> None:
    """Raises InputError for a message that is blank or too long."""
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
