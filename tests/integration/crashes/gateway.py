"""The gateway's own program with four more tools, a model that asks for them, and points at which it can be held.

Nothing of it is changed on the way from a message to an effect: the points lie around the log's `append`, in the
writer's thread before and behind its COMMIT, in the tools and in the model. Run as a program, with the counter's port
in `CRASH_COUNTER` and the arguments of the gateway.
"""

import os
import sqlite3
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ozzie_server_ext import app
from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    ApprovalRejected,
    Draft,
    Event,
    MessageReceived,
    PromptAnswered,
    TaskStarted,
    TaskWaitingApproval,
    ToolCallCompleted,
    ToolCallStarted,
    ToolUse,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import ModelEvent, ModelRequest, TextDelta, finished
from ozzie_server_ext.programs import gateway
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store import writer
from ozzie_server_ext.store.admission import Append
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.texts import ArtifactTexts
from ozzie_server_ext.store.writer import Committed, Committer
from ozzie_server_ext.tasks import projects
from ozzie_server_ext.tasks.times import RECOVERY
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.integration.crashes.counter import Client
from tests.integration.crashes.runs import PORT, asked_for, run_of
from tests.integration.crashes.tools import crash_tools

COUNTER = Client(int(os.environ[PORT]))
_MOMENTS = {
    ApprovalGranted: "decision",
    ApprovalRejected: "decision",
    PromptAnswered: "decision",
    TaskStarted: "claim",
    TaskWaitingApproval: "asked",
    ToolCallStarted: "intent",
    ToolCallCompleted: "outcome",
}


@dataclass(frozen=True)
class _Moment:
    """What an append means for a run: `name` with the stage of the append is a point."""

    name: str
    task: str
    call: str = ""

    def point(self, stage: str) -> dict[str, str]:
        return {"point": f"{self.name}.{stage}", "task": self.task, "call": self.call}


def _moments(drafts: Iterable[Draft]) -> list[_Moment]:
    found: list[_Moment] = []
    for draft in drafts:
        name = "recovery" if draft.source == RECOVERY else _MOMENTS.get(type(draft.body), "")
        call = str(draft.body.call_id) if isinstance(draft.body, ToolCallStarted) else ""
        moment = _Moment(name, draft.task_id or "", call)
        if name and moment not in found:
            found.append(moment)
    return found


class HeldLog(SqliteEventLog):
    """Held before an append is handed to the writer, and after its caller has heard that it is durable."""

    async def append(self, stream: str, drafts: Sequence[Draft], **how: Any) -> tuple[Event, ...]:
        for draft in drafts:
            if isinstance(draft.body, MessageReceived):
                await COUNTER.ask_beside("name", run=run_of(asked_for(draft.body.text)[1]), task=draft.task_id)
        moments = _moments(drafts)
        for moment in moments:
            await COUNTER.ask_beside("pass", **moment.point("before"))
        events = await super().append(stream, drafts, **how)
        for moment in moments:
            await COUNTER.ask_beside("pass", **moment.point("after"))
        return events


class HeldCommitter(Committer):
    """Held with everything written and nothing committed, and between the COMMIT and the word that it was."""

    def __init__(self, connection: sqlite3.Connection, path: Path, texts: ArtifactTexts) -> None:
        self._moments: list[_Moment] = []
        super().__init__(connection, path, texts)
        connection.set_trace_callback(self._see)

    def commit(self, appends: Sequence[Append]) -> Committed:
        self._moments = [moment for append in appends for moment in _moments(each.draft for each in append.prepared)]
        committed = super().commit(appends)
        self._pass("committed")
        self._moments = []
        return committed

    def _see(self, statement: str) -> None:
        if statement == "COMMIT":
            self._pass("commit")

    def _pass(self, stage: str) -> None:
        for moment in self._moments:
            COUNTER.ask("pass", **moment.point(stage))


class AskingModel:
    """Asks for the tool that its message names, once, and says that it is done."""

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        tool, path = asked_for(next(each.content for each in reversed(request.messages) if each.role == "user"))
        text, uses = "", ()
        if any(message.role == "tool" for message in request.messages):
            await COUNTER.ask_beside("pass", run=run_of(path), point="answer")
            text = f"{run_of(path)} is done."
            yield TextDelta(text)
        else:
            uses = (ToolUse(call_id=CallId(f"{request.call_id}_1"), name=tool, arguments=dumps({"path": path})),)
        finish = "tool_calls" if uses else "stop"
        yield finished(text=text, finish=finish, tool_uses=uses, usage=Usage(), cost=0, ttft_ms=None)


def _tools() -> tuple[Tool, ...]:
    return (*builtin_tools(), *crash_tools(COUNTER))


def main() -> None:
    for place, name, held in (
        (projects, "builtin_tools", _tools),
        (app, "SqliteEventLog", HeldLog),
        (app, "OfflineDriver", AskingModel),
        (writer, "Committer", HeldCommitter),
    ):
        assert hasattr(place, name)
        setattr(place, name, held)
    gateway.main()


if __name__ == "__main__":
    main()
