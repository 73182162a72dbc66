"""What may be done to tasks from outside: submit a message, cancel, look. Decides, appends, then the driver acts."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ozzie_server_ext.agent.structured_output import expect_schema
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, VersionConflict
from ozzie_server_ext.domain.events import (
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
from ozzie_server_ext.domain.messages import Named
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
        pictures: Callable[[str], Awaitable[Named]] | None = None,
    ) -> None:
        """`pictures` takes in those that a message names. It raises InputError for what can't be shown."""
        self._log = log
        self._ids = ids
        self._runner = runner
        self._pictures = pictures
        # A message that comes twice at once is taken in once.
        self._sending_again = asyncio.Lock()

    async def submit(
        self,
        session_id: SessionId,
        text: str,
        origin: Origin,
        *,
        limits: Limits,
        model: str = "",
        message_id: MessageId | None = None,
        attended: bool = True,
        answer_schema: JsonObject | None = None,
        content: Content = CLEAN,
    ) -> Submitted:
        """Take in a message as a new turn of its session. It is durable when this returns. `content` is what of the
        message is not a person's own: who submits for a channel, a schedule or another task hands it on.

        A sender that may have to send a message twice gives it an id, a fresh ULID, which is its task's as well: the
        second time, nothing happens but that the same task is named. Raises InputError for an empty or oversized
        message, for a picture that can't be shown, for an `answer_schema` that is none and for an id that is none,
        Conflict for one that stands for something else.
        """
        if not text.strip():
            raise InputError("The message is empty.", hint="Write what you want to ask.", code="message.empty")
        if len(text) > MAX_MESSAGE_CHARS:
            raise InputError(
                f"The message has {len(text):,} characters; at most {MAX_MESSAGE_CHARS:,} are taken.",
                hint="Put the text into a file of the project and name the file.",
                code="message.too_long",
            )
        begin = partial(
            self._begin,
            session_id=session_id,
            text=text,
            origin=origin,
            limits=limits,
            model=model,
            attended=attended,
            answer_schema=answer_schema,
            content=content,
        )
        if message_id is None:
            return await begin(TaskId(self._ids.new()), named=await self._looked_at(text, answer_schema))
        if not is_ulid(message_id):
            raise InputError("The message's id is no ULID.", code="message.id")
        task_id = TaskId(message_id)
        if taken := await self._taken(task_id, session_id, message_id):
            return taken
        named = await self._looked_at(text, answer_schema)  # which may take a while: others send meanwhile
        async with self._sending_again:
            taken = await self._taken(task_id, session_id, message_id)
            return taken or await begin(task_id, named=named, message_id=message_id)

    async def _looked_at(self, text: str, answer_schema: JsonObject | None) -> Named:
        if answer_schema is not None:
            await expect_schema(answer_schema)
        return Named() if self._pictures is None else await self._pictures(text)

    async def _taken(self, task_id: TaskId, session_id: SessionId, message_id: MessageId) -> Submitted | None:
        """What became of a message that was taken in before; None where it was not."""
        events = await self._log.read_stream(task_stream(task_id))
        if not events:
            return None
        first = events[0].body
        if not isinstance(first, MessageReceived) or events[0].session_id != session_id:
            raise Conflict("The message's id stands for something else.", code="message.id")
        return Submitted(task_id=task_id, message_id=message_id, position=events[0].position, ahead=0)

    async def _begin(
        self,
        task_id: TaskId,
        *,
        session_id: SessionId,
        text: str,
        named: Named,
        origin: Origin,
        limits: Limits,
        model: str,
        attended: bool,
        answer_schema: JsonObject | None,
        content: Content,
        message_id: MessageId | None = None,
        started: SkillStarted | None = None,
    ) -> Submitted:
        message_id = message_id or MessageId(self._ids.new())
        bodies: list[EventBody] = [
            MessageReceived(
                message_id=message_id, text=text, origin=origin, pictures=named.pictures, absent=named.absent
            ),
            TaskCreated(
                title=_title(text),
                mode="FREE" if started is None else "GRAPH",
                message_id=message_id,
                limits=limits,
                thread_id=str(session_id),
                scope_id=f"chat:{origin.channel}:{session_id}",
                channel=origin.channel,
                sender_id=origin.sender_id,
                model=model,
                attended=attended,
                answer_schema=answer_schema,
            ),
            *([] if started is None else [started]),
            TaskQueued(reason="created"),
        ]
        events = await self._log.append(
            task_stream(task_id),
            [
                Draft(
                    body=body,
                    actor="user" if isinstance(body, MessageReceived) else "kernel",
                    source="hub",
                    session_id=session_id,
                    task_id=task_id,
                    labels=made_from.labels,
                    sources=made_from.sources,
                )
                for body in bodies
                # What a person writes is theirs, also beside a picture that is not.
                for made_from in (content | named.content if isinstance(body, TaskCreated) else content,)
            ],
            expected_version=0,
        )
        ahead = self._runner.enqueue(task_id, session_id)
        return Submitted(task_id=task_id, message_id=message_id, position=events[0].position, ahead=ahead)

    async def run_skill(
        self,
        session_id: SessionId,
        started: SkillStarted,
        text: str,
        origin: Origin,
        *,
        limits: Limits,
        model: str = "",
        message_id: MessageId | None = None,
        attended: bool = True,
        content: Content = CLEAN,
    ) -> Submitted:
        """Begin a run of a skill as a task of its session; `text` is how the person asked for it. It is durable when
        this returns. `message_id`, and what it raises, as `submit`."""
        async with self._sending_again:
            if message_id is not None:
                if not is_ulid(message_id):
                    raise InputError("The message's id is no ULID.", code="message.id")
                if taken := await self._taken(TaskId(message_id), session_id, message_id):
                    return taken
            return await self._begin(
                TaskId(message_id or self._ids.new()),
                session_id=session_id,
                text=text,
                named=Named(),
                origin=origin,
                limits=limits,
                model=model,
                attended=attended,
                answer_schema=None,
                content=content,
                message_id=message_id,
                started=started,
            )

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


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…"
