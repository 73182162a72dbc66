"""Turns with many tools in a real gateway: what fits is offered, the log says what was, and a kill changes nothing.

The gateway, its log, its rules and the tools are real; what the model says is written down here.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    Brief,
    EventBody,
    Limits,
    Origin,
    TaskFailed,
    ToolCallCompleted,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import objects
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Round, Say, ScriptedDriver, Use
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.workflows.delegation import Delegated, Delegation
from tests.integration.tasks.many_tools_gateway import FIND, ask, parts, start

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 30
RESTS = frozenset({"task.succeeded", "task.failed", "task.waiting_input", "task.waiting_approval"})
SHOP = Content.of(Label.MCP, ["shop"])
WRITE = Use("write_file", {"path": "notes/b.md", "text": "As I was told.\n"})
DONE: Round = [Say("Done.")]
ALLOW_NOTES = {
    "id": "notes",
    "decision": "allow",
    "reason": "Notes are Ozzie's.",
    "when": {"tools": ["write_file"], "paths": ["notes/**"]},
    "examples": {"match": [{"tool": "write_file", "args": {"path": "notes/a.md"}}]},
}
NO_REFUNDS = {
    "id": "no-refunds",
    "decision": "deny",
    "reason": "Refunds are for people.",
    "when": {"tools": ["refund.*"]},
    "examples": {"match": [{"tool": "assign_refund"}]},
}


class Bench:
    """A gateway with many tools, and what came of its turns."""

    def __init__(self, ozzie: Ozzie, model: ScriptedDriver) -> None:
        self.ozzie = ozzie
        self.model = model

    @property
    def offered(self) -> list[list[str]]:
        """In each request, by name."""
        return [names(request) for request in self.model.requests]

    async def turn(self, said: str) -> TaskId:
        task_id = await ask(self.ozzie, said)
        await self.rests(task_id)
        return task_id

    async def delegated(self, text: str, *tools: str) -> TaskId:
        """A task of another one that may use these tools."""
        session = await self.ozzie.sessions.open("n", title="n", channel="notebook")
        above = Recorder(log=self.ozzie.log, session_id=session.session_id, task_id=TaskId(self.ozzie.ids.new()))
        wanted = Delegated(
            task_id=TaskId(self.ozzie.ids.new()),
            parent=above.task_id,
            session_id=above.session_id,
            title="t",
            limits=Limits(),
            caller=Origin(channel="notebook"),
            text=text,
            brief=Brief(tools=tools),
        )
        await Delegation(self.ozzie.log, self.ozzie.driver).begin(wanted, by=above)
        return wanted.task_id

    async def rests(self, task_id: TaskId) -> str:
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
            return (await anext(events)).type

    async def bodies(self, task_id: TaskId) -> list[EventBody]:
        return [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]

    async def toolsets(self, task_id: TaskId) -> list[ToolsetInjected]:
        return [body for body in await self.bodies(task_id) if isinstance(body, ToolsetInjected)]

    async def injected(self, task_id: TaskId) -> list[list[str]]:
        return [[tool.name for tool in body.tools] for body in await self.toolsets(task_id)]

    async def asked(self, task_id: TaskId) -> list[ApprovalRequested]:
        return [body for body in await self.bodies(task_id) if isinstance(body, ApprovalRequested)]


Begin = Callable[..., Awaitable[Bench]]


def names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


@pytest.fixture
async def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Begin]:
    """Starts a gateway whose model plays these rounds."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    running: list[Ozzie] = []
    with ExitStack() as stack:

        async def begin(*rounds: Round | Use, told_by: Content = CLEAN, **files: object) -> Bench:
            for name, content in files.items():
                (tmp_path / "home").mkdir(mode=0o700, exist_ok=True)
                (tmp_path / f"home/{name}.jsonc").write_text(json.dumps(content))
            script = [[each] if isinstance(each, Use) else each for each in rounds]
            model = stack.enter_context(parts(script, told_by))
            running.append(await start(tmp_path))
            return Bench(running[-1], model)

        yield begin
        for ozzie in running:
            assert (await ozzie.log.verify()).ok
            assert await ozzie.log.dump() == await ozzie.log.rebuild()
            await ozzie.stop()


async def test_the_right_tool_of_a_hundred_and_fifty_is_offered_and_recorded(begin: Begin) -> None:
    bench = await begin(Use("assign_refund", {}), DONE)

    task_id = await bench.turn("Please assign the refund to Ana.")

    first, second = bench.offered
    assert "assign_refund" in first
    assert "create_tram" not in first
    assert len(first) <= 40
    assert second == first
    (toolset,) = await bench.toolsets(task_id)
    versions = {tool.meta.name: tool.meta.version for tool in bench.ozzie.projects.own.tools.all()}
    assert [(tool.name, tool.version) for tool in toolset.tools] == [(name, versions[name]) for name in first]
    (done,) = [body for body in await bench.bodies(task_id) if isinstance(body, ToolCallCompleted)]
    assert done.data == "assign_refund"


