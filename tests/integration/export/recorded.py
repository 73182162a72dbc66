"""A log with recorded sessions, and exports of them."""

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    EventBody,
    Origin,
    SessionForked,
    TaskFailed,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    TaskSucceeded,
    TaskUpdated,
    TaskWaitingApproval,
    ToolCallCompleted,
    ToolCallRequested,
    ToolCallStarted,
)
from ozzie_server_ext.domain.exports import Form
from ozzie_server_ext.domain.ids import (
    ApprovalId,
    CallId,
    MessageId,
    SessionId,
    TaskId,
    session_stream,
    task_stream,
)
from ozzie_server_ext.export.checking import Check, check
from ozzie_server_ext.export.proof import read_export
from ozzie_server_ext.export.service import Exports
from ozzie_server_ext.export.signing import public_key, signing_key
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.contents import DatabaseBlobs
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.tasks.sessions import Sessions
from tests.replay.histories import (
    approval_requested,
    call_completed,
    call_started,
    completed,
    draft,
    received,
    session_created,
    task_created,
)

SESSION, FORK, AGAIN = (SessionId(f"sess_01{letter * 24}") for letter in "ABC")
KEY = bytes(range(32))
ANOTHER_KEY = bytes(range(1, 33))
TRUSTED = [public_key(signing_key(KEY))]


class Home:
    """A log on disk, whose clock goes on by a minute with each turn."""

    def __init__(self, folder: Path, log: SqliteEventLog, clock: FakeClock) -> None:
        self.folder = folder
        self.log = log
        self.clock = clock
        self.key: bytes | None = KEY
        self.exports = self.exports_of(log)
        self._turns = 0

    @classmethod
    async def open(cls, folder: Path) -> "Home":
        clock = FakeClock()
        return cls(folder, await SqliteEventLog.open(folder / "ozzie.db", clock=clock, ids=UlidSource()), clock)

    def exports_of(self, log: EventLog) -> Exports:
        """Return exports of another view of the log."""
        blobs = DatabaseBlobs(self.log, FileBlobs(self.folder / "blobs"))
        return Exports(log, blobs, Sessions(log, UlidSource(), self.folder), self.clock, lambda: self.key)

    @property
    def database(self) -> Path:
        return self.folder / "ozzie.db"

    async def begin(self, session_id: SessionId = SESSION, *more: EventBody) -> None:
        bodies = (session_created(f"key {session_id}"), *more)
        await self.log.append(session_stream(session_id), [draft(body, session_id=session_id) for body in bodies])

    async def fork(self, parent: SessionId, session_id: SessionId) -> None:
        await self.begin(session_id, SessionForked(parent=parent, position=(await self.log.head()).position))

    async def say(self, text: str, *bodies: EventBody, session_id: SessionId = SESSION, ends: bool = True) -> MessageId:
        """Record a turn of Ana's with these facts in it; return the id of its message."""
        self._turns += 1
        self.clock.advance(60)
        task_id, message_id = TaskId(f"01{self._turns:024d}"), MessageId(f"01M{self._turns:023d}")
        message = replace(
            received(text, message_id=message_id), origin=Origin(channel="jupyter", sender_id="ana", sender_name="Ana")
        )
        facts: list[EventBody] = [
            message,
            replace(task_created(text[:60]), message_id=message_id),
            TaskQueued(reason="created"),
            TaskStarted(attempt=1, epoch="e"),
            *bodies,
        ]
        if ends and not any(isinstance(body, TaskFailed) for body in bodies):
            facts.append(TaskSucceeded(rounds=1))
        drafts = [draft(body, session_id=session_id, task_id=task_id) for body in facts]
        await self.log.append(task_stream(task_id), drafts)
        return message_id

    async def tell(self) -> None:
        """Record a session with a turn of each kind."""
        await self.begin()
        await self.say("What is 6 * 7?", *answered("1", "It is **42**."))
        await self.say("Write a.md", *approved_call(), *answered("2", "Written. größer 学习"))
        await self.say("Go on", TaskUpdated(text="And hurry", by="Ben"), *answered("3", "Done.", updates=1))
        await self.say("Fail", TaskFailed(kind="model", code="model.auth", message="No key.", hint="Give one."))
        await self.say("What is 6 * 7?", *answered("5", "It is **42**."))

    async def text(self, form: Form = "ipynb", session_id: SessionId = SESSION) -> str:
        return (await self.exports.export(session_id, form))[1]

    async def notebook(self, session_id: SessionId = SESSION) -> dict[str, Any]:
        return json.loads(await self.text(session_id=session_id))

    def check(self, exported: dict[str, Any] | str, *, log: bool = False, trusted: list[str] = TRUSTED) -> Check:
        """Check a file, with the log at hand or without."""
        text = exported if isinstance(exported, str) else json.dumps(exported)
        return check(read_export(text.encode()), trusted, self.database if log else self.folder / "nonesuch")

    async def erase(self, message_id: MessageId | None = None, session_id: SessionId = SESSION) -> None:
        await self.log.erase(Target("ana", session_id, message_id))


def answered(number: str, text: str, *, updates: int = 0) -> tuple[EventBody, ...]:
    """A model's call, which reads so many updates, and its answer."""
    return (
        replace(call_started(f"call{number}"), reply_id=f"reply{number}", updates=updates),
        call_completed(f"call{number}"),
        completed(f"reply{number}", text),
    )


def approved_call() -> tuple[EventBody, ...]:
    """A tool call that Ana approved."""
    call, approval = CallId("c1"), ApprovalId("a1")
    return (
        ToolCallRequested(
            call_id=call,
            use_id="u",
            tool_id="fs.write",
            name="write_file",
            version="1",
            args={"path": "a.md"},
            round=1,
            index=0,
        ),
        approval_requested("a1", "c1"),
        TaskWaitingApproval(approval_id=approval),
        ApprovalGranted(approval_id=approval, extent="once", by="Ana", way=AuthStrength.CLI),
        TaskResumed(by="Ana"),
        TaskStarted(attempt=1, epoch="e"),
        ToolCallStarted(call_id=call, approval_id=approval),
        ToolCallCompleted(call_id=call, ok=True, data={"lines": 1}, summary="1 line", duration_ms=3.0),
    )
