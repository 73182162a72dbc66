"""Tasks that wait for an approval, in a log in memory."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import REQUEST_EXPIRES_S, AuthStrength, SessionGrant
from ozzie_server_ext.domain.events import (
    ApprovalRefused,
    ApprovalRequested,
    Draft,
    EventBody,
    Limits,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import (
    APPROVALS_STREAM,
    ApprovalId,
    CallId,
    MessageId,
    PromptId,
    SessionId,
    TaskId,
    task_stream,
)
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.approvals import Answerer, Approvals
from ozzie_server_ext.tools.base import ModelQuestion
from ozzie_server_ext.tools.questions import prompt_of

ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
BEN = Answerer(name="Ben", way=AuthStrength.CLI)
S1, S2 = SessionId("sess_1"), SessionId("sess_2")
NOTES = SessionGrant(
    tool_id="fs.write",
    version="1",
    project="/p",
    rule="default.changes",
    below=(("notes",),),
    labels=(),
    said="`write_file` in `notes/`",
)


def kernel_of(session_id: SessionId) -> Answerer:
    return Answerer(name="kernel", way=AuthStrength.RELAY, session_id=session_id)


class Waiting:
    """`wait` makes a task that asks; then look at what answers do to its `bodies`."""

    def __init__(self, log: EventLog | None = None, clock: FakeClock | None = None, home: Home | None = None) -> None:
        self.clock = clock or FakeClock()
        self.ids = CountingIds()
        self.log = log or InMemoryEventLog(self.clock, self.ids)
        self.approvals = Approvals(self.log, self.clock, home)

    async def wait(
        self,
        *calls: str,
        session_id: SessionId = S1,
        needs: AuthStrength = AuthStrength.RELAY,
        cover: SessionGrant | None = None,
        expires_s: float = REQUEST_EXPIRES_S,
        standing: str = "",
    ) -> tuple[TaskId, list[ApprovalId]]:
        """A task that asks for these calls, and their approvals."""
        task_id = TaskId(self.ids.new())
        asking: list[EventBody] = []
        found: list[ApprovalId] = []
        for index, call in enumerate(calls or ("a",)):
            asked = self.requested(call, index, needs=needs, cover=cover, expires_s=expires_s, standing=standing)
            found.append(asked.approval_id)
            asking += [_call(asked, index), asked]
        created = TaskCreated(title="t", mode="FREE", message_id=MessageId(self.ids.new()), limits=Limits())
        begun = (created, TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
        await self.record(task_id, [*begun, *asking, TaskWaitingApproval(approval_id=found[0])], session_id)
        return task_id, found

    async def one(self, **how: Any) -> tuple[TaskId, ApprovalId]:
        """A task that asks for one call."""
        task_id, (approval_id,) = await self.wait(**how)
        return task_id, approval_id

    async def question(self) -> tuple[TaskId, CallId]:
        """A task in which the model asks the person something, and the call by which it does."""
        task_id, call_id = TaskId(self.ids.new()), CallId(self.ids.new())
        created = TaskCreated(title="t", mode="FREE", message_id=MessageId(self.ids.new()), limits=Limits())
        begun = (created, TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
        call = ToolCallRequested(
            call_id=call_id, use_id="u", tool_id="user.ask", name="ask_user", version="1", args={}, round=1, index=0
        )
        prompt = prompt_of(ModelQuestion(text="Tea?"), PromptId(self.ids.new()), call_id)
        await self.record(task_id, [*begun, call, prompt, TaskWaitingInput(question="Tea?")])
        return task_id, call_id

    async def calls(self, task_id: TaskId) -> list[CallId]:
        """The calls of a task, in the order in which they were asked for."""
        return [body.call_id for body in await self.bodies(task_id) if isinstance(body, ToolCallRequested)]

    def requested(
        self,
        call: str,
        index: int = 0,
        *,
        needs: AuthStrength = AuthStrength.RELAY,
        cover: SessionGrant | None = None,
        expires_s: float,
        standing: str = "",
    ) -> ApprovalRequested:
        return ApprovalRequested(
            approval_id=ApprovalId(self.ids.new()),
            call_id=CallId(self.ids.new()),
            tool_id="fs.write",
            name="write_file",
            sentence=f"Write `{call}`?",
            proof="",
            shown="",
            whole=None,
            reason="",
            rule="default.changes",
            place="",
            side_effect=SideEffect.REVERSIBLE,
            risk_level=RiskLevel.MEDIUM,
            undo="",
            binds=f"binds {call}",
            needs=needs,
            cover=cover,
            key=f"t-1-{index}",
            expires_at=time_text(self.clock.now() + timedelta(seconds=expires_s)),
            standing=standing,
        )

    async def record(self, task_id: TaskId, bodies: Sequence[EventBody], session_id: SessionId = S1) -> None:
        drafts = [
            Draft(body=body, actor="kernel", source="agent", session_id=session_id, task_id=task_id) for body in bodies
        ]
        await self.log.append(task_stream(task_id), drafts)

    async def bodies(self, task_id: TaskId, behind: int = 0) -> list[EventBody]:
        """Those of a task, behind so many of them."""
        return [event.body for event in await self.log.read_stream(task_stream(task_id))][behind:]

    async def refused(self) -> list[ApprovalRefused]:
        found = [event.body for event in await self.log.read_stream(APPROVALS_STREAM)]
        return [body for body in found if isinstance(body, ApprovalRefused)]

    async def status(self, task_id: TaskId) -> str:
        (row,) = await self.log.rows("tasks", where={"task_id": task_id})
        return str(row["status"])


def _call(asked: ApprovalRequested, index: int) -> ToolCallRequested:
    return ToolCallRequested(
        call_id=asked.call_id,
        use_id=f"use-{index}",
        tool_id=asked.tool_id,
        name=asked.name,
        version="1",
        args={},
        round=1,
        index=index,
    )