async def test_a_tool_that_was_left_out_is_found_and_can_be_called_then(begin: Begin) -> None:
    bench = await begin(FIND, Use("assign_reactor", {}), DONE)

    task_id = await bench.turn("Say hello.")

    first, second, third = bench.offered
    assert ("assign_reactor" in first, "find_tools" in first) == (False, True)
    assert "assign_reactor" in second
    assert second[: len(first)] == first
    assert third == second
    assert await bench.injected(task_id) == [first, second]
    found, done = [body for body in await bench.bodies(task_id) if isinstance(body, ToolCallCompleted)]
    assert isinstance(found.data, dict)
    assert objects(found.data["tools"])[0] == {"name": "assign_reactor", "does": "Assign a reactor to another person."}
    assert done.data == "assign_reactor"


async def test_after_a_kill_the_turn_goes_on_with_the_same_tools(begin: Begin, tmp_path: Path) -> None:
    """With kill -9, between what was found and the first word behind it; the settings are others by then."""
    said = "Please close the refund."
    module = "tests.integration.tasks.many_tools_gateway"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, str(tmp_path), said, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    waiting, task = (await asyncio.wait_for(child.stdout.readline(), WAIT_S)).decode().split()
    child.kill()
    await child.wait()
    assert waiting == "waiting"

    bench = await begin(Use("assign_reactor", {}), DONE, config={"tools": {"max_offered": 20, "always": []}})
    assert await bench.rests(TaskId(task)) == "task.succeeded"

    first, second = await bench.injected(TaskId(task))
    assert "close_refund" in first
    assert second[: len(first)] == first
    assert "assign_reactor" in second[len(first) :]
    assert bench.offered == [second, second], "nothing is gone, and it is told once"


async def test_what_a_rule_denies_is_not_offered_and_not_found(begin: Begin) -> None:
    bench = await begin(Use("find_tools", {"query": "assign refund"}), DONE, policy={"rules": [NO_REFUNDS]})

    task_id = await bench.turn("Please assign_refund: the refund to Ana.")

    assert not [name for each in bench.offered for name in each if "refund" in name]
    (found,) = [body for body in await bench.bodies(task_id) if isinstance(body, ToolCallCompleted)]
    assert '"assign_ticket"' in str(json.dumps(found.data))
    assert "refund" not in json.dumps(found.data)


async def test_the_settings_say_how_many_and_which_are_always_offered(begin: Begin) -> None:
    bench = await begin(DONE, config={"tools": {"max_offered": 5, "always": ["create_tram", "not_here", "fs.read"]}})

    await bench.turn("Please assign the refund to Ana.")

    (offered,) = bench.offered
    assert len(offered) == 5
    assert {"create_tram", "read_file", "find_tools"} <= set(offered)


# --- a pinned set: what a skill names ------------------------------------------------------------------------------


async def test_a_delegated_task_is_offered_exactly_what_its_brief_names(begin: Begin) -> None:
    bench = await begin(FIND, DONE)

    task_id = await bench.delegated("Please assign the refund to Ana.", "create_tram", "file_read")

    assert await bench.rests(task_id) == "task.succeeded"
    assert bench.offered == [["create_tram", "read_file"]] * 2
    assert await bench.injected(task_id) == [["create_tram", "read_file"]]


async def test_one_whose_brief_names_a_tool_that_is_not_there_fails_before_anybody_is_asked(begin: Begin) -> None:
    bench = await begin()

    task_id = await bench.delegated("Hello.", "creat_tram")

    assert await bench.rests(task_id) == "task.failed"
    (failed,) = [body for body in await bench.bodies(task_id) if isinstance(body, TaskFailed)]
    assert (failed.code, failed.message) == ("tool.unknown", 'There is no tool "creat_tram".')
    assert failed.hint == 'The nearest is "create_tram".'


# --- tools that somebody outside described ---------------------------------------------------------------------------


async def test_who_is_offered_none_of_an_outsiders_tools_is_not_asked(begin: Begin) -> None:
    bench = await begin(WRITE, DONE, told_by=SHOP, policy={"rules": [ALLOW_NOTES]})

    assert await bench.asked(await bench.turn("Write the note.")) == []
    assert (bench.ozzie.project / "notes/b.md").exists()


@pytest.mark.parametrize("said", ["Assign the refund, then write the note.", "Use `create_tram`, then write."])
async def test_who_is_offered_one_is_asked(begin: Begin, said: str) -> None:
    bench = await begin(WRITE, DONE, told_by=SHOP, policy={"rules": [ALLOW_NOTES]})

    (asked,) = await bench.asked(await bench.turn(said))

    assert (asked.rule, asked.made_from) == ("floor.outside", "what a server of tools said (shop)")
    assert not (bench.ozzie.project / "notes/b.md").exists()


async def test_who_has_found_one_is_asked(begin: Begin) -> None:
    bench = await begin(FIND, WRITE, DONE, told_by=SHOP, policy={"rules": [ALLOW_NOTES]})

    (asked,) = await bench.asked(await bench.turn("Write the note."))

    assert asked.rule == "floor.outside"
