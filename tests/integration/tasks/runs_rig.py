"""A gateway with skills whose model answers by a rule, for tests of what becomes of runs."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    Event,
    EventBody,
    Origin,
    SkillCompleted,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.approvals import Answerer, Approval
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest
from tests.scripted_gateway import ScriptedOzzie

ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
RESTS = frozenset({"task.succeeded", "task.failed", "task.cancelled"})
WAIT_S = 20
T = TypeVar("T", bound=EventBody)
F = TypeVar("F", StepStarted, StepCompleted, StepFailed)
Answer = Callable[[ModelRequest], Sequence[Step]]


def asked(request: ModelRequest) -> str:
    """The last thing that was said to the model."""
    return request.messages[-1].content


def echo(request: ModelRequest) -> Sequence[Step]:
    return [Say(f"<{asked(request).splitlines()[0]}>")]


class Runs:
    """A gateway with skills, whose model answers by a rule. All is said in the session of one notebook."""

    notebook = "n"

    def __init__(self, ozzie: ScriptedOzzie) -> None:
        self.ozzie = ozzie
        self.answers(echo)

    def answers(self, answer: Answer, most: int = 60) -> None:
        self.ozzie.plays(*([answer] * most))

    def write(self, **skill: Any) -> None:
        (self.ozzie.home.root / "skills" / f"{skill['name']}.jsonc").write_text(json.dumps(skill))

    def workflow(self, *steps: dict[str, Any], **more: Any) -> None:
        self.write(name="w", type="workflow", steps=list(steps), **more)

    async def begin(self, name: str = "w", attended: bool = True, **given: Any) -> TaskId:
        session = await self.ozzie.sessions.open(self.notebook, title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        words = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in given.items()]
        sent = await self.ozzie.submit(
            NewTurn(
                session.session_id, "", origin, attended=attended, skill=SkillRequest(name=name, words=tuple(words))
            )
        )
        return sent.task_id

    async def run(self, name: str = "w", **given: Any) -> TaskId:
        task_id = await self.begin(name, **given)
        await self.rests(task_id)
        return task_id

    async def rests(self, task_id: TaskId) -> str:
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
            return (await anext(events)).type

    async def until(self, task_id: TaskId, kind: type[EventBody], count: int = 1) -> None:
        """Wait until the task has recorded so many facts of that kind."""
        types = frozenset({kind.type})
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=types, task_id=task_id) as events:
            for _ in range(count):
                await anext(events)

    async def facts(self, task_id: TaskId, kind: type[T]) -> list[T]:
        bodies = [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]
        return [body for body in bodies if isinstance(body, kind)]

    async def say(self, text: str, attended: bool = True) -> TaskId:
        """A message to the agent, whose turn has begun."""
        session = await self.ozzie.sessions.open(self.notebook, title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        return (await self.ozzie.submit(NewTurn(session.session_id, text, origin, attended=attended))).task_id

    async def step(self, kind: type[F], wanted: Callable[[F], bool] = lambda fact: True) -> F:
        """The first fact of that kind that is wanted, once there is one."""
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=frozenset({kind.type})) as events:
            async for event in events:
                if isinstance(event, Event) and isinstance(event.body, kind) and wanted(event.body):
                    return event.body
        raise AssertionError("the feed ended")

    async def restart(self) -> None:
        """Stop the gateway and start another one on its home."""
        self.ozzie = await self.ozzie.again()

    async def outputs(self, task_id: TaskId) -> dict[str, Any]:
        return {fact.step_id: fact.output for fact in await self.facts(task_id, StepCompleted)}

    async def result(self, task_id: TaskId) -> Any:
        (done,) = await self.facts(task_id, SkillCompleted)
        return done.output

    async def pending(self) -> Approval:
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0) as events:
            while not (found := await self.ozzie.approvals.list(statuses=["pending"])):
                await anext(events)
        return found[0]

    async def approve(self) -> Approval:
        asked = await self.pending()
        await self.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
        return asked

    async def reject(self, comment: str) -> None:
        asked = await self.pending()
        await self.ozzie.approvals.reject(asked.approval_id, ANA, comment=comment)


R = TypeVar("R", bound=Runs)


@asynccontextmanager
async def runs_in(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[R]) -> AsyncIterator[R]:
    """With a home and a project of its own. At the end, the log is whole."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir()
    ozzie = await ScriptedOzzie.start(home, project)
    assert isinstance(ozzie, ScriptedOzzie)
    runs = kind(ozzie)
    yield runs
    await expect_whole(runs.ozzie.log)
    await runs.ozzie.stop()


async def expect_whole(log: EventLog) -> None:
    """The log holds together, and a rebuild gives the same tables. If they differ, something that ended in the
    background may have been recorded between the two; then they are compared once more."""
    assert (await log.verify()).ok
    if await log.dump() != await log.rebuild():
        assert await log.dump() == await log.rebuild()


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runs]:
    async with runs_in(tmp_path, monkeypatch, Runs) as runs:
        yield runs
