"""Plays tasks through a real gateway without HTTP: turns, the gate and its rules are real, the services are fakes and
the model is a script."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    Event,
    MessageCompleted,
    Origin,
    PromptRequested,
    ToolCallFailed,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Step
from ozzie_server_ext.policy.words import Confirmation
from ozzie_server_ext.tasks.service import NewTurn
from tests.office.task import Task
from tests.office.world import World, new_world
from tests.scripted_gateway import ScriptedOzzie
from tests.workloads.playing import RESTS, USER, WAIT_S
from tests.workloads.workload import Called, Seen

Script = Sequence[Callable[[ModelRequest], Sequence[Step]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What became of a task: how its turns ended (the first that failed, if any did), what the last one answered, what
    was called in all turns, by which rules a person was asked, why calls failed, and the world and the files as they
    were left."""

    task: Task
    end: str
    answer: str
    calls: tuple[Called, ...]
    asked: tuple[str, ...]
    failed: tuple[str, ...]
    world: World
    files: dict[str, str]

    @property
    def mistakes(self) -> list[str]:
        """What did not come out as the task wants it."""
        found = {
            f"it ended with {self.end}": self.end != "task.succeeded",
            f"it answered {self.answer!r}": self.task.says not in self.answer,
            f"calls failed: {self.failed}": len(self.failed) != self.task.fails,
            "the world is another": not self.task.then(self.world),
            f"files are {self.files}": any(self.files.get(name) != text for name, text in self.task.leaves.items()),
        }
        return [words for words, is_wrong in found.items() if is_wrong]


class Office:
    """A gateway with the services of one office, which is reset before each task."""

    def __init__(self, ozzie: ScriptedOzzie, project: Path) -> None:
        self._ozzie = ozzie
        self._project = project
        self.world = new_world()
        for tool in self.world.tools():
            ozzie.projects.own.tools.register(tool)
        self._played = 0

    async def begin(self, task: Task) -> SessionId:
        """Reset the office, write the task's files, and open a session for it."""
        self.world.reset()
        for path, text in task.files.items():
            (self._project / path).parent.mkdir(parents=True, exist_ok=True)
            (self._project / path).write_text(text)
        self._played += 1
        return (await self._ozzie.sessions.open(f"n{self._played}", title=task.name, channel="notebook")).session_id

    async def send(self, session_id: SessionId, said: str) -> TaskId:
        """Send a message that the user typed into a cell and ran, as the page confirms it."""
        origin = Origin(channel="notebook", sender_id="ana")
        people = (await self._ozzie.projects.own.rules.refresh()).people
        confirmation = Confirmation.of("ana", "cell", said, people=people)
        return (await self._ozzie.submit(NewTurn(session_id, said, origin, confirmation=confirmation))).task_id

    async def play(self, task: Task) -> Played:
        """In a session of its own. A person says yes to all that is asked, once each."""
        session_id = await self.begin(task)
        events: list[Event] = []
        calls: list[Called] = []
        ends: list[str] = []
        for said, script in task.turns():
            self._ozzie.plays(*script[:-1], _kept(script[-1], calls))
            task_id = await self.send(session_id, said)
            ends.append(await seen_through(self._ozzie, task_id))
            events += await self._ozzie.log.read_stream(task_stream(task_id))
        bodies = [event.body for event in events]
        answers = [body.text for body in bodies if isinstance(body, MessageCompleted)]
        asked = [body.rule for body in bodies if isinstance(body, ApprovalRequested)]
        asked += ["ask_user" for body in bodies if isinstance(body, PromptRequested)]
        return Played(
            task=task,
            end=next((end for end in ends if end != "task.succeeded"), "task.succeeded"),
            answer=answers[-1] if answers else "",
            calls=tuple(calls),
            asked=tuple(asked),
            failed=tuple(body.message for body in bodies if isinstance(body, ToolCallFailed)),
            world=copy.deepcopy(self.world),
            files={name: _text(self._project / name) for name in task.leaves},
        )


def _kept(last: Callable[[ModelRequest], Sequence[Step]], calls: list[Called]) -> Callable[..., Sequence[Step]]:
    """The last round of a script, which adds to `calls` what the model has seen by then."""

    def play(request: ModelRequest) -> Sequence[Step]:
        calls.extend(Seen(request).calls)
        return last(request)

    return play


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def seen_through(ozzie: Ozzie, task_id: TaskId) -> str:
    """Say yes to whatever is asked; how the task ended."""
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
        async for event in events:
            if event.type != "task.waiting_approval":
                return event.type
            for asked in await ozzie.approvals.list(task_id=task_id, statuses=["pending"]):
                await ozzie.approvals.approve(asked.approval_id, USER, binds=asked.asked.binds)
    raise AssertionError("the feed does not end by itself")


@asynccontextmanager
async def gateway(
    folder: Path, rules: str = "", config: JsonObject | None = None
) -> AsyncIterator[tuple[ScriptedOzzie, Path]]:
    """A gateway and its project, both below `folder`. `rules` is the text of the user's file of rules; without one, it
    has their address book as contacts. Keys of the user's own are neither read nor made."""
    project, home = folder / "project", Home(folder / "home")
    project.mkdir(parents=True)
    home.create()
    if config is not None:
        home.config_file.write_text(json.dumps(config))
    home.policy_file.write_text(rules or json.dumps({"contacts": {"named": new_world().contacts.by_name()}}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
        ozzie = await ScriptedOzzie.start(home, project)
        assert isinstance(ozzie, ScriptedOzzie)
        try:
            yield ozzie, project
        finally:
            await ozzie.stop()


async def _play_all(tasks: Iterable[Task], folder: Path) -> list[Played]:
    async with gateway(folder) as (ozzie, project):
        office = Office(ozzie, project)
        return [await office.play(task) for task in tasks]


def play_all(tasks: Iterable[Task], folder: Path) -> list[Played]:
    """Play each in a session of one gateway, below `folder`."""
    return asyncio.run(_play_all(tasks, folder))
