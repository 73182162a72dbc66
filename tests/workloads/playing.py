"""Plays workloads through a real gateway without HTTP: turns, tools, rules, files are real, the model is a script."""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    Event,
    MessageCompleted,
    Origin,
    PromptRequested,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.service import NewTurn
from tests.scripted_gateway import ScriptedOzzie
from tests.workloads.workload import Workload

WAIT_S = 20
BEGIN = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
"""A Monday: when all of them are asked for."""
USER = Answerer(name="Ana", way=AuthStrength.BROWSER)
RESTS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input", "task.waiting_approval"})


class Pinned(SystemClock):
    """The machine's clock, as if it were that Monday."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=time.monotonic() - self._began)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What became of a workload: how its task ended, what it answered, how often a person was asked, which of its calls
    failed, and what the project held at the end."""

    workload: Workload
    end: str
    answer: str
    calls: int
    prompts: int
    failed: tuple[str, ...]
    project: Path

    def left(self, path: str) -> str | None:
        file = self.project / path
        return file.read_text() if file.exists() else None


class _ThatMonday(ScriptedOzzie):
    def __init__(self, home: Home, project: Path, jupyter: Jupyter) -> None:
        super().__init__(home, project, jupyter)
        self.clock = Pinned()


def play_all(workloads: Iterable[Workload], folder: Path) -> list[Played]:
    """Each in a home and a project of its own, below `folder`."""
    with _own_keys(folder / "user-config"):
        return [asyncio.run(play(workload, folder / str(index))) for index, workload in enumerate(workloads)]


async def play(workload: Workload, folder: Path) -> Played:
    project, home = folder / "project", Home(folder / "home")
    project.mkdir(parents=True)
    for path, text in workload.files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    home.create()
    ozzie = await _ThatMonday.start(home, project)
    assert isinstance(ozzie, _ThatMonday)
    try:
        ozzie.plays(*workload.script())
        session = await ozzie.sessions.open("n", title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        task_id = (await ozzie.submit(NewTurn(session.session_id, workload.message, origin))).task_id
        end = await _seen_through(ozzie, task_id, workload)
        events = await ozzie.log.read_stream(task_stream(task_id))
    finally:
        await ozzie.stop()
    return _played(workload, end, events, project)


async def _seen_through(ozzie: Ozzie, task_id: TaskId, workload: Workload) -> str:
    """Say yes to whatever is asked, as the user would; how the task ended, or where it stuck."""
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
        async for event in events:
            if event.type != "task.waiting_approval":
                return event.type
            for asked in await ozzie.approvals.list(task_id=task_id, statuses=["pending"]):
                await ozzie.approvals.approve(asked.approval_id, USER, extent=workload.extent, binds=asked.asked.binds)
    raise AssertionError("the feed does not end by itself")


def _played(workload: Workload, end: str, events: Iterable[Event], project: Path) -> Played:
    bodies = [event.body for event in events]
    return Played(
        workload=workload,
        end=end,
        answer="".join(body.text for body in bodies if isinstance(body, MessageCompleted)),
        calls=sum(isinstance(body, ToolCallRequested) for body in bodies),
        prompts=sum(isinstance(body, ApprovalRequested | PromptRequested) for body in bodies),
        failed=tuple(body.message for body in bodies if isinstance(body, ToolCallFailed)),
        project=project,
    )


@contextmanager
def _own_keys(folder: Path) -> Iterator[None]:
    """Keys of the user's own are neither read nor made."""
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("XDG_CONFIG_HOME")
        else:
            os.environ["XDG_CONFIG_HOME"] = before
